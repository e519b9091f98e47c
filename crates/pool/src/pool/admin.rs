//! An operator's orders to a pool: pause, suspend, resume, reconnect, kill, shut down; and statements of clients that need the
//! database without other sessions.
//!
//! A pool that is not active has no idle connection, so no request can start at once, and requests wait in the line. The other
//! parts of the pool look at the state only when a connection is returned, one is to be opened, or the line is dispatched.

use super::{DisconnectSignal, ExclusiveUse, Inner, Pool, PoolState, Servers, Waiter};
use crate::clock;
use crate::close_reason;
use crate::messages;
use crate::server::{Generation, ServerConn};
use paceline_batch::line::WaitEntry;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::watch;

impl Inner {
    /// Whether this connection may serve another request.
    pub(super) fn may_serve(&self, conn: &ServerConn) -> bool {
        self.admin.state == PoolState::Active && self.may_keep(conn) && !self.is_excluded()
    }

    /// Whether the pool keeps this connection: it is not to be replaced, and there are not too many.
    fn may_keep(&self, conn: &ServerConn) -> bool {
        self.servers.is_current(conn) && self.servers.open <= self.servers.open_max
    }

    /// Whether a statement needs the database without other sessions.
    pub(super) fn is_excluded(&self) -> bool {
        let exclusive = &self.admin.exclusive;
        exclusive.iter().any(|running| running.strong_count() > 0)
    }

    /// Whether no request has a connection. (Replication clients keep theirs.)
    fn is_at_rest(&self) -> bool {
        let Servers {
            idle,
            suspended,
            open,
            opening,
            ..
        } = &self.servers;
        *open == opening + idle.len() + suspended.len() + self.replication.open
    }
}

impl Pool {
    /// Keeps a free connection that may not serve now for later, or closes it.
    pub(super) fn suspend_or_close(self: &Arc<Self>, inner: &mut Inner, mut conn: Box<ServerConn>) {
        let suspended = inner.admin.state == PoolState::Suspended;
        if suspended && inner.may_keep(&conn) && !inner.is_excluded() {
            inner.servers.suspended.push(conn);
            self.signals.closed.notify_waiters();
            return;
        }
        if inner.servers.open > inner.servers.open_max && inner.servers.is_current(&conn) {
            conn.closes_because(close_reason::TOO_MANY);
        }
        conn.terminate();
        self.lost(inner);
    }

    /// If the process ends, rejects all clients that wait.
    pub(super) fn reject_waiters(&self, inner: &mut Inner, now: Instant) {
        if inner.admin.state != PoolState::ShuttingDown {
            return;
        }
        let message = messages::shutting_down();
        inner.replication.reject(&message);
        if !inner.line.is_empty() {
            let waiting = inner.line.drain(now);
            self.reject(waiting, &message);
        }
    }

    /// Takes out of `again`, and rejects, the requests that were in the line when the database was killed.
    pub(super) fn fail_killed(&self, inner: &Inner, again: &mut Vec<WaitEntry<Waiter>>) {
        let Some(killed_at) = inner.admin.killed_at else {
            return;
        };
        let killed: Vec<_> = again
            .extract_if(.., |entry| entry.arrived <= killed_at)
            .collect();
        self.reject(killed, &DisconnectSignal::Killed.message());
    }

    /// Begins a generation of connections. Those of earlier generations are closed when they are free, for this reason.
    pub(super) fn begin_generation(
        &self,
        inner: &mut Inner,
        next: Arc<Generation>,
        why: &'static str,
    ) {
        let servers = &mut inner.servers;
        let last = std::mem::replace(&mut servers.generation, next);
        last.replace(why);
        servers.past.retain(|past| past.strong_count() > 0);
        servers.past.push(Arc::downgrade(&last));
        servers.close_idle();
        servers.forget_failures();
        inner.analyses.parameters_are_old = true;
    }

    pub(super) fn replace_connections(&self, inner: &mut Inner, why: &'static str) {
        let address = Arc::clone(&inner.servers.generation.address);
        self.shared.compressors.forget_refusals();
        let next = Generation::new(address, &self.signals.closed);
        self.begin_generation(inner, next, why);
    }

    /// Replaces every connection when it is free (RECONNECT).
    pub fn reconnect(self: &Arc<Self>) {
        let mut inner = self.lock();
        self.replace_connections(&mut inner, close_reason::CONFIGURATION_CHANGED);
        inner.replication.replace();
        self.dispatch(&mut inner, clock::now());
    }

    /// Changes whether transactions may begin.
    pub(crate) fn set_state(self: &Arc<Self>, state: PoolState) {
        let mut inner = self.lock();
        if std::mem::replace(&mut inner.admin.state, state) == state {
            return;
        }
        let servers = &mut inner.servers;
        if state != PoolState::Active {
            // The pool opens no connection, even if other pools leave it a slot.
            servers.starving = None;
        }
        match state {
            PoolState::Active => servers.idle.append(&mut servers.suspended),
            PoolState::Suspended => servers.suspended.append(&mut servers.idle),
            PoolState::Paused => self.replace_connections(&mut inner, close_reason::PAUSE_MODE),
            PoolState::ShuttingDown => {
                self.replace_connections(&mut inner, close_reason::SHUTTING_DOWN);
                let disconnect = &inner.admin.disconnect;
                disconnect.send_replace(DisconnectSignal::Closing);
            }
        }
        self.dispatch(&mut inner, clock::now());
        self.start_timer(&mut inner);
        // Requests that wait may now have waited long enough for a further connection.
        self.signals.look_again.notify_one();
    }

    /// Closes all client and server connections of the pool (KILL).
    pub fn kill(self: &Arc<Self>) {
        let now = clock::now();
        let mut inner = self.lock();
        self.replace_connections(&mut inner, close_reason::DATABASE_REMOVED);
        inner.admin.killed_at = Some(now);
        // Later clients listen to a new channel. The present ones get the message before their connections are closed.
        let disconnect = std::mem::take(&mut inner.admin.disconnect);
        disconnect.send_replace(DisconnectSignal::Killed);
        let message = DisconnectSignal::Killed.message();
        let waiting = inner.line.drain(now);
        self.reject(waiting, &message);
        inner.replication.reject(&message);
        let past = inner.servers.past.iter().filter_map(Weak::upgrade);
        past.for_each(|generation| {
            generation.replaced.set(close_reason::DATABASE_REMOVED);
            generation.shut_down();
        });
    }

    /// Disconnects clients when they are idle, from now on.
    pub fn disconnect_idle(&self) {
        let inner = self.lock();
        let disconnect = &inner.admin.disconnect;
        disconnect.send_replace(DisconnectSignal::ShutDown);
    }

    /// The signals that a client of this pool must obey while it is idle.
    pub fn disconnect_signals(&self) -> watch::Receiver<DisconnectSignal> {
        self.lock().admin.disconnect.subscribe()
    }

    /// Returns when the connections of earlier generations are closed.
    pub async fn replaced(&self) {
        let is_replaced = |inner: &Inner| {
            let mut past = inner.servers.past.iter();
            past.all(|generation| generation.strong_count() == 0)
        };
        self.reached(is_replaced).await;
    }

    /// Returns when no request has a connection.
    pub async fn at_rest(&self) {
        self.reached(Inner::is_at_rest).await;
    }

    /// Returns when the condition holds; checks it whenever a connection is closed or suspended.
    async fn reached(&self, condition: impl Fn(&Inner) -> bool) {
        loop {
            let closed = self.signals.closed.notified();
            if condition(&self.lock()) {
                return;
            }
            closed.await;
        }
    }

    /// Closes the idle connections and opens none while a statement needs the database without other sessions.
    pub(crate) fn exclude(&self, running: &Weak<ExclusiveUse>) {
        let mut inner = self.lock();
        inner.admin.exclusive.push(Weak::clone(running));
        // The pool opens no connection until the statement ends, even if other pools leave it a slot.
        inner.servers.starving = None;
        inner.servers.close_idle();
    }

    /// Serves the requests that waited for the end of such a statement.
    pub(crate) fn exclusive_use_ended(self: &Arc<Self>) {
        let mut inner = self.lock();
        let exclusive = &mut inner.admin.exclusive;
        if exclusive.is_empty() {
            return;
        }
        exclusive.retain(|running| running.strong_count() > 0);
        self.dispatch(&mut inner, clock::now());
        self.start_timer(&mut inner);
        self.signals.look_again.notify_one();
    }
}
