//! The plan of runs: every variant, with every number of clients, in rounds; within a round the targets take turns, so that
//! whatever else the machine does meets all of them, in every other round from last to first, so that none of them always
//! comes after the same one. What is seen on the way goes to an [`Observer`].

mod unreachable;

use crate::connection::{Connection, Failure};
use crate::groups;
use crate::interrupt::{Interrupt, TimeLimit};
use crate::load::{self, Arrivals, LoadOptions, Measured, RunStatus};
use crate::machine::{Machine, ServerFacts};
use crate::record::{
    self, CheckResult, Conditions, Errors, Latency, OpenLoop, Ran, Record, RunResult,
};
use crate::script::{self, Script};
use crate::server_stats::StatsReadings;
use crate::statement::Protocol;
use crate::target::Target;
use crate::work::{Prepared, Work};
use crate::workload::{Outcome, Scenario, Sizes, schema};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use unreachable::UnreachableTargets;

/// Between two reports of a run that goes on.
const TICK: Duration = Duration::from_millis(200);
/// For the counters of the server after a run.
const COST: TimeLimit = TimeLimit {
    limit: Duration::from_secs(10),
    interrupted: Duration::from_secs(5),
};
/// For a check, which may read tables of the sources' sizes.
const CHECK: TimeLimit = TimeLimit {
    limit: Duration::from_secs(300),
    interrupted: Duration::from_secs(30),
};
/// For dropping the tables.
const CLEAN_UP: TimeLimit = TimeLimit {
    limit: Duration::from_secs(30),
    interrupted: Duration::from_secs(15),
};
/// Before a check is tried again.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Side by side, in this plan.
    pub targets: Vec<Arc<Target>>,
    /// What the clients do.
    pub choices: Vec<Choice>,
    /// Runs before anything is measured.
    pub warmup: Duration,
    /// Is measured in each run.
    pub duration: Duration,
    /// Times that everything is run.
    pub rounds: usize,
    /// Turns per second of all clients that work, together; `None`: each client goes on when it has its answer.
    pub rate: Option<f64>,
    /// Pause of each client between turns.
    pub think: Duration,
    /// Sizes of tables, protocol and seed.
    pub sizes: Sizes,
    /// Threads of the load.
    pub threads: usize,
    /// Leave the tables where they are at the end.
    pub keep_tables: bool,
    /// How to ask for the same again, without passwords.
    pub command: String,
}

/// Work and its numbers of clients.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The scenario that it belongs to; scripts have one of their own.
    pub scenario: Scenario,
    /// What clients do.
    pub work: Work,
    /// One run for each number.
    pub clients: Vec<usize>,
}

impl Choice {
    /// A script, run by so many clients; by its own number if none is given.
    pub fn of_script(script: Arc<Script>, clients: &[usize]) -> Self {
        let clients = match clients {
            [] => script::SCENARIO.clients,
            given => given,
        };
        Self {
            scenario: script::SCENARIO,
            work: Work::Script(script),
            clients: clients.to_vec(),
        }
    }
}

/// One run, as an observer is told of it.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What is run.
    pub choice: &'a Choice,
    /// Against whom.
    pub target: &'a Arc<Target>,
    /// By how many.
    pub clients: usize,
    /// From 1.
    pub round: usize,
    /// From 1.
    pub number: usize,
    /// Runs in all.
    pub of: usize,
    /// What this and all later runs will take at least.
    pub left: Duration,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy)]
pub enum Stage {
    /// Tables are made.
    Preparing,
    /// So many clients are connected.
    Connecting(usize),
    /// It runs.
    Running {
        /// Turns done since the last report, per second.
        rate: f64,
        /// What they took on average.
        latency: Duration,
        /// Failures since it began.
        failed: u64,
        /// Since it began.
        elapsed: Duration,
    },
    /// The tables are compared with what clients were told.
    Checking,
}

/// Sees the runs.
pub trait Observer {
    /// Called when a run reaches another stage, and every 200 ms in it.
    fn sees(&mut self, run: &Run<'_>, stage: Stage);

    /// Called when a run has ended.
    fn ended(&mut self, record: &Record);
}

/// Carries out all of `plan`. A run that fails is a record, too, and keeps no other from running.
pub async fn bench(plan: &Plan, interrupt: &Interrupt, observer: &mut dyn Observer) {
    let machine = Machine::this();
    let runs = runs(plan);
    let of = runs.len();
    let mut unreachable = UnreachableTargets::default();
    for (number, (choice, clients, round, target)) in (1..).zip(&runs) {
        if interrupt.is_set() {
            break;
        }
        let each = plan.warmup + plan.duration;
        let run = Run {
            choice,
            target,
            clients: *clients,
            round: *round,
            number,
            of,
            left: each * u32::try_from(of + 1 - number).unwrap_or(u32::MAX),
        };
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut server = ServerFacts::default();
        let ran = carry_out(
            plan,
            &run,
            interrupt,
            observer,
            &mut server,
            &mut unreachable,
        )
        .await;
        let result = match ran {
            Ok(Some(ran)) => RunResult::Ran(Box::new(ran)),
            Ok(None) => break,
            Err(failure) => RunResult::Failed {
                why: failure.to_string(),
            },
        };
        observer.ended(&Record {
            version: record::VERSION,
            at_unix_seconds: at.unwrap_or_default().as_secs(),
            scenario: choice.scenario.name.to_owned(),
            variant: choice.work.name().to_owned(),
            target: target.name.clone(),
            address: target.to_string(),
            clients: *clients,
            round: *round,
            conditions: plan.conditions(),
            result,
            machine: machine.clone(),
            server,
        });
    }
    let on_own_schema = |choice: &Choice| choice.work.is_on_own_schema();
    if plan.choices.iter().any(on_own_schema) {
        clean_up(plan, &unreachable, interrupt).await;
    }
}

/// All runs in their plan.
fn runs(plan: &Plan) -> Vec<(&Choice, usize, usize, &Arc<Target>)> {
    let mut runs = Vec::new();
    for choice in &plan.choices {
        for &clients in &choice.clients {
            for round in 1..=plan.rounds {
                let run = |target| (choice, clients, round, target);
                match round % 2 {
                    0 => runs.extend(plan.targets.iter().rev().map(run)),
                    _ => runs.extend(plan.targets.iter().map(run)),
                }
            }
        }
    }
    runs
}

/// Makes the tables, runs the load, checks. `None`: it was interrupted before it began.
async fn carry_out<'a>(
    plan: &Plan,
    run: &Run<'a>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
    server: &mut ServerFacts,
    unreachable: &mut UnreachableTargets<'a>,
) -> Result<Option<Ran>, Failure> {
    unreachable.refuse(run.target)?;
    observer.sees(run, Stage::Preparing);
    let work = tokio::select! {
        work = prepare(plan, run, server, unreachable) => work?,
        () = interrupt.requested() => return Ok(None),
    };

    let status = Arc::new(RunStatus::new(interrupt.clone()));
    let load = plan.load(run.clients, &work);
    let (mut readings, mut samples) = (StatsReadings::default(), Vec::new());
    let measured = tokio::select! {
        measured = load::run(work.clients(), run.target, &load, &status) => measured?,
        () = report(observer, run, &status) => unreachable!("it reports for ever"),
        () = readings.watch(run.target, &status, &load) => unreachable!("it watches for ever"),
        () = groups::watch(run.target, &status, &mut samples) => unreachable!("it watches for ever"),
    };
    if status.started.get().is_none() {
        return Ok(None);
    }
    let cost = async { Ok(readings.cost(run.target, &status).await) };
    let mut cost = COST.with(interrupt, cost).await.unwrap_or_default();
    observer.sees(run, Stage::Checking);
    let check = check(&work, run.target, measured.outcome, interrupt).await;
    // Rows of the lab's own tables only.
    let own = run.choice.work.is_on_own_schema();
    cost.dead_rows = cost.dead_rows.filter(|_| own);
    Ok(Some(Ran {
        seconds: measured.lasted.as_secs_f64(),
        units: measured.done,
        rate: measured.rate(),
        latency: Latency::of(&measured),
        errors: errors(&measured),
        check,
        cost,
        groups: samples,
        interrupted: interrupt.is_set(),
        open_loop: plan.rate.map(|_| OpenLoop {
            offered: measured.offered,
            behind: measured.behind,
        }),
    }))
}

/// Makes the tables, on a connection that is not kept: it would lie idle for a whole run, which not everything on the way to a
/// server bears.
async fn prepare<'a>(
    plan: &Plan,
    run: &Run<'a>,
    server: &mut ServerFacts,
    unreachable: &mut UnreachableTargets<'a>,
) -> Result<Prepared, Failure> {
    let opened = Connection::open(run.target).await;
    let mut conn = opened.inspect_err(|failure| unreachable.note(run.target, failure))?;
    *server = ServerFacts::of(&mut conn).await?;
    quieten(&mut conn).await;
    let work = run.choice.work.prepare(&plan.sizes, &mut conn).await?;
    conn.close().await;
    Ok(work)
}

/// Waits as long as sessions of an earlier run are ending: thousands of them take the processor from the next one for a while.
async fn quieten(conn: &mut Connection) {
    /// So many take nothing that could be measured.
    const FEW: i64 = 100;
    const PAUSE: Duration = Duration::from_millis(500);
    const LIMIT: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + LIMIT;
    let mut before = i64::MAX;
    loop {
        let sessions = "SELECT count(*) FROM pg_catalog.pg_stat_activity";
        match conn.number(sessions).await {
            Ok(now) if now > FEW && now < before && Instant::now() < deadline => before = now,
            // Not everything that speaks the protocol tells.
            _ => return,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Compares the tables with what clients were told; once more if the connection was lost meanwhile. A check that cannot be made
/// does not hold. `None`: nobody here knows what a script should leave behind.
async fn check(
    work: &Prepared,
    target: &Target,
    outcome: Outcome,
    interrupt: &Interrupt,
) -> Option<CheckResult> {
    let Prepared::Workload(workload) = work else {
        return None;
    };
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
    let (holds, says) = match CHECK.with(interrupt, attempts).await {
        Ok(check) => (check.holds, check.says),
        Err(failure) => (false, format!("it could not be made: {failure}")),
    };
    Some(CheckResult { holds, says })
}

fn errors(measured: &Measured) -> std::collections::BTreeMap<String, Errors> {
    let errors = measured.errors.iter();
    errors
        .map(|(kind, (count, first))| {
            let (count, first) = (*count, first.clone());
            (kind.clone(), Errors { count, first })
        })
        .collect()
}

/// Tells `observer` how it goes, for ever.
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
        observer.sees(run, stage);
        tokio::time::sleep(TICK).await;
    }
}

/// Drops what the lab made, or leaves it to others. Whoever cannot be reached any more, or does not answer, keeps it until the
/// next run.
async fn clean_up(plan: &Plan, unreachable: &UnreachableTargets<'_>, interrupt: &Interrupt) {
    for target in &plan.targets {
        let work = async {
            unreachable.refuse(target)?;
            let mut conn = Connection::open(target).await?;
            match plan.keep_tables {
                true => schema::leave(&mut conn).await?,
                false => schema::drop(&mut conn).await?,
            }
            conn.close().await;
            Ok(())
        };
        let _: Result<(), Failure> = CLEAN_UP.with(interrupt, work).await;
    }
}

impl Plan {
    /// The clients of its largest run.
    pub fn most_clients(&self) -> usize {
        let all = self.choices.iter().flat_map(|choice| &choice.clients);
        all.copied().max().unwrap_or_default()
    }

    fn load(&self, clients: usize, work: &Prepared) -> LoadOptions {
        LoadOptions {
            clients,
            threads: self.threads,
            shared_connections: work.shared_connections(),
            warmup: self.warmup,
            duration: self.duration,
            arrivals: match self.rate {
                Some(rate) => Arrivals::Open {
                    rate: rate / work.active_clients(clients).max(1) as f64,
                },
                None => Arrivals::Closed { think: self.think },
            },
            seed: self.sizes.seed,
        }
    }

    fn conditions(&self) -> Conditions {
        let protocol = match self.sizes.protocol {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        };
        Conditions {
            warmup_seconds: self.warmup.as_secs_f64(),
            duration_seconds: self.duration.as_secs_f64(),
            rate: self.rate,
            think_seconds: self.think.as_secs_f64(),
            protocol: protocol.to_owned(),
            rows: self.sizes.rows,
            full: self.sizes.full,
            seed: self.sizes.seed,
            threads: self.threads,
            stand: Vec::new(),
            command: self.command.clone(),
        }
    }
}
