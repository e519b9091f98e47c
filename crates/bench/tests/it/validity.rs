//! Runs that ended without measuring anything: no output uses their figures, and the command fails.

use crate::sample::{Changed, ran, rounds};
use paceline_bench::{Errors, Latency, Ran, Record, RunResult, all_hold, report, summarize, table};

/// A round without completed units.
fn idle(change: fn(&mut Ran)) -> Record {
    let mut record = ran("direct", 64, 1, 1_000.0);
    if let RunResult::Ran(ran) = &mut record.result {
        (ran.units, ran.rate, ran.latency) = (0, 0.0, Latency::default());
        change(ran);
    }
    record
}

fn refuse(ran: &mut Ran) {
    let first = "deadlock detected".to_owned();
    ran.errors
        .insert("40P01".to_owned(), Errors { count: 12, first });
}

#[test]
fn a_run_without_completed_units_is_not_a_success() {
    type Change = fn(&mut Ran);
    let cases: [(Change, &str); 4] = [
        (
            refuse,
            "no unit was done in 10 s; 12 turns failed: deadlock detected",
        ),
        (|_| (), "no unit was done in 10 s"),
        (
            |ran| (ran.seconds, ran.interrupted) = (0.0, true),
            "interrupted before anything was measured",
        ),
        (
            |ran| ran.seconds = 0.0,
            "nothing was left to do when the warm-up was over: give it more (--rows)",
        ),
    ];
    for (change, why) in cases {
        let records = [idle(change)];
        assert!(!all_hold(&records));
        let table = table(&records, false);
        assert!(
            table.contains(why) && !table.contains("every check"),
            "{table}"
        );
        assert!(!table.contains("0 µs"), "{table}");
        assert!(report(&records).contains(why));
    }
}

#[test]
fn a_round_without_completed_units_does_not_affect_the_others() {
    let mut records = rounds("direct", 64, 1_000.0);
    records.push(idle(|ran| {
        (ran.seconds, ran.interrupted) = (0.0, true);
    }));
    let rows = summarize(&records);
    let cell = &rows[0].cells[0];
    let figures = cell.figures.as_ref().unwrap();
    assert_eq!((figures.rounds, figures.rate.min), (3, 960.0));
    assert_eq!(cell.failed, ["interrupted before anything was measured"]);
}

#[test]
fn missing_support_for_prepared_statements_is_reported_with_a_remedy() {
    for sqlstate in ["26000", "42P05"] {
        let mut record = ran("pgbouncer", 64, 1, 10.0).with_errors(sqlstate, 9_999, "no such");
        let why = format!("use --protocol extended or simple (SQLSTATE {sqlstate})");
        assert!(!all_hold(&[record.clone()]));
        assert!(table(&[record.clone()], false).contains(&why));
        record.conditions.protocol = "extended".to_owned();
        assert!(all_hold(&[record]));
    }
}

#[test]
fn a_failed_check_is_reported_even_if_nothing_was_measured() {
    let records = [idle(refuse).broken("one is lost")];
    assert!(!all_hold(&records));
    let table = table(&records, false);
    assert!(
        table.contains("CHECK FAILED") && table.contains("–"),
        "{table}"
    );
}
