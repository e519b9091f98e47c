//! The connection storm.

use crate::support::block_on;
use crate::trial::{Outsider, Short, Trial};
use paceline_bench::{Interrupt, Observer, Plan, Protocol, Record, Run, Stage, Target, bench};
use std::sync::Arc;
use std::time::Duration;

fn storm(variant: &'static str) -> Short {
    Short {
        scenario: "storm",
        variant,
        clients: 40,
        rows: 1_000,
        protocol: Protocol::Prepared,
    }
}

#[test]
fn no_update_is_lost_in_any_variant() {
    let trial = Trial::start(60);
    for variant in ["updates", "advisory-lock", "idle"] {
        let ran = trial.run(storm(variant));
        assert!(
            ran.check.as_ref().unwrap().holds,
            "{variant}: {}",
            ran.check.as_ref().unwrap().says
        );
        assert!(ran.units > 0, "{variant}: nothing was done");
        assert!(ran.errors.is_empty(), "{variant}: {:?}", ran.errors);
        assert!(trial.is_clean(), "{variant} left something behind");
    }
}

#[test]
fn a_check_sees_what_an_outsider_did() {
    let trial = Trial::start(60);
    for variant in ["updates", "advisory-lock"] {
        let more = "UPDATE paceline_lab.test_8000 SET cnt = cnt + 1 WHERE id = 1";
        let ran = trial.run_with(storm(variant), Outsider::After(more));
        assert!(
            !ran.check.as_ref().unwrap().holds,
            "{variant}: {}",
            ran.check.as_ref().unwrap().says
        );
        let fewer = "DELETE FROM paceline_lab.test_8000 WHERE cnt > 0";
        let ran = trial.run_with(storm(variant), Outsider::After(fewer));
        assert!(
            !ran.check.as_ref().unwrap().holds,
            "{variant}: {}",
            ran.check.as_ref().unwrap().says
        );
    }
}

#[test]
fn who_is_idle_stays_connected() {
    let trial = Trial::start(60);
    // The lab's own connection, and those of 40 clients.
    let count = "DO $$ BEGIN ASSERT 41 <= (SELECT count(*) FROM pg_stat_activity \
         WHERE application_name = 'paceline bench'), 'somebody has left'; END $$";
    let ran = trial.run_with(storm("idle"), Outsider::Amid(count));
    assert!(
        ran.check.as_ref().unwrap().holds && ran.errors.is_empty(),
        "{ran:?}"
    );
}

#[test]
fn more_clients_than_the_server_takes_are_refused() {
    let trial = Trial::start(30);
    let why = trial.refusal(storm("updates"));
    assert!(why.contains("53300"), "{why}");
    // Who is idle takes a connection, too.
    let why = trial.refusal(storm("idle"));
    assert!(why.contains("53300"), "{why}");
}

/// Looks at the pages of the table before each run, and keeps who ran.
struct Surveyor<'a> {
    trial: &'a Trial,
    pages: Vec<i64>,
    targets: Vec<(String, usize)>,
}

impl Observer for Surveyor<'_> {
    fn sees(&mut self, run: &Run<'_>, stage: Stage) {
        if matches!(stage, Stage::Connecting(_)) && self.pages.len() < run.number {
            let size = "SELECT pg_relation_size('paceline_lab.test_8000')";
            self.pages.push(self.trial.number(size));
        }
    }

    fn ended(&mut self, record: &Record) {
        assert!(record.ran().unwrap().check.as_ref().unwrap().holds);
        self.targets.push((record.target.clone(), record.round));
    }
}

#[test]
fn every_run_meets_the_same_pages_and_nobody_is_always_second() {
    let trial = Trial::start(60);
    let plan = trial.plan(storm("updates"));
    let other = Target {
        name: "other".to_owned(),
        ..plan.targets[0].as_ref().clone()
    };
    let plan = Plan {
        targets: vec![Arc::clone(&plan.targets[0]), Arc::new(other)],
        rounds: 3,
        duration: Duration::from_millis(200),
        ..plan
    };
    let mut surveyor = Surveyor {
        trial: &trial,
        pages: Vec::new(),
        targets: Vec::new(),
    };
    block_on(bench(&plan, &Interrupt::default(), &mut surveyor));
    let targets = [
        ("direct", 1),
        ("other", 1),
        ("other", 2),
        ("direct", 2),
        ("direct", 3),
        ("other", 3),
    ];
    assert_eq!(
        surveyor.targets,
        targets.map(|(target, round)| (target.to_owned(), round))
    );
    assert_eq!(surveyor.pages.len(), 6);
    assert!(
        surveyor.pages.iter().all(|size| *size == surveyor.pages[0]),
        "{:?}",
        surveyor.pages
    );
}
