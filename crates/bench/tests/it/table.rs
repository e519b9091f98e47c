//! The table on the terminal: remarks besides the figures.

use crate::sample::{Changed, ran, rounds};
use paceline_bench::{ReadsResult, Record, RunResult, TrendPart, report, summarize, table};

/// The line that contains `part`.
fn line(records: &[Record], part: &str) -> String {
    let table = table(records, false);
    let line = table.lines().find(|line| line.contains(part));
    line.unwrap_or_else(|| panic!("no {part:?} in: {table}"))
        .trim()
        .to_owned()
}

#[test]
fn rounds_that_did_not_run_are_reported_beside_others() {
    let mut records = rounds("direct", 8, 1_000.0);
    assert!(table(&records, false).contains("every check holds"));
    records.push(ran("direct", 8, 4, 1.0).refused("53300: too many"));
    records.push(ran("direct", 8, 5, 1.0).refused("53300: too many"));
    records.push(ran("direct", 8, 6, 1.0).refused("away"));
    let many = "did not run (2 rounds): 53300: too many";
    assert_eq!(line(&records, "53300"), many);
    assert_eq!(line(&records, "away"), "did not run: away");
    let verdict = "the checks that were made hold, but 3 runs did not run";
    assert_eq!(line(&records, "the checks that"), verdict);
    assert!(!table(&records, false).contains("every check holds"));
}

#[test]
fn failed_turns_are_reported_with_the_most_frequent_message() {
    let record = ran("direct", 8, 1, 1_000.0)
        .with_errors("40001", 2, "could not serialize")
        .with_errors("57014", 40, "canceling statement");
    let text = "42 turns failed, most of them: canceling statement";
    assert_eq!(line(&[record], "turns failed"), text);
}

#[test]
fn a_run_that_ended_early_is_reported() {
    let mut early = ran("direct", 8, 1, 1_000.0);
    let mut stopped = ran("paceline", 8, 1, 1_000.0);
    for (record, interrupted) in [(&mut early, false), (&mut stopped, true)] {
        if let RunResult::Ran(ran) = &mut record.result {
            (ran.seconds, ran.interrupted) = (4.0, interrupted);
        }
    }
    let records = [early, stopped];
    assert!(line(&records, "ended early").starts_with("1 round ended early"));
    assert_eq!(line(&records, "interrupted"), "1 round interrupted");
}

#[test]
fn the_table_names_the_machine_and_settings_for_commits() {
    let text = "processor Some Processor at 3.2 GHz, cores 8, PostgreSQL 15.18, fsync on";
    assert_eq!(line(&rounds("direct", 8, 1_000.0), "fsync"), text);
}

#[test]
fn records_with_different_parameters_have_separate_rows() {
    type Change = fn(&mut Record);
    let changes: [(Change, &str, &str); 5] = [
        (
            |record| record.conditions.rate = Some(500.0),
            "hinted (load: closed loop)",
            "hinted (load: open loop, 500 units/s)",
        ),
        (
            |record| record.conditions.think_seconds = 0.01,
            "hinted (pause between turns: none)",
            "hinted (pause between turns: 10 ms)",
        ),
        (
            |record| record.conditions.protocol = "simple".to_owned(),
            "hinted (protocol: prepared)",
            "hinted (protocol: simple)",
        ),
        (
            |record| record.conditions.rows = Some(7),
            "hinted (rows: as the scenario has)",
            "hinted (rows: 7)",
        ),
        (
            |record| record.conditions.full = true,
            "hinted (sizes: small)",
            "hinted (sizes: full)",
        ),
    ];
    for (change, one, other) in changes {
        let mut records = rounds("direct", 8, 1_000.0);
        assert!(table(&records, false).contains("  hinted, 8 clients"));
        records.extend(rounds("direct", 8, 9_000.0).into_iter().map(|mut record| {
            change(&mut record);
            record
        }));
        let rows = summarize(&records);
        let ways: Vec<String> = rows.iter().map(|row| row.label()).collect();
        assert_eq!(ways, [one, other]);
        line(&records, one);
        line(&records, other);
        let page = report(&records);
        assert!(page.contains(one) && page.contains(other));
    }
}

#[test]
fn targets_with_the_same_name_and_other_addresses_are_distinguished() {
    let mut records = rounds("direct", 8, 1_000.0);
    records.push(ran("direct", 8, 4, 9_000.0));
    records[3].address = "10.0.0.5:5432/app as app".to_owned();
    let targets = |records: &[Record]| {
        let cells = summarize(records).remove(0).cells;
        cells.into_iter().map(|cell| cell.target)
    };
    let text: Vec<String> = targets(&records).collect();
    assert_eq!(text.len(), 2, "{text:?}");
    assert_eq!(text[1], "direct at 10.0.0.5:5432/app as app");
    // The demonstration uses other ports each time.
    for record in &mut records {
        record.conditions.stand = vec!["default_pool_size=4".to_owned()];
    }
    assert!(targets(&records).eq(["direct".to_owned()]));
}

fn after_failover(missing: u64) -> Vec<Record> {
    let record = |target, missing| {
        let record = ran(target, 8, 1, 1_000.0).of("failover", "asynchronous");
        record
            .with_errors("lost", 1_234, "it broke")
            .after_failover(missing)
    };
    vec![record("direct", missing), record("paceline", 0)]
}

/// This number of lines of the table from the first one with `head`, with one space between columns.
fn lines_from(records: &[Record], head: &str, number: usize) -> Vec<String> {
    let table = table(records, false);
    let lines = table.lines().skip_while(|line| !line.contains(head));
    let columns = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.take(number).map(columns).collect()
}

#[test]
fn checked_reads_have_lines_of_their_own() {
    let record = |target, stale, on_replicas, cpu| {
        let record = ran(target, 8, 1, 1_000.0).of("edges", "planes");
        record.with_reads(stale, on_replicas, cpu)
    };
    let records = [
        record("direct", 0, 0, 400.0),
        record("session", 3, 1_980, 20.0),
        ran("session", 8, 2, 1_000.0).of("edges", "planes"),
        record("session", 1, 1_980, 10.0),
    ];
    assert_eq!(
        lines_from(&records, "planes, reads", 3),
        [
            "planes, reads reads stale replicas primary CPU ratio",
            "direct 2,000 0 0.0 % 400 µs",
            "session 4,000 4 99.0 % 15 µs 3.8 %",
        ]
    );
    let page = report(&records);
    for shown in [
        "processor time of the primary",
        "replicas, %",
        "99.0",
        "primary CPU, µs",
    ] {
        assert!(page.contains(shown), "{shown} is not in: {page}");
    }
    let without = report(&rounds("direct", 8, 1_000.0));
    assert!(!without.contains("stale"), "{without}");
}

#[test]
fn the_beginning_and_the_end_have_lines_of_their_own() {
    let record = |target, round| ran(target, 8, round, 1_000.0).of("queue", "pinned");
    let mut slow = record("direct", 1).with_trend((1_200.0, 10_000), (300.0, 45_000));
    if let RunResult::Ran(ran) = &mut slow.result {
        // No unit was done in the last tenth.
        ran.trend.as_mut().unwrap().last = TrendPart::default();
    }
    let records = [
        slow,
        record("paceline", 1).with_trend((2_000.0, 4_000), (1_000.0, 6_000)),
        record("paceline", 2),
        record("paceline", 3).with_trend((2_200.0, 6_000), (2_100.0, 14_000)),
    ];
    assert_eq!(
        lines_from(&records, "first and last tenth", 3),
        [
            "pinned, first and last tenth first/s last/s first p99 last p99 ratio",
            "direct 1,200 0 10 ms – –",
            "paceline 2,100 1,550 5 ms 10 ms 2.0 ×",
        ]
    );
    let page = report(&records);
    for shown in ["the beginning and the end", "last p99, ms", "10.00"] {
        assert!(page.contains(shown), "{shown} is not in: {page}");
    }
    let without = report(&rounds("direct", 8, 1_000.0));
    assert!(!without.contains("tenth"), "{without}");
}

#[test]
fn unknown_figures_of_reads_are_not_zero() {
    let mut record = ran("direct", 8, 1, 1_000.0).with_reads(0, 0, 0.0);
    if let RunResult::Ran(ran) = &mut record.result {
        ran.reads = Some(ReadsResult {
            checked: 7,
            ..ReadsResult::default()
        });
    }
    let shown = lines_from(&[record], "reads", 2);
    assert_eq!(shown[1], "direct 7 0 – –");
}

#[test]
fn a_failover_has_lines_of_its_own() {
    let records = after_failover(3);
    assert_eq!(
        lines_from(&records, "around the failover", 3),
        [
            "asynchronous, around the failover errors pause max wait missing twice",
            "direct 1,234 250 ms 1.5 s 3 0",
            "paceline 1,234 250 ms 1.5 s 0 0",
        ]
    );
    let within = "75.00 % of 4,000 requests were answered without an error within 1 s";
    assert_eq!(line(&records, "without an error"), within);
}

#[test]
fn the_loss_of_asynchronous_replication_is_not_called_nothing() {
    let verdict = "every check holds: nothing was done twice; asynchronous replication lost 3 acknowledged writes";
    assert_eq!(line(&after_failover(3), "every check"), verdict);
    let verdict = "every check holds: nothing was lost, nothing was done twice";
    assert_eq!(line(&after_failover(0), "every check"), verdict);
    let page = report(&after_failover(3));
    assert!(!page.contains("othing lost"), "{page}");
    for shown in [
        "asynchronous replication lost 3",
        "in time, %",
        "75.00",
        "1,500.00",
    ] {
        assert!(page.contains(shown), "{shown} is not in: {page}");
    }
    // Other runs have no such columns.
    assert!(!report(&rounds("direct", 8, 1_000.0)).contains("in time, %"));
}
