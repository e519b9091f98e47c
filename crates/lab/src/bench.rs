//! The order of runs: every variant, with every number of clients, in rounds; within a round the targets take turns, so that
//! whatever else the machine does meets all of them. What is seen on the way goes to an [`Observer`].

use crate::connection::{Connection, Failure};
use crate::groups;
use crate::load::{self, Gauge, Load, Measured, Pace};
use crate::machine::{Machine, ServerFacts};
use crate::record::{self, CheckResult, Conditions, Errors, Latency, Ran, Record, RunResult};
use crate::script::{self, Script};
use crate::statement::Protocol;
use crate::target::Target;
use crate::vitals::Marks;
use crate::work::Work;
use crate::workload::{Scenario, Sizes, tables};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two reports of a run that goes on.
const TICK: Duration = Duration::from_millis(200);

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Order {
    /// Side by side, in this order.
    pub targets: Vec<Arc<Target>>,
    /// What the clients do.
    pub choices: Vec<Choice>,
    /// Runs before anything is measured.
    pub warmup: Duration,
    /// Is measured in each run.
    pub duration: Duration,
    /// Times that everything is run.
    pub rounds: usize,
    /// Turns per second of all clients together; `None`: each client goes on when it has its answer.
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

/// Set to end everything before its time: the run that goes on is measured up to then, its check is made, no other begins.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Ends everything before its time.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// Carries out all of `order`. A run that fails is a record, too, and keeps no other from running.
pub async fn bench(order: &Order, interrupt: &Interrupt, observer: &mut dyn Observer) {
    let machine = Machine::this();
    let runs = runs(order);
    let of = runs.len();
    for (number, (choice, clients, round, target)) in (1..).zip(&runs) {
        if interrupt.is_set() {
            break;
        }
        let each = order.warmup + order.duration;
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
        let result = match carry_out(order, &run, interrupt, observer, &mut server).await {
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
            conditions: order.conditions(),
            result,
            machine: machine.clone(),
            server,
        });
    }
    let on_own_schema = |choice: &Choice| choice.work.is_on_own_schema();
    if !order.keep_tables && order.choices.iter().any(on_own_schema) {
        clean_up(&order.targets).await;
    }
}

/// All runs in their order.
fn runs(order: &Order) -> Vec<(&Choice, usize, usize, &Arc<Target>)> {
    let mut runs = Vec::new();
    for choice in &order.choices {
        for &clients in &choice.clients {
            for round in 1..=order.rounds {
                runs.extend(
                    order
                        .targets
                        .iter()
                        .map(|target| (choice, clients, round, target)),
                );
            }
        }
    }
    runs
}

/// Makes the tables, runs the load, checks. `None`: it was interrupted before it began.
async fn carry_out(
    order: &Order,
    run: &Run<'_>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
    server: &mut ServerFacts,
) -> Result<Option<Ran>, Failure> {
    observer.sees(run, Stage::Preparing);
    let mut conn = Connection::open(run.target).await?;
    *server = ServerFacts::of(&mut conn).await?;
    let work = run.choice.work.prepare(&order.sizes, &mut conn).await?;
    if interrupt.is_set() {
        return Ok(None);
    }

    let gauge = Arc::new(Gauge::new(interrupt.flag()));
    let load = order.load(run.clients, work.shared_connections());
    let (mut marks, mut samples) = (Marks::default(), Vec::new());
    let measured = tokio::select! {
        measured = load::run(work.clients(), run.target, &load, &gauge) => measured?,
        () = report(observer, run, &gauge) => unreachable!("it reports for ever"),
        () = marks.watch(run.target, &gauge, &load) => unreachable!("it watches for ever"),
        () = groups::watch(run.target, &gauge, &mut samples) => unreachable!("it watches for ever"),
    };
    let mut cost = marks.cost(&mut conn, run.target, &gauge).await;
    observer.sees(run, Stage::Checking);
    let check = work.check(&mut conn, measured.outcome).await?;
    conn.close().await;
    // Rows of the lab's own tables only.
    let own = run.choice.work.is_on_own_schema();
    cost.dead_rows = cost.dead_rows.filter(|_| own);
    Ok(Some(Ran {
        seconds: measured.lasted.as_secs_f64(),
        units: measured.done,
        rate: measured.rate(),
        latency: Latency::of(&measured),
        errors: errors(&measured),
        check: check.map(|check| CheckResult {
            holds: check.holds,
            says: check.says,
        }),
        cost,
        groups: samples,
        interrupted: interrupt.is_set(),
    }))
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
async fn report(observer: &mut dyn Observer, run: &Run<'_>, gauge: &Gauge) {
    let (mut done, mut micros, mut at) = (0, 0, Instant::now());
    loop {
        let stage = match gauge.started.get() {
            None => Stage::Connecting(gauge.connected.load(Ordering::Relaxed)),
            Some(started) => {
                let now = Instant::now();
                let new_done = gauge.done.load(Ordering::Relaxed);
                let new_micros = gauge.micros.load(Ordering::Relaxed);
                let (turns, took) = (new_done - done, new_micros.saturating_sub(micros));
                let stage = Stage::Running {
                    rate: turns as f64 / (now - at).as_secs_f64().max(0.001),
                    latency: Duration::from_micros(took.checked_div(turns).unwrap_or_default()),
                    failed: gauge.failed.load(Ordering::Relaxed),
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

/// Drops what the lab made. Whoever cannot be reached any more keeps it until the next run.
async fn clean_up(targets: &[Arc<Target>]) {
    for target in targets {
        if let Ok(mut conn) = Connection::open(target).await {
            let _ = tables::drop_schema(&mut conn).await;
            conn.close().await;
        }
    }
}

impl Order {
    fn load(&self, clients: usize, shared_connections: Option<usize>) -> Load {
        Load {
            clients,
            threads: self.threads,
            shared_connections,
            warmup: self.warmup,
            duration: self.duration,
            pace: match self.rate {
                Some(rate) => Pace::Open {
                    rate: rate / clients.max(1) as f64,
                },
                None => Pace::Closed { think: self.think },
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
