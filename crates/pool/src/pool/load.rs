//! The state of a pool at one moment, for the console and for metrics. The lock is held only to count and to copy pointers.

use super::Pool;
use crate::clock;
use paceline_batch::group_limit::LimitReason;
use paceline_batch::strategy::PlannedRequest;
use paceline_batch::template_stats::StatsSnapshot;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum number of requests of the line that [`Pool::awaited_rows`] reads: the lock of the pool is held meanwhile.
const REQUESTS_READ_MAX: usize = 512;

/// Clients and server connections of a pool, by their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLoad {
    /// Clients that do not wait: idle, or with a server connection.
    pub clients_active: u64,
    /// Requests in the line or waiting for their turn, at most one per client.
    pub clients_waiting: u64,
    /// Those that wait for their turn (`max_requests_per_second`).
    pub clients_throttled: u64,
    /// Server connections in use.
    pub servers_active: u64,
    /// Idle server connections.
    pub servers_idle: u64,
    /// Server connections that are being opened.
    pub servers_opening: u64,
    /// Server connections that run `server_check_query`.
    pub servers_tested: u64,
    /// Maximum number of server connections, without the reserve.
    pub servers_max: u64,
    /// Maximum number of groups at once, and why.
    pub groups_max: (u64, LimitReason),
    /// The time that the first request in the line has waited.
    pub longest_wait: Duration,
}

impl PoolLoad {
    /// Server connections that exist or are being opened.
    pub fn servers_open(&self) -> u64 {
        self.servers_active + self.servers_idle + self.servers_opening + self.servers_tested
    }
}

impl Pool {
    /// The row of requests in the line, of those that arrived first.
    pub(crate) fn awaited_rows(&self) -> Vec<(u64, Arc<PlannedRequest>)> {
        let inner = self.lock();
        let first = inner.line.waiting_after(None).take(REQUESTS_READ_MAX);
        let row = |(waiter, _)| {
            let (spec, waiting) = inner.line.get(waiter)?;
            let [key] = spec.keys.as_slice() else {
                return None;
            };
            Some((key.0, Arc::clone(waiting.request.as_ref()?)))
        };
        first.filter_map(row).collect()
    }

    /// The load of the pool, and the statistics of its templates.
    pub fn load(&self) -> (PoolLoad, StatsSnapshot) {
        let inner = self.lock();
        let servers = &inner.servers;
        let throttled = if self.is_beside() {
            0
        } else {
            self.throttled()
        };
        let waiting = inner.line.len() + throttled;
        let idle = servers.idle.len() + servers.suspended.len();
        let (open, opening, tested) = (servers.open, servers.opening, servers.checking);
        let oldest = inner.line.oldest();
        let groups = inner.line.group_limit();
        let groups_max = (groups.limit() as u64, groups.reason());
        let stats = inner.analyses.stats.snapshot();
        drop(inner);
        // A login that asks for a user waits here, too, and is no client of this pool.
        let clients = self.clients.load(Ordering::Relaxed).max(waiting);
        let load = PoolLoad {
            clients_active: (clients - waiting) as u64,
            clients_waiting: waiting as u64,
            clients_throttled: throttled as u64,
            servers_active: open.saturating_sub(idle + opening + tested) as u64,
            servers_idle: idle as u64,
            servers_opening: opening as u64,
            servers_tested: tested as u64,
            servers_max: self.settings().size as u64,
            groups_max,
            longest_wait: oldest.map_or(Duration::ZERO, |since| {
                clock::now().saturating_duration_since(since)
            }),
        };
        (load, stats)
    }
}
