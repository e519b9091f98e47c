//! The sweep: what is due in a pool whether or not somebody waits there. Connections that are too old, idle for too long or
//! too many are closed; those that a pool keeps are opened.

use super::{Inner, Pool};
use crate::log::reasons;
use crate::metrics::PoolLabels;
use crate::proxy::Proxy;
use crate::server::ServerConn;
use paceline_config::PoolSettings;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often all pools are swept …
const EVERY: Duration = Duration::from_secs(1);

/// … and how often when something that is due with time is due sooner.
const OFTEN: Duration = Duration::from_millis(50);

/// Sweeps all pools for as long as the process lives.
pub(crate) async fn sweep(proxy: Arc<Proxy>) {
    loop {
        tokio::time::sleep(pause(&proxy)).await;
        proxy.clock.tick();
        proxy.turn_period();
        proxy.pools().iter().for_each(Pool::sweep);
        proxy.forget_unused();
    }
}

fn pause(proxy: &Proxy) -> Duration {
    let config = proxy.config();
    let timeouts = &config.paceline.timeouts;
    let times = [
        timeouts.server_idle_timeout,
        timeouts.server_lifetime,
        timeouts.autodb_idle_timeout,
    ];
    match times.iter().any(|time| !time.is_zero() && *time < EVERY) {
        true => OFTEN,
        false => EVERY,
    }
}

impl Pool {
    fn sweep(self: &Arc<Self>) {
        let (now, settings) = (Instant::now(), self.settings());
        let mut inner = self.lock();
        let closed = close(&mut inner, &settings, now);
        self.keep_enough(&mut inner, &settings, now);
        let used = inner.open > 0 || self.clients.load(Ordering::Relaxed) > 0;
        inner.unused_since = match used {
            true => None,
            false => inner.unused_since.or(Some(now)),
        };
        drop(inner);
        closed.into_iter().for_each(|conn| conn.say_goodbye());
    }

    /// Somebody has come for it.
    pub(crate) fn is_wanted(&self) {
        self.lock().unused_since = None;
    }

    /// For how long nobody has come for it, and the sweep has found neither clients nor connections in it. `None`: somebody or
    /// something is there. Its labels may be those of other pools, too, whose sums would fall: then it is never unused.
    pub(crate) fn unused_for(&self) -> Option<Duration> {
        let alone = self.labels.get().is_none_or(PoolLabels::are_its_own);
        let inner = self.lock();
        let since = inner.unused_since.filter(|_| inner.open == 0 && alone)?;
        Some(since.elapsed())
    }

    /// Opens a connection if the pool has fewer than it keeps, and clients for which to keep them.
    pub(super) fn keep_enough(
        self: &Arc<Self>,
        inner: &mut Inner,
        settings: &PoolSettings,
        now: Instant,
    ) {
        let may = inner.opening == 0 && inner.grow_not_before <= now;
        // Those that replicate use no connection of the pool.
        let clients = self.clients.load(Ordering::Relaxed);
        let clients = clients.saturating_sub(self.replication_clients.load(Ordering::Relaxed));
        if inner.open < settings.min_size && may && clients > 0 {
            self.grow(inner);
        }
    }

    /// Why it is time for a connection that comes back to be closed; `None`: it is not.
    pub(super) fn is_worn_out(
        &self,
        inner: &mut Inner,
        conn: &ServerConn,
        now: Instant,
    ) -> Option<&'static str> {
        if retire(inner, &self.settings(), conn, now) {
            return Some(reasons::LIFETIME_OVER);
        }
        self.gives_way(inner, conn, now).then_some(reasons::EVICTED)
    }
}

/// Takes out idle connections whose time has come, those that were idle for longest first.
fn close(inner: &mut Inner, settings: &PoolSettings, now: Instant) -> Vec<Box<ServerConn>> {
    let mut idle = std::mem::take(&mut inner.idle);
    let goes = |conn: &mut Box<ServerConn>| {
        let is_idle = is_idle_for_too_long(inner, settings, conn, now);
        let too_many = inner.open > inner.open_max;
        let goes = too_many || is_idle || retire(inner, settings, conn, now);
        if goes {
            conn.closes_because(match (is_idle, too_many) {
                (true, _) => reasons::IDLE_TIMEOUT,
                (false, true) => reasons::TOO_MANY,
                (false, false) => reasons::LIFETIME_OVER,
            });
            inner.open -= 1;
            // Others need not wait for its goodbye.
            conn.place = None;
        }
        goes
    };
    let closed = idle.extract_if(.., goes).collect();
    inner.idle = idle;
    closed
}

fn is_idle_for_too_long(
    inner: &Inner,
    settings: &PoolSettings,
    conn: &ServerConn,
    now: Instant,
) -> bool {
    let limit = settings.timeouts.server_idle_timeout;
    let idle = now.duration_since(conn.idle_since);
    !limit.is_zero() && idle >= limit && inner.open > settings.min_size
}

/// Is its lifetime over? Connections that were opened together are not closed together: between two of a pool lies the
/// part of the lifetime that one of them has.
fn retire(inner: &mut Inner, settings: &PoolSettings, conn: &ServerConn, now: Instant) -> bool {
    let retires = inner.lets_retire(settings, conn, now);
    if retires {
        inner.retire_not_before = now + between_two(settings);
    }
    retires
}

fn between_two(settings: &PoolSettings) -> Duration {
    let size = u32::try_from(settings.size).unwrap_or(u32::MAX).max(1);
    settings.timeouts.server_lifetime / size
}

impl Inner {
    /// Has a connection served for its lifetime, and is none of its fellows being replaced just now? One that cannot go on
    /// for long does not wait for them.
    pub(super) fn lets_retire(
        &self,
        settings: &PoolSettings,
        conn: &ServerConn,
        now: Instant,
    ) -> bool {
        let is_old = now.duration_since(conn.opened) >= settings.timeouts.server_lifetime;
        is_old && now >= self.retire_not_before || conn.stream.needs_replacement()
    }

    /// Under other settings the next one may go sooner than was said under those before.
    pub(super) fn hasten_retirement(&mut self, settings: &PoolSettings, now: Instant) {
        self.retire_not_before = self.retire_not_before.min(now + between_two(settings));
    }
}
