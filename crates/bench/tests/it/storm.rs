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
fn the_check_detects_changes_by_an_outsider() {
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
fn idle_clients_stay_connected() {
    let trial = Trial::start(60);
    // The connection of the lab, and those of 40 clients.
    let count = "DO $$ BEGIN ASSERT 41 <= (SELECT count(*) FROM pg_stat_activity \
         WHERE application_name = 'paceline bench'), 'a client has disconnected'; END $$";
    let ran = trial.run_with(storm("idle"), Outsider::Amid(count));
    assert!(
        ran.check.as_ref().unwrap().holds && ran.errors.is_empty(),
        "{ran:?}"
    );
}

#[test]
fn more_clients_than_the_server_admits_are_rejected() {
    let trial = Trial::start(30);
    let why = trial.refusal(storm("updates"));
    assert!(why.contains("53300"), "{why}");
    // Idle clients need a connection each, too.
    let why = trial.refusal(storm("idle"));
    assert!(why.contains("53300"), "{why}");
}

/// Records the size of the table before each run, and the sequence of targets.
struct PageRecorder<'a> {
    trial: &'a Trial,
    pages: Vec<i64>,
    targets: Vec<(String, usize)>,
}

impl Observer for PageRecorder<'_> {
    fn on_stage(&mut self, run: &Run<'_>, stage: Stage) {
        if matches!(stage, Stage::Connecting(_)) && self.pages.len() < run.number {
            let size = "SELECT pg_relation_size('paceline_lab.test_8000')";
            self.pages.push(self.trial.number(size));
        }
    }

    fn on_end(&mut self, record: &Record) {
        assert!(record.ran().unwrap().check.as_ref().unwrap().holds);
        self.targets.push((record.target.clone(), record.round));
    }
}

#[test]
fn every_run_has_a_new_table_and_targets_alternate() {
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
    let mut recorder = PageRecorder {
        trial: &trial,
        pages: Vec::new(),
        targets: Vec::new(),
    };
    block_on(bench(&plan, &Interrupt::default(), &mut recorder));
    let targets = [
        ("direct", 1),
        ("other", 1),
        ("other", 2),
        ("direct", 2),
        ("direct", 3),
        ("other", 3),
    ];
    assert_eq!(
        recorder.targets,
        targets.map(|(target, round)| (target.to_owned(), round))
    );
    assert_eq!(recorder.pages.len(), 6);
    assert!(
        recorder.pages.iter().all(|size| *size == recorder.pages[0]),
        "{:?}",
        recorder.pages
    );
}
