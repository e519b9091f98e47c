//! What a pool is doing at one moment, for metrics. The lock is held only to count and to copy pointers.

use super::Pool;
use paceline_batch::template_stats::StatsSnapshot;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Who is there and what they are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Clients that do not wait: at work with a server connection, or idle.
    pub(crate) clients_active: u64,
    /// Units in line, one per client.
    pub(crate) clients_waiting: u64,
    /// Server connections at work or in a client's hands.
    pub(crate) servers_active: u64,
    /// Server connections that nobody uses.
    pub(crate) servers_idle: u64,
    /// Server connections that are being opened.
    pub(crate) servers_opening: u64,
    /// Server connections that answer `server_check_query`.
    pub(crate) servers_tested: u64,
    /// Most server connections.
    pub(crate) servers_max: u64,
    /// How long the first in line has waited.
    pub(crate) longest_wait: Duration,
}

impl Pool {
    /// How busy it is, and what it has counted.
    pub(crate) fn load(&self) -> (Load, StatsSnapshot) {
        let inner = self.lock();
        let waiting = inner.line.len();
        let idle = inner.idle.len() + inner.parked.len();
        let (open, opening, tested) = (inner.open, inner.opening, inner.checking);
        let oldest = inner.line.oldest();
        let census = inner.tallies.snapshot();
        drop(inner);
        // A login that looks a user up waits here, too, and is no client of this pool.
        let clients = self.clients.load(Ordering::Relaxed).max(waiting);
        let load = Load {
            clients_active: (clients - waiting) as u64,
            clients_waiting: waiting as u64,
            servers_active: open.saturating_sub(idle + opening + tested) as u64,
            servers_idle: idle as u64,
            servers_opening: opening as u64,
            servers_tested: tested as u64,
            servers_max: self.settings().size as u64,
            longest_wait: oldest.map_or(Duration::ZERO, |since| {
                Instant::now().saturating_duration_since(since)
            }),
        };
        (load, census)
    }
}
