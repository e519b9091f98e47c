//! Keyed reads: the check of every variant holds and detects missing rows and other bytes.

use crate::support::{Postgres, block_on, execute, execute_briefly, plan, variants, working};
use paceline_bench::{Plan, Protocol};

/// Enough clients that one of them changes rows.
const CLIENTS: usize = 17;

fn holds(plan: &Plan) {
    let records = execute_briefly(plan, working);
    assert_eq!(records.len(), plan.choices.len());
    for record in records {
        let ran = record.ran().unwrap();
        let check = ran.check.as_ref().unwrap();
        assert!(check.holds, "{}: {}", record.variant, check.says);
        assert!(ran.units > 0 && ran.errors.is_empty(), "{ran:?}");
    }
}

#[test]
fn every_variant_reads_the_expected_rows() {
    let postgres = Postgres::start();
    let mut plan = plan(&postgres, variants("keyed-read", CLIENTS));
    holds(&plan);
    // The simple protocol has no binary format.
    plan.choices.retain(|choice| choice.work.name() == "binary");
    plan.sizes.protocol = Protocol::Simple;
    holds(&plan);
    // Fares of more than one day.
    plan.sizes.rows = Some(100_000);
    holds(&plan);
    assert!(postgres.is_clean());
}

/// The result of the check if `tampering` is executed during a run of `variant`.
fn tampered(postgres: &Postgres, variant: &str, tampering: &str) -> (bool, String) {
    let mut choices = variants("keyed-read", CLIENTS);
    choices.retain(|choice| choice.work.name() == variant);
    let plan = plan(postgres, choices);
    let records = execute(&plan, working, async |running| {
        running.notified().await;
        let changed = postgres.outsider().await.execute(tampering, &[]).await;
        assert!(changed.unwrap() > 0);
        // The next report may describe work before the change.
        running.notified().await;
        running.notified().await;
    });
    let ran = records.first().unwrap().ran().unwrap();
    let check = ran.check.as_ref().unwrap();
    (check.holds, check.says.clone())
}

#[test]
fn changes_during_a_run_are_detected() {
    let postgres = Postgres::start();
    let cases = [
        (
            "hot-keys",
            "DELETE FROM paceline_lab.fares WHERE id = 7",
            "key 1 had 199 rows instead of 200",
        ),
        (
            "binary",
            "UPDATE paceline_lab.fares SET info = 'fare 0' WHERE id % 200 = 7",
            "had other bytes than its rows have",
        ),
        (
            "updates",
            "UPDATE paceline_lab.fares_spacious SET mod_time = crt_time - interval '1 day' WHERE id = 7",
            "changes are in the table",
        ),
    ];
    for (variant, tampering, complaint) in cases {
        let (holds, says) = tampered(&postgres, variant, tampering);
        assert!(!holds, "{variant}: {says}");
        assert!(says.contains(complaint), "{variant}: {says}");
    }
}

/// The result of the check of `variant` if `falsified` is executed before the run.
fn falsified(postgres: &Postgres, variant: &str, falsified: &str) -> (bool, String) {
    let mut choices = variants("keyed-read", CLIENTS);
    choices.retain(|choice| choice.work.name() == variant);
    let mut plan = plan(postgres, choices);
    plan.keep_tables = true;
    let ran = execute_briefly(&plan, working);
    assert!(ran.first().unwrap().ran().unwrap().units > 0);
    let changed = block_on(async { postgres.outsider().await.execute(falsified, &[]).await });
    assert!(changed.unwrap() > 0);
    let records = execute_briefly(&plan, working);
    let check = records.first().unwrap().ran().unwrap().check.clone();
    let check = check.unwrap();
    (check.holds, check.says)
}

#[test]
fn changes_before_a_run_are_detected() {
    let postgres = Postgres::start();
    for (variant, falsify) in [
        (
            "scattered",
            "UPDATE paceline_lab.fares_scattered SET info = 'fare 0'",
        ),
        (
            "binary",
            "UPDATE paceline_lab.fares SET mod_time = mod_time + interval '1 microsecond'",
        ),
        (
            "jsonb",
            "UPDATE paceline_lab.fares_jsonb SET fares = fares - 0",
        ),
    ] {
        let (holds, says) = falsified(&postgres, variant, falsify);
        assert!(!holds, "{variant}: {says}");
        assert!(
            says.contains("had other bytes than its rows have"),
            "{variant}: {says}"
        );
    }
}
