//! The maximum rate of the load generator: its clients against a server that answers immediately and does no work. As long
//! as the rate of a run is well below this maximum, the target determines it.

mod echo;

use crate::connection::Result;
use crate::descriptors;
use crate::interrupt::Interrupt;
use crate::load::{self, Arrivals, LoadOptions, RunStatus};
use crate::session::Session;
use crate::show;
use crate::statement::{Protocol, Statement, Value};
use crate::target::Target;
use crate::workload::{Client, Turn, Workload};
use anyhow::Context;
use echo::Echo;
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;

/// Default numbers of clients.
const CLIENTS: [usize; 4] = [1, 64, 256, 1_024];
/// Default time before a measurement begins.
const WARMUP: Duration = Duration::from_millis(500);
/// Default time of a measurement.
const DURATION: Duration = Duration::from_secs(2);
/// The statement that clients send; it is as long as the statements of most workloads.
const SQL: &str = "UPDATE paceline_lab.stock SET qty = qty - 1 WHERE id = $1";

/// The parameters of a calibration.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Numbers of clients, one measurement for each; empty for 1, 64, 256 and 1,024.
    pub clients: Vec<usize>,
    /// Time before each measurement begins; half a second by default.
    pub warmup: Option<Duration>,
    /// Time of each measurement; two seconds by default.
    pub duration: Option<Duration>,
    /// The protocol of statements.
    pub protocol: Protocol,
    /// Number of threads of the load.
    pub threads: usize,
    /// Seed of the generators of all clients.
    pub seed: u64,
}

/// The maximum rate for a number of clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Number of concurrent clients.
    pub clients: usize,
    /// Turns per second.
    pub rate: f64,
    /// Median of the latency, in microseconds.
    pub p50: u64,
    /// 99th percentile of the latency, in microseconds.
    pub p99: u64,
}

/// Measures against a built-in server that runs on a separate thread and listens on loopback.
///
/// # Errors
/// The server cannot start, clients cannot connect to it, or the system allows too few open files.
pub async fn calibrate(calibration: &Calibration) -> anyhow::Result<Vec<Ceiling>> {
    let clients = match calibration.clients.as_slice() {
        [] => &CLIENTS,
        given => given,
    };
    // This process holds both ends of each connection.
    descriptors::allow(2 * clients.iter().max().copied().unwrap_or_default())?;
    let echo = Echo::start().context("no server of the lab's own")?;
    let target = Arc::new(echo.target());
    let mut ceilings = Vec::new();
    for &clients in clients {
        ceilings.push(measure(calibration, clients, &target).await?);
    }
    Ok(ceilings)
}

async fn measure(
    calibration: &Calibration,
    clients: usize,
    target: &Arc<Target>,
) -> Result<Ceiling> {
    let load = LoadOptions {
        clients,
        threads: calibration.threads,
        warmup: calibration.warmup.unwrap_or(WARMUP),
        duration: calibration.duration.unwrap_or(DURATION),
        arrivals: Arrivals::Closed {
            think: Duration::ZERO,
        },
        seed: calibration.seed,
        deadline: None,
    };
    let caller = Arc::new(Caller(Statement::new(0, SQL, calibration.protocol)));
    let status = Arc::new(RunStatus::new(Interrupt::default()));
    let measured = load::run(caller, target, &load, &status).await?;
    let latency = measured.latency();
    Ok(Ceiling {
        clients,
        rate: measured.rate(),
        p50: latency.p50,
        p99: latency.p99,
    })
}

/// Formats the results as a table.
pub fn ceilings(ceilings: &[Ceiling]) -> String {
    let line = |[clients, rate, p50, p99]: [&str; 4]| {
        format!("{clients:>10}{rate:>14}{p50:>11}{p99:>11}\n")
    };
    let title = "The load generator against a server that answers at once and does no work\n";
    let mut out = title.to_owned() + &line(["clients", "turns/s", "p50", "p99"]);
    for ceiling in ceilings {
        out += &line([
            &show::count(ceiling.clients as u64),
            &show::number(ceiling.rate),
            &show::duration(ceiling.p50 as f64),
            &show::duration(ceiling.p99 as f64),
        ]);
    }
    out
}

/// Clients send the statement and count the answers.
struct Caller(Statement);

impl Workload for Caller {
    type Memory = ();

    async fn turn(&self, client: &mut Client<()>, session: &mut Session) -> Result<Turn> {
        let values = [Value::Int(client.rng.random_range(1..=100_000))];
        let conn = session.connection().await?;
        let answer = conn.run(&self.0, &values, |_| ()).await?;
        Ok(match answer.affected {
            1 => Turn::Done,
            _ => Turn::Idle,
        })
    }
}
