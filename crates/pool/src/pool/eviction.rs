//! Slots for server connections where pools share the limits of a database or user: a pool without connections gets a slot from a
//! pool that has idle ones, or several in use.

use super::{Inner, Pool};
use crate::close_reason;
use crate::quota::{Full, ServerSlot};
use crate::server::ServerConn;
use paceline_config::PoolSettings;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Minimum age of a connection that is closed for a pool without connections: many times the cost of opening one.
const SERVES_AT_LEAST: Duration = Duration::from_millis(100);

impl Pool {
    /// A slot for a further connection. `None`: the limits allow none; if clients wait here, another pool is asked for one.
    pub(super) fn server_slot(
        self: &Arc<Self>,
        inner: &mut Inner,
        settings: &PoolSettings,
    ) -> Option<ServerSlot> {
        if inner.servers.open > 0 && self.quotas.others_starve() {
            return None;
        }
        match self.quotas.server_slot(settings) {
            Ok(slot) => {
                inner.servers.starving = None;
                Some(slot)
            }
            Err(full) if inner.line.has_ready() || inner.replication.has_waiting() => {
                self.ask_for_slot(inner, full);
                None
            }
            Err(_) => None,
        }
    }

    fn ask_for_slot(self: &Arc<Self>, inner: &mut Inner, full: Full) {
        // The wait timer ends it, at the latest when no client waits any longer.
        if inner.servers.open == 0 {
            inner.servers.starving = Some(self.quotas.starving(full));
        }
        let pool = Arc::clone(self);
        // Other pools have locks of their own.
        tokio::spawn(async move { pool.evict_from_others(full) });
    }

    /// Closes the connection that has been idle longest in the pools that share the limit.
    fn evict_from_others(self: &Arc<Self>, full: Full) {
        let Some(registry) = self.all_pools.upgrade() else {
            return;
        };
        let pools = registry.pools();
        let others = pools
            .iter()
            .filter(|pool| !Arc::ptr_eq(pool, self) && pool.quotas.share(&self.quotas, full));
        let idle = others.filter_map(|pool| Some((pool.idle_since()?, pool)));
        let longest = idle.min_by_key(|(since, _)| *since);
        if longest.is_some_and(|(_, pool)| pool.evict_one()) {
            self.signals.look_again.notify_one();
        }
    }

    /// Whether a returned connection must be closed for a replication client or another pool.
    pub(super) fn must_yield(&self, inner: &Inner, conn: &ServerConn, now: Instant) -> bool {
        if inner.replication_is_next() {
            return true;
        }
        self.quotas.others_starve()
            && inner.servers.starving.is_none()
            && now.duration_since(conn.opened) >= SERVES_AT_LEAST
            && self.quotas.are_full(&self.settings())
    }

    /// Since when the connection that was used least recently has been idle.
    fn idle_since(&self) -> Option<Instant> {
        let inner = self.lock();
        inner.servers.idle.first().map(|conn| conn.idle_since)
    }

    /// Closes that connection.
    fn evict_one(&self) -> bool {
        let mut inner = self.lock();
        if inner.servers.idle.is_empty() {
            return false;
        }
        let mut conn = inner.servers.idle.remove(0);
        conn.closes_because(close_reason::EVICTED);
        inner.servers.open -= 1;
        drop(inner);
        conn.terminate();
        true
    }
}
