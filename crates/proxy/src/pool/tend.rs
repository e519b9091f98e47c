//! What happens to a pool with time: connections are opened, waits come to an end.

use super::failing::Failing;
use super::quota::ServerPlace;
use super::{Delivery, Era, Hold, Inner, Pool, Waiter};
use crate::log::ServerLog;
use crate::server::{ServerConn, ServerError};
use bytes::{Bytes, BytesMut};
use paceline_batch::line::Entry;
use paceline_config::PoolSettings;
use paceline_wire::ErrorResponse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A further connection is opened when a unit that travels alone could have left for this long: about what opening
/// costs. They are opened one at a time, so that a burst does not leave behind more than it needed.
const GROW_AFTER: Duration = Duration::from_millis(5);

/// The same for units that travel together: the next connection that becomes free takes them all along, and a line
/// that moves is served better by larger groups on few connections.
const GROW_FOR_GROUPS_AFTER: Duration = Duration::from_millis(50);

/// How far into the line one looks for a unit that travels alone.
const LOOK_AHEAD: usize = 64;

/// While units wait, the line is looked at at least this often …
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// … and this often if their waits may be short.
const LOOK_OFTEN: Duration = Duration::from_millis(50);

/// After a connection could not be opened, the next further one is tried after this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Pool {
    /// Opens a connection in the background, if there may be one more.
    pub(super) fn grow(self: &Arc<Self>, inner: &mut Inner) {
        let settings = self.settings();
        let may = inner.hold == Hold::Open && !inner.is_excluded();
        if !may || inner.open >= open_max(inner, &settings, Instant::now()) {
            return;
        }
        let Some(place) = self.server_place(inner, &settings) else {
            return;
        };
        inner.open += 1;
        inner.opening += 1;
        let pool = Arc::clone(self);
        let era = Arc::clone(&inner.era);
        tokio::spawn(async move {
            let opened = pool.open(place, &era).await;
            pool.opened(era, opened);
        });
    }

    async fn open(
        &self,
        place: ServerPlace,
        era: &Arc<Era>,
    ) -> Result<Box<ServerConn>, ServerError> {
        let config = Arc::clone(&self.proxy.config());
        let limit = config.paceline.timeouts.server_connect_timeout;
        let none = self.proxy.book.none();
        let prepared_max = config.paceline.state.max_prepared_statements;
        let pass = self.proxy.gate.pass(&era.address, &self.learned);
        let mut conn =
            ServerConn::open_within(limit, &era.address, &pass, none, prepared_max).await?;
        conn.place = Some(place);
        conn.checked = Some(Instant::now());
        conn.log = Some(self.server_log(&conn, era));
        Arc::clone(era).bind(&mut conn);
        Ok(Box::new(conn))
    }

    /// Begins to log a connection under the names of its pool. A pool in which Paceline looks users up has none.
    pub(super) fn server_log(&self, conn: &ServerConn, era: &Era) -> ServerLog {
        let names = match self.name.get() {
            Some(name) => (name.database.as_str(), name.user.as_str()),
            None => (era.address.database.as_str(), era.address.user.as_str()),
        };
        ServerLog::begin(&self.proxy, names, &conn.stream.peer(), &era.replaced)
    }

    pub(super) fn opened(
        self: &Arc<Self>,
        era: Arc<Era>,
        opened: Result<Box<ServerConn>, ServerError>,
    ) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.opening -= 1;
        match opened {
            Ok(conn) => {
                self.roster.enter(&self.proxy, &conn);
                let idle_default = u64::try_from(conn.side.idle_default.as_millis());
                let idle_default = idle_default.unwrap_or_default();
                self.idle_default_ms.store(idle_default, Ordering::Relaxed);
                inner.has_reached_server(&era);
                self.take_in(&mut inner, conn);
                self.dispatch(&mut inner, now);
                self.keep_enough(&mut inner, &self.settings(), now);
                self.tend(&mut inner);
            }
            Err(error) if Arc::ptr_eq(&era, &inner.era) => {
                self.not_opened(&mut inner, &error, now);
                self.tend(&mut inner);
            }
            // It says nothing of where connections lead now.
            Err(_) => {
                self.lost(&mut inner);
                self.dispatch(&mut inner, now);
                self.tend(&mut inner);
            }
        }
    }

    /// The server cannot be reached or refuses. Clients that wait go on waiting, for other connections or for the next attempt;
    /// only if the server refuses the login, and there is no other connection, they are told what they would have been told alone.
    fn not_opened(&self, inner: &mut Inner, error: &ServerError, now: Instant) {
        inner.open -= 1;
        self.over.notify_waiters();
        inner.grow_not_before = now + RETRY_AFTER;
        let address = &inner.era.address;
        tracing::warn!(database = address.database, user = address.user, %error, "no server connection");
        if inner.open > 0 {
            if error.is_wrong_password() {
                tracing::warn!(
                    database = address.database,
                    user = address.user,
                    connections = inner.open,
                    "the server does not take the password any more (28P01): the pool keeps the connections that it has and opens no more; was the password changed?"
                );
            }
            return;
        }
        let retry = self.settings().timeouts.server_login_retry;
        let failing = Failing::after(inner.failing.as_ref(), error, retry, now);
        inner.grow_not_before = failing.until;
        let is_final = failing.is_final();
        inner.failing = Some(failing);
        if !is_final {
            return;
        }
        let mut out = BytesMut::new();
        error.to_fatal(&mut out);
        let told = out.freeze();
        let stranded = inner.line.drain(now);
        self.tell_all(stranded, &told);
    }

    pub(super) fn tell_all(&self, entries: Vec<Entry<Waiter>>, told: &Bytes) {
        self.counters()
            .waiting
            .fetch_sub(entries.len() as u64, Ordering::Relaxed);
        for entry in entries {
            // A client that has gone needs no answer.
            let _ = entry.unit.answer.send(Delivery::Fatal(told.clone()));
        }
    }

    /// Somebody must watch the clock while units wait.
    pub(super) fn tend(self: &Arc<Self>, inner: &mut Inner) {
        if inner.line.is_empty() {
            return;
        }
        if !std::mem::replace(&mut inner.tended, true) {
            tokio::spawn(tend(Arc::clone(self)));
        } else if inner.line.due().is_some_and(|due| due < inner.wakes_at) {
            self.look_again.notify_one();
        }
    }

    /// Does what is due; says when to look again. `None`: nobody waits.
    fn tick(self: &Arc<Self>) -> Option<Instant> {
        let (now, settings) = (Instant::now(), self.settings());
        let mut inner = self.lock();
        let late = inner.line.tick(now);
        self.tell_late(late);
        self.expire(&mut inner, &settings, now);
        notify(&mut inner, &settings, now);
        // Units that waited for mates may leave now.
        self.dispatch(&mut inner, now);
        if inner.line.is_empty() {
            inner.tended = false;
            inner.hunger = None;
            return None;
        }
        let mut wake = now + look_every(&settings);
        if inner.hold == Hold::Open && inner.open < open_max(&inner, &settings, now) {
            let due = grows_at(&inner).unwrap_or(now + GROW_AFTER);
            let due = due.max(inner.grow_not_before);
            if due <= now && inner.opening == 0 {
                self.grow(&mut inner);
            }
            wake = wake.min(due.max(now + GROW_AFTER));
        }
        wake = waits_end_at(&inner, &settings, now).map_or(wake, |end| end.min(wake));
        inner.wakes_at = inner.line.due().map_or(wake, |due| due.min(wake));
        Some(inner.wakes_at)
    }

    fn expire(&self, inner: &mut Inner, settings: &PoolSettings, now: Instant) {
        if inner.hold == Hold::Suspended {
            return;
        }
        let limit = settings.timeouts.query_wait_timeout;
        let Some(deadline) = now.checked_sub(limit).filter(|_| !limit.is_zero()) else {
            return;
        };
        let late = inner.line.expire(now, deadline);
        if late.is_empty() {
            return;
        }
        let mut out = BytesMut::new();
        let detail = match &inner.failing {
            Some(failing) => format!("The server was away for {limit:?}: {}.", failing.why),
            None => format!("No server connection was free for {limit:?}."),
        };
        ErrorResponse::fatal("08P01", "query_wait_timeout")
            .with_detail(detail)
            .write(&mut out);
        self.tell_all(late, &out.freeze());
    }
}

impl Inner {
    /// A connection of this era has been opened.
    fn has_reached_server(&mut self, era: &Arc<Era>) {
        if !Arc::ptr_eq(era, &self.era) {
            return;
        }
        self.failing = None;
        if std::mem::take(&mut self.welcomes_are_old) {
            self.welcomes.clear();
        }
    }
}

/// Most server connections now: with the reserve if somebody has waited for it.
fn open_max(inner: &Inner, settings: &PoolSettings, now: Instant) -> usize {
    let waited = |since| now.duration_since(since) >= settings.pooling.reserve_pool_timeout;
    let reserve = settings.reserve_size > 0 && inner.line.oldest_ready().is_some_and(waited);
    settings.size + if reserve { settings.reserve_size } else { 0 }
}

/// When somebody has waited for long enough that a further connection is worth its while.
fn grows_at(inner: &Inner) -> Option<Instant> {
    let alone = inner.line.oldest_ready_alone(LOOK_AHEAD);
    let together = inner.line.oldest_ready();
    let alone = alone.map(|since| since + GROW_AFTER);
    let together = together.map(|since| since + GROW_FOR_GROUPS_AFTER);
    alone.into_iter().chain(together).min()
}

/// Tells those who have waited for long that they wait.
fn notify(inner: &mut Inner, settings: &PoolSettings, now: Instant) {
    let limit = settings.timeouts.query_wait_notify;
    let Some(deadline) = now.checked_sub(limit).filter(|_| !limit.is_zero()) else {
        return;
    };
    if now < inner.notices_at {
        return;
    }
    inner.notices_at = now + look_every(settings);
    inner.line.late_mut(deadline).for_each(Waiter::tell_queued);
}

/// How a long wait can end or become another one.
fn limits_of_waits(settings: &PoolSettings) -> impl Iterator<Item = Duration> {
    let reserve = match settings.reserve_size {
        0 => Duration::ZERO,
        _ => settings.pooling.reserve_pool_timeout,
    };
    let limits = [
        settings.timeouts.query_wait_timeout,
        settings.timeouts.query_wait_notify,
        reserve,
    ];
    limits.into_iter().filter(|limit| !limit.is_zero())
}

/// While units wait, the line is looked at at least this often.
fn look_every(settings: &PoolSettings) -> Duration {
    match limits_of_waits(settings).any(|limit| limit < LOOK_EVERY * 2) {
        true => LOOK_OFTEN,
        false => LOOK_EVERY,
    }
}

/// When the next of these limits is reached by who could leave first.
fn waits_end_at(inner: &Inner, settings: &PoolSettings, now: Instant) -> Option<Instant> {
    let since = inner.line.oldest_ready()?;
    let ends = limits_of_waits(settings).map(|limit| since + limit);
    ends.filter(|end| *end > now).min()
}

/// Watches a line's clock until nobody waits.
pub(super) async fn tend(pool: Arc<Pool>) {
    while let Some(wake) = pool.tick() {
        tokio::select! {
            () = tokio::time::sleep_until(wake.into()) => {}
            () = pool.look_again.notified() => {}
        }
    }
}
