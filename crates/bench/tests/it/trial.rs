//! Runs of a fixed, short time, which another client may disturb.

use crate::support::{Postgres, block_on, plan, variants};
use paceline_bench::{
    Interrupt, Observer, Plan, Protocol, Ran, Record, Run, RunResult, Stage, bench,
};
use std::time::Duration;

/// A server for short runs.
pub(crate) struct Trial {
    postgres: Postgres,
}

/// The parameters of a short run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Short {
    pub(crate) scenario: &'static str,
    pub(crate) variant: &'static str,
    pub(crate) clients: usize,
    pub(crate) rows: u64,
    pub(crate) protocol: Protocol,
}

/// Statements that another client executes, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outsider {
    /// Once during the run.
    Amid(&'static str),
    /// After all clients have ended, before the check.
    After(&'static str),
}

impl Trial {
    /// Starts a server with this number of connections.
    pub(crate) fn start(max_connections: usize) -> Self {
        let setting = ("max_connections", max_connections.to_string());
        Self {
            postgres: Postgres::start_with(&[setting]),
        }
    }

    /// Executes a run, which must succeed.
    pub(crate) fn run(&self, short: Short) -> Ran {
        self.run_with(short, None)
    }

    /// Executes a run that an outsider disturbs; it must succeed.
    pub(crate) fn run_with(&self, short: Short, outsider: impl Into<Option<Outsider>>) -> Ran {
        match self.record(short, outsider.into()).result {
            RunResult::Ran(ran) => *ran,
            RunResult::Failed { why } => panic!("{short:?} did not run: {why}"),
        }
    }

    /// The reason why a run cannot be executed.
    pub(crate) fn refusal(&self, short: Short) -> String {
        match self.record(short, None).result {
            RunResult::Ran(ran) => panic!("{short:?} ran: {}", ran.check.as_ref().unwrap().says),
            RunResult::Failed { why } => why,
        }
    }

    /// Whether the lab has left no schema.
    pub(crate) fn is_clean(&self) -> bool {
        self.postgres.is_clean()
    }

    /// Runs statements outside of the lab.
    pub(crate) fn execute(&self, sql: &str) -> Option<String> {
        self.postgres.execute(sql)
    }

    /// Runs a query outside of the lab that returns a number.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.execute(sql).unwrap().parse().unwrap()
    }

    fn record(&self, short: Short, outsider: Option<Outsider>) -> Record {
        let mut disturbance = Disturbance {
            postgres: &self.postgres,
            outsider,
            records: Vec::new(),
        };
        let plan = self.plan(short);
        block_on(bench(&plan, &Interrupt::default(), &mut disturbance));
        assert_eq!(disturbance.records.len(), 1);
        assert!(disturbance.outsider.is_none(), "the outsider did nothing");
        disturbance.records.remove(0)
    }

    /// The plan of a short run.
    pub(crate) fn plan(&self, short: Short) -> Plan {
        let mut choices = variants(short.scenario, short.clients);
        choices.retain(|choice| choice.work.name() == short.variant);
        assert_eq!(choices.len(), 1, "{short:?}");
        let mut plan = plan(&self.postgres, choices);
        plan.duration = Duration::from_millis(500);
        plan.threads = 2;
        plan.sizes.rows = Some(short.rows);
        plan.sizes.protocol = short.protocol;
        plan
    }
}

/// Keeps the records, and executes the statements of the outsider at the right stage.
struct Disturbance<'a> {
    postgres: &'a Postgres,
    outsider: Option<Outsider>,
    records: Vec<Record>,
}

impl Observer for Disturbance<'_> {
    fn on_stage(&mut self, _run: &Run<'_>, stage: Stage) {
        let sql = match (self.outsider, stage) {
            (Some(Outsider::Amid(sql)), Stage::Running { .. })
            | (Some(Outsider::After(sql)), Stage::Checking) => sql,
            _ => return,
        };
        self.outsider = None;
        self.postgres.execute(sql);
    }

    fn on_end(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}
