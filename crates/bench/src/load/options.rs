//! The parameters of a load.

use super::arrivals::Arrivals;
use crate::workload::Client;
use rand::rngs::StdRng;
use std::time::{Duration, Instant};

/// Creates the client with this number, counted from 0. The generator supplies all random numbers of the client.
pub(crate) type MakeClient = dyn Fn(usize, StdRng) -> Box<dyn Client> + Send + Sync;

/// Number of clients, duration and arrivals of a load.
#[derive(Debug, Clone)]
pub(crate) struct LoadOptions {
    /// Number of concurrent clients.
    pub(crate) clients: usize,
    /// Number of threads that the clients share.
    pub(crate) threads: usize,
    /// Number of connections that the clients share; `None` gives each client its own.
    pub(crate) shared_connections: Option<usize>,
    /// Time before the measurement begins.
    pub(crate) warmup: Duration,
    /// Time of the measurement.
    pub(crate) duration: Duration,
    /// When each client begins a turn.
    pub(crate) arrivals: Arrivals,
    /// Seed of the generators of all clients.
    pub(crate) seed: u64,
}

impl LoadOptions {
    /// The number of threads to start: each has at least one client and, if connections are shared, at least one connection.
    pub(super) fn threads(&self) -> usize {
        let connections = self.shared_connections.unwrap_or(usize::MAX);
        self.threads.min(self.clients).min(connections).max(1)
    }
}

/// The signal for which connected clients wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Not all clients are connected yet.
    Wait,
    /// The clients begin; the time counts from this instant.
    At(Instant),
    /// The run does not start: a client could not connect, or the run was stopped.
    Cancelled,
}
