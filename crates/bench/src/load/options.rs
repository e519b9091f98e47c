//! The parameters of a load, and its state that other tasks read while it runs.

use super::arrivals::Arrivals;
use crate::connection::Failure;
use crate::interrupt::Interrupt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Interval of the check whether the load has begun.
const START_INTERVAL: Duration = Duration::from_millis(5);

/// Number of clients, duration and arrivals of a load.
#[derive(Debug, Clone)]
pub(crate) struct LoadOptions {
    /// Number of concurrent clients.
    pub(crate) clients: usize,
    /// Number of threads that the clients share.
    pub(crate) threads: usize,
    /// Time before the measurement begins.
    pub(crate) warmup: Duration,
    /// Time of the measurement.
    pub(crate) duration: Duration,
    /// The times at which clients begin their turns.
    pub(crate) arrivals: Arrivals,
    /// Seed of the generators of all clients.
    pub(crate) seed: u64,
    /// Requests that are answered within this time are counted; `None` counts none.
    pub(crate) deadline: Option<Duration>,
}

impl LoadOptions {
    /// The number of threads to start: each has at least one client and, if connections are shared, at least one connection.
    pub(super) fn threads(&self, shared_connections: Option<usize>) -> usize {
        let connections = shared_connections.unwrap_or(usize::MAX);
        self.threads.min(self.clients).min(connections).max(1)
    }
}

/// Counters of a load, and the signal that stops it.
#[derive(Debug, Default)]
pub(crate) struct RunStatus {
    /// The time at which all clients were connected and began; unset before.
    pub(crate) started: OnceLock<Instant>,
    /// The error of the first client that could not connect; the run never begins then.
    pub(crate) refused: OnceLock<Failure>,
    /// Number of connected clients.
    pub(crate) connected: AtomicUsize,
    /// Number of completed turns, including the warm-up.
    pub(crate) done: AtomicU64,
    /// Total duration of the completed turns, in microseconds.
    pub(crate) micros: AtomicU64,
    /// Number of failed turns.
    pub(crate) failed: AtomicU64,
    /// Ends the run early.
    pub(crate) stop: Interrupt,
}

impl RunStatus {
    pub(crate) fn new(stop: Interrupt) -> Self {
        Self {
            stop,
            ..Self::default()
        }
    }

    /// Waits until the run begins; returns when it began.
    pub(crate) async fn start_time(&self) -> Instant {
        loop {
            match self.started.get() {
                Some(started) => return *started,
                None => tokio::time::sleep(START_INTERVAL).await,
            }
        }
    }

    /// Counts a completed turn.
    pub(super) fn done(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}
