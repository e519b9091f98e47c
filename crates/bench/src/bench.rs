//! The sequence of runs: every variant, with every number of clients, in rounds. Within a round the targets take turns, so
//! that other load on the machine affects all of them. Every second round runs the targets in reverse, so that no target
//! always follows the same one. An [`Observer`] receives the progress and the records.

mod failover;
mod own_servers;
mod plan;

pub use plan::{Choice, Plan, Run};

use crate::connection::{Connection, Failure, Result};
use crate::groups;
use crate::interrupt::{Interrupt, TimeLimit};
use crate::load::{self, RunStatus};
use crate::machine::{Machine, ServerFacts};
use crate::record::{self, CheckResult, Conditions, Ran, ReadsResult, Record, RunResult};
use crate::server_stats::{StatsReadings, StatsSource};
use crate::target::Target;
use crate::work::Work;
use crate::workload::failover::Replication;
use crate::workload::{AnyWorkload, CheckedReads, Outcome, schema};
use own_servers::OwnServers;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval between two reports of a run.
const TICK: Duration = Duration::from_millis(200);
/// Limit for reading the counters of the server after a run.
const COST: TimeLimit = TimeLimit {
    limit: Duration::from_secs(10),
    interrupted: Duration::from_secs(5),
};
/// Limit for a check, which may read tables of the sources' sizes.
const CHECK: TimeLimit = TimeLimit {
    limit: Duration::from_secs(300),
    interrupted: Duration::from_secs(30),
};
/// Limit for dropping the tables.
const CLEAN_UP: TimeLimit = TimeLimit {
    limit: Duration::from_secs(30),
    interrupted: Duration::from_secs(15),
};
/// Pause before a check is repeated.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// The stage of a run.
#[derive(Debug, Clone, Copy)]
pub enum Stage {
    /// The bench creates the tables.
    Preparing,
    /// The clients connect; contains how many are connected.
    Connecting(usize),
    /// The clients work.
    Running {
        /// Turns per second since the last report.
        rate: f64,
        /// Mean latency of these turns.
        latency: Duration,
        /// Number of failed turns since the run began.
        failed: u64,
        /// Time since the run began.
        elapsed: Duration,
    },
    /// The bench compares the tables with the answers that clients received.
    Checking,
}

/// Receives progress and records.
pub trait Observer {
    /// Called when a run reaches another stage, and every 200 ms while it stays in a stage.
    fn on_stage(&mut self, run: &Run<'_>, stage: Stage);

    /// Called when a run has ended.
    fn on_end(&mut self, record: &Record);
}

/// Executes `plan`. A run that fails is recorded as well; the other runs continue.
pub async fn bench(plan: &Plan, interrupt: &Interrupt, observer: &mut dyn Observer) {
    let machine = Machine::this();
    let mut bench = Bench {
        plan,
        interrupt,
        observer,
        unreachable: Vec::new(),
    };
    for run in plan.runs() {
        if interrupt.is_set() {
            break;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut server = ServerFacts::default();
        let ran = match &run.choice.work {
            Work::Failover(replication) => bench.fail_over(&run, *replication, &mut server).await,
            _ => bench.execute(&run, &mut server).await,
        };
        let result = match ran {
            Ok(Some(ran)) => RunResult::Ran(Box::new(ran)),
            Ok(None) => break,
            Err(failure) => RunResult::Failed {
                why: format!("{failure:#}"),
            },
        };
        bench.observer.on_end(&Record {
            version: record::VERSION,
            at_unix_seconds: at.unwrap_or_default().as_secs(),
            scenario: run.choice.scenario.name.to_owned(),
            variant: run.choice.work.name().to_owned(),
            target: run.target.name.clone(),
            address: own_servers::address(&run.choice.work, run.target),
            clients: run.clients,
            round: run.round,
            conditions: Conditions {
                stand: run.choice.settings(),
                ..plan.conditions()
            },
            result,
            machine: machine.clone(),
            server,
        });
    }
    let mut choices = plan.choices.iter();
    if choices.any(|choice| choice.work.is_on_own_schema()) {
        bench.clean_up().await;
    }
}

/// A bench that is running.
struct Bench<'a> {
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    observer: &'a mut dyn Observer,
    /// Targets that could not be reached, with the reason. The bench does not try them again, because each attempt would wait
    /// for the same timeout.
    unreachable: Vec<(&'a Arc<Target>, String)>,
}

impl<'a> Bench<'a> {
    /// Creates the tables, runs the load and checks the tables. Returns `None` if the run was interrupted before it began.
    async fn execute(
        &mut self,
        run: &Run<'a>,
        facts: &mut ServerFacts,
    ) -> anyhow::Result<Option<Ran>> {
        self.observer.on_stage(run, Stage::Preparing);
        let interrupt = self.interrupt;
        let (workload, own) = tokio::select! {
            prepared = self.prepare(run, facts) => prepared?,
            () = interrupt.requested() => return Ok(None),
        };
        let target = own.as_ref().map_or(run.target, |own| &own.target);
        let server = server(run, own.as_ref());
        let status = Arc::new(RunStatus::new(interrupt.clone()));
        let source = StatsSource {
            server: &server,
            status: &status,
            reads: workload.reads(),
            own: own.as_ref().and_then(OwnServers::replicated),
        };
        let load = self.plan.load(run.clients, &*workload);
        let (mut readings, mut samples) = (StatsReadings::default(), Vec::new());
        let watch = async {
            tokio::join!(
                report(self.observer, run, &status),
                readings.watch(&source, &load),
                groups::watch(target, &status, &mut samples),
            )
        };
        let measured = tokio::select! {
            measured = load::run(Arc::clone(&workload), target, &load, &status) => measured?,
            _ = watch => unreachable!("report never returns"),
        };
        if status.started.get().is_none() {
            return Ok(None);
        }
        let complete = async {
            readings.complete(&source).await;
            Ok(())
        };
        // Without the second reading, the cost is unknown.
        let _ = COST.with(interrupt, complete).await;
        let mut cost = readings.cost();
        let reads = match (workload.reads(), &own) {
            (Some(reads), Some(own)) => Some(own.reads(reads).await),
            (reads, _) => reads.map(CheckedReads::result),
        };
        self.observer.on_stage(run, Stage::Checking);
        let mut checked = None;
        if run.choice.work.is_on_own_schema() {
            checked = Some(check(&*workload, &server, measured.outcome, interrupt).await);
        } else {
            // Scripts use other tables than those that were counted.
            cost.dead_rows = None;
        }
        Ok(Some(Ran {
            seconds: measured.lasted.as_secs_f64(),
            units: measured.done,
            rate: measured.rate(),
            latency: measured.latency(),
            check: checked,
            cost,
            groups: samples,
            interrupted: interrupt.is_set(),
            open_loop: self.plan.rate.map(|_| measured.open_loop),
            within_deadline: self.plan.within_deadline(&measured),
            failover: None,
            trend: workload
                .changes_over_time()
                .then(|| measured.trend(self.plan.duration)),
            reads: reads.map(|reads| ReadsResult {
                primary_cpu_micros: readings.primary_cpu_micros(),
                ..reads
            }),
            errors: measured.errors,
        }))
    }

    /// Starts the servers of a run that has its own, and creates the tables.
    async fn prepare(
        &mut self,
        run: &Run<'a>,
        facts: &mut ServerFacts,
    ) -> anyhow::Result<(Arc<dyn AnyWorkload>, Option<OwnServers>)> {
        if !run.choice.starts_servers() {
            return Ok((self.create_tables(run, facts).await?, None));
        }
        let Run {
            choice,
            target,
            clients,
            ..
        } = *run;
        let start = OwnServers::start(Replication::Asynchronous, &choice.work, target, clients);
        let own = start.await?;
        let mut conn = Connection::open(&own.primary()).await?;
        *facts = ServerFacts::of(&mut conn).await?;
        let workload = run.choice.work.prepare(&self.plan.sizes, &mut conn).await?;
        conn.close().await;
        own.distribute(&run.choice.work).await?;
        Ok((workload, Some(own)))
    }

    /// Creates the tables on a temporary connection. An open one would be idle for a whole run, and firewalls and poolers may
    /// close idle connections.
    async fn create_tables(
        &mut self,
        run: &Run<'a>,
        facts: &mut ServerFacts,
    ) -> Result<Arc<dyn AnyWorkload>> {
        self.expect_reachable(run.target)?;
        let opened = Connection::open(run.target).await;
        if let Err(Failure::Unreachable(why)) = &opened {
            self.unreachable.push((run.target, why.clone()));
        }
        let mut conn = opened?;
        *facts = ServerFacts::of(&mut conn).await?;
        wait_for_old_sessions(&mut conn).await;
        let workload = run.choice.work.prepare(&self.plan.sizes, &mut conn).await?;
        conn.close().await;
        Ok(workload)
    }

    /// # Errors
    /// `target` could not be reached in an earlier run.
    fn expect_reachable(&self, target: &Arc<Target>) -> Result<()> {
        let mut known = self.unreachable.iter();
        match known.find(|(unreachable, _)| Arc::ptr_eq(unreachable, target)) {
            None => Ok(()),
            Some((_, why)) => Err(Failure::Unreachable(format!(
                "{why}; that was in an earlier run, and not tried again"
            ))),
        }
    }

    /// Drops the schema, or leaves its tables for the next run. A target that does not answer keeps it until the next run.
    async fn clean_up(&self) {
        for target in &self.plan.targets {
            let work = async {
                self.expect_reachable(target)?;
                let mut conn = Connection::open(target).await?;
                schema::leave(&mut conn, self.plan.keep_tables).await?;
                conn.close().await;
                Ok(())
            };
            let _: Result<()> = CLEAN_UP.with(self.interrupt, work).await;
        }
    }
}

/// The server whose counters are read and whose tables are checked: the target, or the primary of the run's own servers.
fn server(run: &Run<'_>, own: Option<&OwnServers>) -> Target {
    match own {
        Some(own) => own.primary(),
        None => Target::clone(run.target),
    }
}

/// Waits while sessions of an earlier run are ending: thousands of them use the processor during the next run.
async fn wait_for_old_sessions(conn: &mut Connection) {
    /// A number of sessions that has no measurable cost.
    const FEW: i64 = 100;
    const PAUSE: Duration = Duration::from_millis(500);
    const LIMIT: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + LIMIT;
    let mut before = i64::MAX;
    loop {
        let sessions = "SELECT count(*) FROM pg_catalog.pg_stat_activity";
        match conn.number(sessions).await {
            Ok(now) if now > FEW && now < before && Instant::now() < deadline => before = now,
            // Some servers that speak the protocol have no such view.
            _ => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Compares the tables with the answers that clients received. If the connection is lost, tries once more. A check that
/// cannot be made does not hold.
async fn check(
    workload: &dyn AnyWorkload,
    target: &Target,
    outcome: Outcome,
    interrupt: &Interrupt,
) -> CheckResult {
    let attempt = async || {
        let mut conn = Connection::open(target).await?;
        let check = workload.check(&mut conn, outcome).await?;
        conn.close().await;
        Ok::<_, Failure>(check)
    };
    let attempts = async {
        match attempt().await {
            Err(failure) if failure.may_pass() => {
                tokio::time::sleep(CHECK_PAUSE).await;
                attempt().await
            }
            done => done,
        }
    };
    let checked = CHECK.with(interrupt, attempts).await;
    checked.unwrap_or_else(|failure| CheckResult {
        holds: false,
        says: format!("it could not be made: {failure}"),
    })
}

/// Reports the progress to `observer`. Never returns.
async fn report(observer: &mut dyn Observer, run: &Run<'_>, status: &RunStatus) {
    let (mut done, mut micros, mut at) = (0, 0, Instant::now());
    loop {
        let stage = match status.started.get() {
            None => Stage::Connecting(status.connected.load(Ordering::Relaxed)),
            Some(started) => {
                let now = Instant::now();
                let new_done = status.done.load(Ordering::Relaxed);
                let new_micros = status.micros.load(Ordering::Relaxed);
                let (turns, took) = (new_done - done, new_micros.saturating_sub(micros));
                let stage = Stage::Running {
                    rate: turns as f64 / (now - at).as_secs_f64().max(0.001),
                    latency: Duration::from_micros(took.checked_div(turns).unwrap_or_default()),
                    failed: status.failed.load(Ordering::Relaxed),
                    elapsed: now - *started,
                };
                (done, micros, at) = (new_done, new_micros, now);
                stage
            }
        };
        observer.on_stage(run, stage);
        tokio::time::sleep(TICK).await;
    }
}
