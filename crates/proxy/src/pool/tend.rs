//! What happens to a pool with time: connections are opened, waits come to an end.

use super::{Delivery, Inner, Pool, Waiter};
use crate::server::{ServerConn, ServerError};
use bytes::{Bytes, BytesMut};
use paceline_line::line::{Entry, Keys};
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

/// While units wait, the line is looked at at least this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// After a connection could not be opened, the next further one is tried after this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Pool {
    /// Opens a connection in the background.
    pub(super) fn grow(self: &Arc<Self>, inner: &mut Inner) {
        if inner.open >= self.size {
            return;
        }
        inner.open += 1;
        inner.opening += 1;
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let opened = pool.open().await;
            pool.opened(opened);
        });
    }

    async fn open(&self) -> Result<ServerConn, ServerError> {
        let config = Arc::clone(&self.proxy.config());
        let limit = config.paceline.timeouts.server_connect_timeout;
        let none = self.proxy.book.none();
        let prepared_max = config.paceline.state.max_prepared_statements;
        ServerConn::open_within(limit, &self.address, none, prepared_max).await
    }

    fn opened(self: &Arc<Self>, opened: Result<ServerConn, ServerError>) {
        self.lock().opening -= 1;
        match opened {
            Ok(conn) => {
                self.roster.enter(&self.proxy, &conn.card);
                self.release(Some(conn), &Keys::Unknown);
            }
            Err(error) => self.not_opened(&error),
        }
    }

    /// The server cannot be reached or refuses. With other connections at work that is no reason to give up; without,
    /// whoever waits is told what it would have been told alone.
    fn not_opened(&self, error: &ServerError) {
        let mut inner = self.lock();
        inner.open -= 1;
        inner.grow_not_before = Instant::now() + RETRY_AFTER;
        tracing::warn!(database = self.address.database, user = self.address.user, %error, "no server connection");
        if inner.open > 0 {
            return;
        }
        let mut out = BytesMut::new();
        error.to_fatal(&mut out);
        let told = out.freeze();
        let stranded = inner.line.drain(Instant::now());
        self.tell_all(stranded, &told);
    }

    fn tell_all(&self, entries: Vec<Entry<Waiter>>, told: &Bytes) {
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
        } else if due(inner).is_some_and(|due| due < inner.wakes_at) {
            self.look_again.notify_one();
        }
    }

    /// Does what is due; says when to look again. `None`: nobody waits.
    fn tick(self: &Arc<Self>) -> Option<Instant> {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.line.release_held(now);
        inner.line.give_way(now);
        self.expire(&mut inner, now);
        // Units that waited for mates may leave now.
        self.dispatch(&mut inner, now);
        if inner.line.is_empty() {
            inner.tended = false;
            return None;
        }
        let mut wake = now + LOOK_EVERY;
        if inner.open < self.size {
            let alone = inner
                .line
                .oldest_ready_alone(LOOK_AHEAD)
                .map(|since| since + GROW_AFTER);
            let together = inner
                .line
                .oldest_ready()
                .map(|since| since + GROW_FOR_GROUPS_AFTER);
            let due = alone.into_iter().chain(together).min();
            let due = due.unwrap_or(now + GROW_AFTER);
            if due <= now && inner.opening == 0 && inner.grow_not_before <= now {
                self.grow(&mut inner);
            }
            wake = wake.min(due.max(now + GROW_AFTER));
        }
        inner.wakes_at = due(&inner).map_or(wake, |due| due.min(wake));
        Some(inner.wakes_at)
    }

    fn expire(&self, inner: &mut Inner, now: Instant) {
        let limit = self.proxy.config().paceline.timeouts.query_wait_timeout;
        let Some(deadline) = now.checked_sub(limit).filter(|_| !limit.is_zero()) else {
            return;
        };
        let late = inner.line.expire(now, deadline);
        if late.is_empty() {
            return;
        }
        let mut out = BytesMut::new();
        ErrorResponse::fatal("08P01", "query_wait_timeout")
            .with_detail(format!("No server connection was free for {limit:?}."))
            .write(&mut out);
        self.tell_all(late, &out.freeze());
    }
}

/// When the line has something to do by itself.
fn due(inner: &Inner) -> Option<Instant> {
    let due = [inner.line.held_until(), inner.line.gives_way_at()];
    due.into_iter().flatten().min()
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
