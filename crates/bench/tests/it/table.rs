//! What the table on the terminal tells besides speeds.

use crate::sample::{Changed, ran, rounds};
use paceline_bench::{Record, RunResult, report, summarize, table};

/// The line that holds `part`.
fn line(records: &[Record], part: &str) -> String {
    let table = table(records, false);
    let line = table.lines().find(|line| line.contains(part));
    line.unwrap_or_else(|| panic!("no {part:?} in: {table}"))
        .trim()
        .to_owned()
}

#[test]
fn rounds_that_did_not_run_are_told_though_others_did() {
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
fn failed_turns_are_told_with_what_most_of_them_were() {
    let record = ran("direct", 8, 1, 1_000.0)
        .with_errors("40001", 2, "could not serialize")
        .with_errors("57014", 40, "canceling statement");
    let told = "42 turns failed, most of them: canceling statement";
    assert_eq!(line(&[record], "turns failed"), told);
}

#[test]
fn what_was_not_measured_to_its_end_is_told() {
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
fn figures_come_with_the_machine_and_the_settings_of_commits() {
    let told = "processor Some Processor at 3.2 GHz, cores 8, PostgreSQL 15.18, fsync on";
    assert_eq!(line(&rounds("direct", 8, 1_000.0), "fsync"), told);
}

#[test]
fn what_was_asked_for_otherwise_is_not_taken_together() {
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
        let ways: Vec<String> = rows.iter().map(|row| row.way()).collect();
        assert_eq!(ways, [one, other]);
        line(&records, one);
        line(&records, other);
        let page = report(&records);
        assert!(page.contains(one) && page.contains(other));
    }
}

#[test]
fn targets_of_the_same_name_elsewhere_are_told_apart() {
    let mut records = rounds("direct", 8, 1_000.0);
    records.push(ran("direct", 8, 4, 9_000.0));
    records[3].address = "10.0.0.5:5432/app as app".to_owned();
    let targets = |records: &[Record]| {
        let cells = summarize(records).remove(0).cells;
        cells.into_iter().map(|cell| cell.target)
    };
    let told: Vec<String> = targets(&records).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1], "direct at 10.0.0.5:5432/app as app");
    // A stand has other ports every time.
    for record in &mut records {
        record.conditions.stand = vec!["default_pool_size=4".to_owned()];
    }
    assert!(targets(&records).eq(["direct".to_owned()]));
}
