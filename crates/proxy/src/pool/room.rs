//! Room for server connections where the pools of a database or user share a limit: who has idle ones gives way, and who has
//! several at work does not keep out who has none.

use super::quota::{Full, ServerPlace};
use super::{Inner, Pool};
use crate::log::reasons;
use crate::proxy::Proxy;
use crate::server::ServerConn;
use paceline_config::PoolSettings;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long a connection serves its pool before it gives way to a pool that has none: many times what opening one costs.
const SERVES_AT_LEAST: Duration = Duration::from_millis(100);

impl Pool {
    /// A place for a further connection. `None`: there is none; if somebody waits here, others have been asked for it.
    pub(super) fn server_place(
        self: &Arc<Self>,
        inner: &mut Inner,
        settings: &PoolSettings,
    ) -> Option<ServerPlace> {
        if inner.open > 0 && self.quotas.others_hunger() {
            return None;
        }
        match self.quotas.server_place(settings) {
            Ok(place) => {
                inner.hunger = None;
                Some(place)
            }
            Err(full) if inner.line.has_ready() || inner.replication.has_waiting() => {
                self.miss(inner, full);
                None
            }
            Err(_) => None,
        }
    }

    fn miss(self: &Arc<Self>, inner: &mut Inner, full: Full) {
        // Whoever tends the line ends it, at the latest when nobody waits any longer.
        if inner.open == 0 {
            inner.hunger = Some(self.quotas.hunger(full));
        }
        let pool = Arc::clone(self);
        // Other pools have locks of their own.
        tokio::spawn(async move { pool.ask_for_room(full) });
    }

    /// The connection of another pool that has been idle for longest is closed.
    fn ask_for_room(self: &Arc<Self>, full: Full) {
        if make_room(&self.proxy, self, full) {
            self.look_again.notify_one();
        }
    }

    /// Must a connection that comes back make room for a replication client or another pool?
    pub(super) fn gives_way(&self, inner: &Inner, conn: &ServerConn, now: Instant) -> bool {
        if inner.replica_is_next() {
            return true;
        }
        self.quotas.others_hunger()
            && inner.hunger.is_none()
            && now.duration_since(conn.opened) >= SERVES_AT_LEAST
            && self.quotas.are_full(&self.settings())
    }

    /// Since when its least recently used idle connection has been idle.
    fn idle_since(&self) -> Option<Instant> {
        let inner = self.lock();
        inner.idle.first().map(|conn| conn.idle_since)
    }

    /// Closes that connection.
    fn close_one(&self) -> bool {
        let mut inner = self.lock();
        if inner.idle.is_empty() {
            return false;
        }
        let mut conn = inner.idle.remove(0);
        conn.closes_because(reasons::EVICTED);
        inner.open -= 1;
        drop(inner);
        conn.say_goodbye();
        true
    }
}

fn make_room(proxy: &Proxy, asking: &Arc<Pool>, full: Full) -> bool {
    let pools = proxy.pools();
    let others = pools
        .iter()
        .filter(|pool| !Arc::ptr_eq(pool, asking) && pool.quotas.share(&asking.quotas, full));
    let idle = others.filter_map(|pool| Some((pool.idle_since()?, pool)));
    let longest = idle.min_by_key(|(since, _)| *since);
    longest.is_some_and(|(_, pool)| pool.close_one())
}
