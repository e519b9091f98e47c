//! Targets that cannot be reached or do not answer, and connections that are lost.

use crate::support::{Postgres, execute, plan, variants, working};
use crate::trial::{Outsider, Short, Trial};
use paceline_bench::{Host, Protocol, Record, RunResult, Target};
use std::sync::Arc;
use std::time::Duration;

const SHORT: Short = Short {
    scenario: "hot-row",
    variant: "hinted",
    clients: 4,
    rows: 1,
    protocol: Protocol::Prepared,
};

#[test]
fn a_check_opens_a_new_connection() {
    let trial = Trial::start(30);
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name = 'paceline bench'";
    let ran = trial.run_with(SHORT, Outsider::After(ends));
    let check = ran.check.unwrap();
    assert!(check.holds, "{}", check.says);
}

#[test]
fn a_run_whose_check_cannot_be_made_is_recorded_and_does_not_hold() {
    let trial = Trial::start(30);
    let ran = trial.run_with(SHORT, Outsider::After("DROP SCHEMA paceline_lab CASCADE"));
    assert!(ran.units > 0);
    let check = ran.check.unwrap();
    assert!(
        !check.holds && check.says.contains("42P01"),
        "{}",
        check.says
    );
}

fn why(record: &Record) -> &str {
    match &record.result {
        RunResult::Failed { why } => why,
        RunResult::Ran(_) => panic!("it ran"),
    }
}

#[test]
fn an_unreachable_target_is_tried_once() {
    let postgres = Postgres::start();
    let nowhere = tempfile::tempdir().unwrap();
    let mut plan = plan(&postgres, variants("hot-row", 2));
    plan.choices.truncate(1);
    plan.duration = Duration::from_millis(100);
    plan.rounds = 2;
    plan.targets.push(Arc::new(Target {
        name: "nobody".to_owned(),
        host: Host::Unix(nowhere.path().to_owned()),
        ..Target::clone(&plan.targets[0])
    }));
    let records = execute(&plan, |_| false, async |reached| reached.notified().await);
    let (nobody, direct): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.target == "nobody");
    assert!(direct.len() == 2 && direct.iter().all(|record| record.ran().is_some()));
    let again = |record: &Record| why(record).contains("not tried again");
    let [first, second] = nobody[..] else {
        panic!("{nobody:?}");
    };
    assert!(!again(first) && again(second), "{nobody:?}");
}

#[test]
fn an_interrupt_ends_the_wait_for_a_lock() {
    let postgres = Postgres::start();
    let mut plan = plan(&postgres, variants("hot-row", 2));
    plan.choices.truncate(1);
    let mut locker = None;
    let records = execute(&plan, working, async |reached| {
        reached.notified().await;
        // Every client waits for this lock until the lab gives up.
        let outsider = postgres.outsider().await;
        let lock = "BEGIN; LOCK TABLE paceline_lab.stock IN SHARE MODE";
        outsider.batch_execute(lock).await.unwrap();
        let both = "DO $$ BEGIN FOR attempt IN 1..10000 LOOP IF 2 = (SELECT count(*) FROM pg_locks \
             WHERE relation = 'paceline_lab.stock'::regclass AND NOT granted) THEN RETURN; END IF; \
             PERFORM pg_sleep(0.001); END LOOP; RAISE 'they do not wait'; END $$";
        outsider.batch_execute(both).await.unwrap();
        // The check only reads and does not conflict with the lock.
        locker = Some(outsider);
    });
    drop(locker);
    let ran = records[0].ran().unwrap();
    let check = ran.check.as_ref().unwrap();
    assert!(check.holds, "{}", check.says);
    assert_eq!(ran.errors["lost"].count, 2, "{:?}", ran.errors);
}
