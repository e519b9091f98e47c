//! Regular maintenance of a pool: closes connections that are too old, idle for too long or too many, and keeps `min_pool_size`.

use super::{Inner, Pool};
use crate::clock;
use crate::close_reason;
use crate::labels::PoolLabels;
use crate::server::ServerConn;
use paceline_config::PoolSettings;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Pool {
    /// Does what is due, whether or not requests wait.
    pub(crate) fn maintain(self: &Arc<Self>) {
        let (now, settings) = (clock::now(), self.settings());
        let mut inner = self.lock();
        let closed = inner.take_due(&settings, now);
        inner.analyses.forget_old_plans(now);
        self.keep_min_size(&mut inner, &settings, now);
        let used = inner.servers.open > 0 || self.clients.load(Ordering::Relaxed) > 0;
        inner.unused_since = match used {
            true => None,
            false => inner.unused_since.or(Some(now)),
        };
        drop(inner);
        closed.into_iter().for_each(|conn| conn.terminate());
    }

    /// Notes that a client asks for the pool.
    pub(crate) fn mark_used(&self) {
        self.lock().unused_since = None;
    }

    /// The time since the pool last had clients or connections. `None`: it has some, or it shares its labels in metrics with other pools:
    /// if it was dropped, their sums would fall.
    pub(crate) fn unused_for(&self) -> Option<Duration> {
        let alone = self.labels.get().is_none_or(PoolLabels::are_its_own);
        let inner = self.lock();
        let since = inner
            .unused_since
            .filter(|_| inner.servers.open == 0 && alone)?;
        Some(clock::elapsed(since))
    }

    /// The reason why a returned connection must be closed; `None`: the pool keeps it.
    pub(super) fn why_close(
        &self,
        inner: &mut Inner,
        conn: &ServerConn,
        now: Instant,
    ) -> Option<&'static str> {
        if inner.end_lifetime(&self.settings(), conn, now) {
            return Some(close_reason::LIFETIME_OVER);
        }
        self.must_yield(inner, conn, now)
            .then_some(close_reason::EVICTED)
    }
}

/// Connections that were opened together are not closed together: two of a pool are closed at least this time apart.
fn between_lifetime_ends(settings: &PoolSettings) -> Duration {
    let size = u32::try_from(settings.size).unwrap_or(u32::MAX).max(1);
    settings.timeouts.server_lifetime / size
}

impl Inner {
    /// Takes out the idle connections that must be closed, those that were idle longest first.
    fn take_due(&mut self, settings: &PoolSettings, now: Instant) -> Vec<Box<ServerConn>> {
        let mut idle = std::mem::take(&mut self.servers.idle);
        let is_due = |conn: &mut Box<ServerConn>| {
            let is_idle = self.is_idle_too_long(settings, conn, now);
            let too_many = self.servers.open > self.servers.open_max;
            let is_due = too_many || is_idle || self.end_lifetime(settings, conn, now);
            if is_due {
                conn.closes_because(match (is_idle, too_many) {
                    (true, _) => close_reason::IDLE_TIMEOUT,
                    (false, true) => close_reason::TOO_MANY,
                    (false, false) => close_reason::LIFETIME_OVER,
                });
                self.servers.open -= 1;
                // The slot is free before the connection is closed.
                conn.slot = None;
            }
            is_due
        };
        let closed = idle.extract_if(.., is_due).collect();
        self.servers.idle = idle;
        closed
    }

    fn is_idle_too_long(&self, settings: &PoolSettings, conn: &ServerConn, now: Instant) -> bool {
        let limit = settings.timeouts.server_idle_timeout;
        let idle = now.duration_since(conn.idle_since);
        !limit.is_zero() && idle >= limit && self.servers.open > settings.min_size
    }

    /// Whether the connection is closed for its age; then the next one is closed later.
    fn end_lifetime(&mut self, settings: &PoolSettings, conn: &ServerConn, now: Instant) -> bool {
        let is_over = self.is_lifetime_over(settings, conn, now);
        if is_over {
            self.servers.lifetime_ends_not_before = now + between_lifetime_ends(settings);
        }
        is_over
    }

    /// Whether the connection may be closed for its age now. One whose TLS session must end soon does not wait for others.
    pub(super) fn is_lifetime_over(
        &self,
        settings: &PoolSettings,
        conn: &ServerConn,
        now: Instant,
    ) -> bool {
        let is_old = now.duration_since(conn.opened) >= settings.timeouts.server_lifetime;
        is_old && now >= self.servers.lifetime_ends_not_before || conn.stream.needs_replacement()
    }

    /// Under new settings the next connection may be closed earlier.
    pub(super) fn shorten_lifetimes(&mut self, settings: &PoolSettings, now: Instant) {
        let earliest = now + between_lifetime_ends(settings);
        let servers = &mut self.servers;
        servers.lifetime_ends_not_before = servers.lifetime_ends_not_before.min(earliest);
    }
}
