//! The load: thousands of clients of one workload, on a few threads, for a time. What it does is measured from the
//! outside: how long every turn took, and how many came out how.

mod crew;
mod pace;
#[cfg(test)]
mod tests;

pub(crate) use pace::Pace;

use crate::connection::Failure;
use crate::interrupt::Interrupt;
use crate::target::Target;
use crate::workload::{Client, Outcome};
use crew::Crew;
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// A turn that takes longer is recorded as this long.
const LATENCY_MAX: Duration = Duration::from_secs(300);
/// Latency is kept to three digits.
const DIGITS: u8 = 3;

/// Makes the client with this number, from 0; all that it draws comes from the generator.
pub(crate) type MakeClient = dyn Fn(usize, StdRng) -> Box<dyn Client> + Send + Sync;

/// How many clients, for how long.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Clients at the same time.
    pub(crate) clients: usize,
    /// Threads that they share.
    pub(crate) threads: usize,
    /// Connections that they share; `None`: each has its own.
    pub(crate) shared_connections: Option<usize>,
    /// Runs before anything is measured.
    pub(crate) warmup: Duration,
    /// Is measured.
    pub(crate) duration: Duration,
    /// How often each client begins a turn.
    pub(crate) pace: Pace,
    /// Seeds every client's own generator.
    pub(crate) seed: u64,
}

impl Load {
    /// No thread is without a client, or without a connection if they are shared.
    fn threads(&self) -> usize {
        let connections = self.shared_connections.unwrap_or(usize::MAX);
        self.threads.min(self.clients).min(connections).max(1)
    }
}

/// What can be seen of a run from outside while it lasts.
#[derive(Debug)]
pub(crate) struct Gauge {
    /// Set when all clients are there and begin.
    pub(crate) started: OnceLock<Instant>,
    /// Clients that are ready to begin.
    pub(crate) connected: AtomicUsize,
    /// Turns done, warm-up included.
    pub(crate) done: AtomicU64,
    /// What they took in all, in microseconds.
    pub(crate) micros: AtomicU64,
    /// Turns that failed.
    pub(crate) failed: AtomicU64,
    /// Set to end the run before its time.
    pub(crate) stop: Interrupt,
}

impl Gauge {
    pub(crate) fn new(stop: Interrupt) -> Self {
        Self {
            started: OnceLock::new(),
            connected: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stop,
        }
    }

    fn done(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Turns that ended within the time measured.
    pub(crate) done: u64,
    /// The time measured; shorter than asked for if the run was stopped.
    pub(crate) lasted: Duration,
    /// Turns that fell due within that time.
    pub(crate) offered: u64,
    /// Turns that had fallen due at a fixed rate, and had no answer when that time ended.
    pub(crate) behind: u64,
    /// How long those took that were done, and how long those had been due that were behind, in microseconds.
    pub(crate) latency: Histogram<u64>,
    /// Turns that failed, warm-up included, by [`Failure::kind`], with the words of the first of each kind.
    pub(crate) errors: BTreeMap<String, (u64, String)>,
    /// What clients were told in the whole of the run.
    pub(crate) outcome: Outcome,
}

impl Measured {
    fn nothing() -> Self {
        let micros_max = u64::try_from(LATENCY_MAX.as_micros()).unwrap_or(u64::MAX);
        // Fails for bounds and digits that make no sense; these do.
        let latency = Histogram::new_with_bounds(1, micros_max, DIGITS);
        Self {
            done: 0,
            offered: 0,
            behind: 0,
            lasted: Duration::ZERO,
            latency: latency.unwrap_or_else(|error| unreachable!("{error}")),
            errors: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    /// Units of work per second.
    pub(crate) fn rate(&self) -> f64 {
        match self.lasted.as_secs_f64() {
            seconds if seconds > 0.0 => self.done as f64 / seconds,
            _ => 0.0,
        }
    }

    fn record(&mut self, took: Duration) {
        self.done += 1;
        self.record_latency(took);
    }

    fn record_latency(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(micros.max(1));
    }

    fn note(&mut self, failure: &Failure) {
        let error = self.errors.entry(failure.kind().to_owned());
        error.or_insert_with(|| (0, failure.to_string())).0 += 1;
    }

    fn add(&mut self, other: Measured) {
        self.done += other.done;
        self.offered += other.offered;
        self.behind += other.behind;
        self.lasted = self.lasted.max(other.lasted);
        // Both have the same bounds.
        let _ = self.latency.add(&other.latency);
        for (kind, (count, words)) in other.errors {
            self.errors.entry(kind).or_insert_with(|| (0, words)).0 += count;
        }
        self.outcome.acknowledged += other.outcome.acknowledged;
        self.outcome.unknown += other.outcome.unknown;
    }
}

/// When the clients that wait at the start may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Not all are there yet.
    Await,
    /// Now; time runs from here.
    At(Instant),
    /// Never: somebody could not come, or the run was stopped.
    Off,
}

/// Runs the load and waits for its last answer, but not for ever. Time runs from the moment when all clients are connected; if the
/// run is stopped before, it never [starts](Gauge::started).
///
/// # Errors
/// A client cannot connect; nothing has run then.
pub(crate) async fn run(
    clients: Arc<MakeClient>,
    target: &Arc<Target>,
    load: &Load,
    gauge: &Arc<Gauge>,
) -> Result<Measured, Failure> {
    let (start, started) = watch::channel(Start::Await);
    let threads = load.threads();
    let mut crews = Vec::new();
    let mut ready = Vec::new();
    for thread in 0..threads {
        let (at_start, is_ready) = oneshot::channel();
        let (done, measured) = oneshot::channel();
        let crew = Crew {
            clients: Arc::clone(&clients),
            target: Arc::clone(target),
            load: load.clone(),
            gauge: Arc::clone(gauge),
            numbers: (thread..load.clients).step_by(threads).collect(),
            shared: load
                .shared_connections
                .map(|all| all.saturating_sub(thread).div_ceil(threads)),
            started: started.clone(),
        };
        std::thread::spawn(move || {
            // Who asked may have been interrupted.
            let _ = done.send(crew.run(at_start));
        });
        ready.push(is_ready);
        crews.push(measured);
    }
    let mut refused = None;
    for crew in ready {
        if let Ok(Err(failure)) = crew.await {
            refused.get_or_insert(failure);
        }
    }
    // Crews that have ended need no start.
    let is_off = refused.is_some() || gauge.stop.is_set();
    start.send_replace(match is_off {
        false => Start::At(*gauge.started.get_or_init(Instant::now)),
        true => Start::Off,
    });
    let mut total = Measured::nothing();
    for crew in crews {
        match crew.await {
            Ok(measured) => total.add(measured),
            Err(_) => return Err(Failure::Lost("a thread of the load has ended".to_owned())),
        }
    }
    refused.map_or(Ok(total), Err)
}
