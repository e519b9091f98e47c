//! The server connections of replication clients. Each client has one of its own, which no other client ever uses; it counts
//! among the connections of the pool, its database and its user.
//!
//! A replication client that finds no slot waits. Replication clients and the requests in the line are served in the order of
//! their arrival: when a replication client is next, a connection that is idle or returned is closed for it.

use super::login_backoff::{FIRST_PAUSE, PAUSE_MIN};
use super::replication_queue::Grant;
use super::{DisconnectSignal, Inner, Pool, PoolState};
use crate::clock;
use crate::close_reason;
use crate::messages;
use crate::quota::ServerSlot;
use crate::replication::Replication;
use crate::server::{GenerationGuard, ServerConn, ServerError};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Interval in which a waiting client looks for slots in other pools, and checks the time.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server connection for one replication client. Dropping it closes the connection.
pub struct ReplicationServer {
    /// The connection, logged in.
    pub conn: Box<ServerConn>,
    /// Changes when the connection must be closed: RECONNECT, or the database has another address.
    pub replaced: watch::Receiver<()>,
    _counted: CountedConnection,
}

/// One connection among those of the pool, given back when this is dropped.
struct CountedConnection(Arc<Pool>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.replication_client_left();
    }
}

/// A client that waits.
struct InQueue<'a> {
    pool: &'a Arc<Pool>,
    grant: oneshot::Receiver<Result<Grant, Bytes>>,
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.grant.close();
        if let Ok(Ok(grant)) = self.grant.try_recv() {
            // The slot is free before another client asks for it.
            drop(grant);
            drop(CountedConnection(Arc::clone(self.pool)));
        }
        self.pool.dispatch_replication();
    }
}

impl Inner {
    /// Whether a replication client has waited longer than every request that could start.
    pub(super) fn replication_is_next(&self) -> bool {
        let Some(since) = self.replication.first_since() else {
            return false;
        };
        let ready = self.line.oldest_ready();
        ready.is_none_or(|ready| since <= ready)
    }
}

impl Pool {
    /// A server connection for a replication client. The client waits at most `query_wait_timeout` for a slot among the connections
    /// of the pool, and for a server that is away.
    ///
    /// # Errors
    /// The error with which the client's connection ends.
    pub async fn replication_server(
        self: &Arc<Self>,
        kind: Replication,
        parameters: &[(String, String)],
    ) -> Result<ReplicationServer, Bytes> {
        let since = clock::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let grant = self.replication_grant(since).await?;
            let error = match self.open_for_replication(grant, kind, parameters).await {
                Ok(server) => return Ok(server),
                Err(error) => error,
            };
            let address = self.address();
            tracing::warn!(database = address.database, user = address.user, %error, "no replication connection");
            if !error.is_absence() {
                return Err(fatal(&error));
            }
            let settings = self.settings();
            pause = pause
                .min(settings.timeouts.server_login_retry)
                .max(PAUSE_MIN);
            let left = match settings.timeouts.query_wait_timeout {
                Duration::ZERO => pause,
                limit => limit.saturating_sub(clock::elapsed(since)),
            };
            tokio::time::sleep(pause.min(left).max(PAUSE_MIN)).await;
            pause *= 2;
            if self.has_waited_too_long(since) {
                return Err(waited_too_long(&error.to_string()));
            }
        }
    }

    async fn replication_grant(self: &Arc<Self>, since: Instant) -> Result<Grant, Bytes> {
        let mut queue = self.enqueue_replica(since);
        loop {
            match tokio::time::timeout(LOOK_EVERY, &mut queue.grant).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(DisconnectSignal::ShutDown.message()),
                Err(_) if self.has_waited_too_long(since) => {
                    let inner = self.lock();
                    let no_primary = inner.servers.no_primary.is_some();
                    return Err(waited_too_long(match inner.admin.state {
                        PoolState::Paused => "the database is paused",
                        _ if no_primary => "there was no primary",
                        _ => "no server connection was free",
                    }));
                }
                Err(_) => self.dispatch_replication(),
            }
        }
    }

    fn enqueue_replica(self: &Arc<Self>, since: Instant) -> InQueue<'_> {
        let mut inner = self.lock();
        let grant = inner.replication.enqueue(since);
        self.dispatch(&mut inner, clock::now());
        InQueue { pool: self, grant }
    }

    fn has_waited_too_long(&self, since: Instant) -> bool {
        let limit = self.settings().timeouts.query_wait_timeout;
        let suspended = || self.lock().admin.state == PoolState::Suspended;
        !limit.is_zero() && clock::elapsed(since) >= limit && !suspended()
    }

    /// Serves the replication clients that are next, and forgets those that have left.
    fn dispatch_replication(self: &Arc<Self>) {
        let mut inner = self.lock();
        self.dispatch(&mut inner, clock::now());
    }

    fn replication_client_left(self: &Arc<Self>) {
        let now = clock::now();
        let mut inner = self.lock();
        inner.replication.open -= 1;
        self.lost(&mut inner);
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
    }

    /// Grants connections to the replication clients that are next, as far as there are slots.
    pub(super) fn grant_replication(self: &Arc<Self>, inner: &mut Inner, now: Instant) {
        if !inner.replication.has_waiting() {
            return;
        }
        inner.replication.forget_left();
        if !inner.replication.has_waiting() && inner.line.is_empty() {
            inner.servers.starving = None;
        }
        if let Some(message) = inner.gave_up(now) {
            inner.replication.reject(&message);
        }
        let is_active = inner.admin.state == PoolState::Active;
        if !is_active || inner.is_excluded() || inner.servers.no_primary.is_some() {
            return;
        }
        while inner.replication_is_next()
            && let Some(slot) = self.slot_for_replication(inner, now)
            && let Some((since, is_there)) =
                inner.replication.grant(&inner.servers.generation, slot)
        {
            inner.servers.open += usize::from(is_there);
            let waited = now.saturating_duration_since(since);
            self.stats.assigned(std::iter::once(waited));
        }
    }

    /// A slot for a replication client's connection; closes an idle connection for it if necessary.
    fn slot_for_replication(
        self: &Arc<Self>,
        inner: &mut Inner,
        now: Instant,
    ) -> Option<ServerSlot> {
        let settings = self.settings();
        let first = inner.replication.first_since()?;
        let waited = now.saturating_duration_since(first);
        let reserve = match waited >= settings.pooling.reserve_pool_timeout {
            true => settings.reserve_size,
            false => 0,
        };
        while inner.servers.open >= settings.size + reserve {
            inner.evict_idle()?;
        }
        match self.server_slot(inner, &settings) {
            Some(slot) => Some(slot),
            // At the limit of the database or the user, the slot of an idle connection of this pool will do.
            None => {
                inner.evict_idle()?;
                self.server_slot(inner, &settings)
            }
        }
    }

    async fn open_for_replication(
        self: &Arc<Self>,
        grant: Grant,
        kind: Replication,
        parameters: &[(String, String)],
    ) -> Result<ReplicationServer, ServerError> {
        let Grant {
            generation,
            slot,
            replaced,
        } = grant;
        // Dropped after the slot, also if this fails.
        let counted = CountedConnection(Arc::clone(self));
        let slot = slot;
        let config = Arc::clone(&self.shared.config());
        let limit = config.paceline.timeouts.server_connect_timeout;
        let (none, address) = (self.shared.settings_interner.none(), &generation.address);
        let credentials = self.shared.credentials.of(address, &self.shown);
        let opening =
            ServerConn::open_for_replication(limit, address, &credentials, none, kind, parameters);
        let mut conn = generation.attempt(opening).await?;
        conn.slot = Some(slot);
        conn.log = Some(self.server_log(&conn, &generation));
        conn.generation = Some(GenerationGuard::new(&generation, &conn.stream));
        self.list(&conn);
        Ok(ReplicationServer {
            conn: Box::new(conn),
            replaced,
            _counted: counted,
        })
    }
}

impl Inner {
    /// Closes the connection that has been idle longest.
    fn evict_idle(&mut self) -> Option<()> {
        if self.servers.idle.is_empty() {
            return None;
        }
        let mut conn = self.servers.idle.remove(0);
        conn.slot = None;
        self.servers.open -= 1;
        conn.closes_because(close_reason::EVICTED);
        conn.terminate();
        Some(())
    }
}

fn fatal(error: &ServerError) -> Bytes {
    let mut out = BytesMut::new();
    error.write_fatal(&mut out);
    out.freeze()
}

fn waited_too_long(why: &str) -> Bytes {
    messages::query_wait_timeout(format!("For a replication connection: {why}."))
}
