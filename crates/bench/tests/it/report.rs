//! The contents of the page and their order.

use crate::sample::{self, Changed, ran, rounds, single};
use paceline_bench::{Record, read_lines, report, summarize};

/// The text of the page without tags.
fn text(records: &[Record]) -> String {
    let page = report(records);
    let (_, body) = page.split_once("<body>").unwrap();
    let mut out = String::new();
    let mut is_tag = false;
    for letter in body.chars() {
        match letter {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                out.push(' ');
            }
            letter if !is_tag => out.push(letter),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn place(text: &str, part: &str) -> usize {
    text.find(part)
        .unwrap_or_else(|| panic!("{part:?} is not in: {text}"))
}

#[test]
fn the_top_shows_the_ratio_and_that_nothing_was_lost() {
    let text = text(&sample::good_day());
    let nothing_lost = place(&text, "Nothing lost: all 84 checks hold");
    let times = place(
        &text,
        "115 × as many updates per second with paceline as with direct",
    );
    let table = place(
        &text,
        "half took at most 99 of 100 took at most direct 1,030 249 ms 746 ms",
    );
    let figures = place(&text, "All figures");
    assert!(nothing_lost < times && times < table && table < figures);
    place(
        &text,
        "0.8 × as many requests per second with paceline as with direct: slower",
    );
    place(&text, "Nothing: every run ran, and no turn failed.");
    assert!(!text.to_lowercase().contains("check failed"), "{text}");
}

#[test]
fn a_failed_check_is_first_and_hides_the_rate() {
    let mut records = single("queue", "cte", 600.0, 71_200.0);
    records.push(
        ran("paceline", 256, 4, 71_200.0)
            .of("queue", "cte")
            .broken("one order is lost"),
    );
    let page = report(&records);
    assert!(page.contains("<section class=\"verdict bad\" role=\"alert\">"));
    let text = text(&records);
    let failed = place(&text, "Check failed 1 of 7 checks failed");
    assert!(failed < place(&text, "queue cte, 256 clients, paceline one order is lost"));
    assert!(!text.contains("as many units per second"), "{text}");
    place(&text, "✗ FAILED: one order is lost");
}

#[test]
fn a_run_that_did_not_run_has_its_reason() {
    let storm = |record: Record| record.of("storm", "two-updates");
    let refused = |round| {
        storm(ran("direct", 8_000, round, 1.0).refused("53300: sorry, too many clients already"))
    };
    let ran = storm(ran("paceline", 8_000, 1, 21_400.0).with_errors(
        "57014",
        12_345,
        "canceling statement",
    ));
    let text = text(&[refused(1), refused(2), ran]);
    place(&text, "2 runs could not run");
    place(&text, "paceline: 12,345 turns failed");
    place(
        &text,
        "21,400 requests per second with paceline ; direct did not run",
    );
    place(
        &text,
        "storm two-updates, 8,000 clients, direct 2 53300: sorry, too many clients already",
    );
    place(
        &text,
        "storm two-updates, 8,000 clients, paceline 12,345 57014: canceling statement",
    );
    assert!(report(&[refused(1)]).contains("Nothing ran"));
}

#[test]
fn each_column_of_bars_has_its_own_scale() {
    let mut records = [ran("a", 8, 1, 50.0), ran("b", 8, 1, 200.0)];
    for (record, dead_rows) in records.iter_mut().zip([None, Some(0.0)]) {
        if let paceline_bench::RunResult::Ran(ran) = &mut record.result {
            ran.cost.dead_rows = dead_rows;
        }
    }
    let page = report(&records);
    let quarter = "50</span><span class=\"bar\"><span style=\"width:25.00%\">";
    for bar in [quarter, "width:100.00%", "width:0.00%"] {
        assert!(page.contains(bar), "{bar}: {page}");
    }
}

#[test]
fn different_servers_have_a_column_each() {
    let mut records = rounds("old", 8, 100.0);
    records.extend(rounds("new", 8, 100.0));
    place(&text(&records), "The server, the same for all targets");
    for record in &mut records[3..] {
        record.server.version = "18.1".to_owned();
    }
    let text = text(&records);
    place(&text, "The servers, which differ");
    place(&text, "PostgreSQL 15.18 18.1");
    place(
        &text,
        "paceline bench hot-row --clients 1,8,64,256 --rounds 3",
    );
}

#[test]
fn texts_from_records_are_escaped() {
    let page = report(&sample::bad_day());
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<i>"));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn a_page_without_records_says_that_nothing_ran() {
    assert!(text(&[]).contains("Nothing ran"));
}

#[test]
fn records_survive_writing_and_reading() {
    let records = sample::bad_day();
    let lines = records.iter().map(|record| record.to_line().unwrap());
    let file = lines.collect::<Vec<_>>().join("\n\n");
    assert_eq!(read_lines(&file).unwrap(), records);
    let (line, why) = read_lines(&format!("{file}\n{{\"version\": 1}}")).unwrap_err();
    assert_eq!(line, records.len() * 2);
    assert!(why.contains("missing field"), "{why}");
}

#[test]
fn rounds_are_combined() {
    let mut records = rounds("direct", 8, 1_000.0);
    records[1] = records[1]
        .clone()
        .in_groups(7.0)
        .with_errors("40001", 2, "first");
    records[2] = records[2]
        .clone()
        .in_groups(9.0)
        .with_errors("40001", 3, "second");
    records.push(ran("direct", 8, 4, 1.0).refused("away"));
    let rows = summarize(&records);
    let cell = &rows[0].cells[0];
    let figures = cell.figures.as_ref().unwrap();
    assert_eq!(
        (figures.rate.min, figures.rate.median, figures.rate.max),
        (960.0, 1_000.0, 1_050.0)
    );
    assert_eq!(figures.groups, records[1].ran().unwrap().groups);
    assert_eq!(
        (
            figures.failed_turns(),
            figures.errors["40001"].first.as_str()
        ),
        (5, "first")
    );
    assert_eq!(cell.failed, ["away"]);
}

#[test]
fn runs_without_a_check_are_not_called_failed() {
    let mut record = ran("direct", 8, 1, 1_000.0).of("sql", "transfer.sql");
    if let paceline_bench::RunResult::Ran(ran) = &mut record.result {
        ran.check = None;
    }
    let text = text(&[record]);
    place(&text, "Not checked No check: only its author knows");
    assert!(!text.contains("Nothing ran"), "{text}");
}
