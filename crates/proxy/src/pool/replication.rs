//! The server connections of replication clients. Each client has one of its own, which no other client ever uses; it counts
//! among the connections of the pool, its database and its user.
//!
//! A replication client that finds no room waits. It and the requests in the line have their turn in the order of their
//! arrival: when the client is next, a connection that is idle or comes back is closed to make room.

use super::failing::{FIRST_PAUSE, PAUSE_MIN};
use super::quota::ServerPlace;
use super::{Era, Hold, Inner, Pool};
use crate::log::reasons;
use crate::replication::Replication;
use crate::server::{ServerConn, ServerError};
use bytes::{Bytes, BytesMut};
use paceline_wire::ErrorResponse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// How often a client that waits looks for room in other pools, and at the time.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server connection and its place, for one replication client. Dropping it closes the connection.
pub(crate) struct ReplicationServer {
    /// The connection, logged in.
    pub(crate) conn: Box<ServerConn>,
    /// A message comes when the connection must be closed: RECONNECT, or the database has another address.
    pub(crate) replaced: watch::Receiver<()>,
    _place: PlaceTaken,
}

/// The replication clients of a pool.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    waiting: VecDeque<Waiting>,
    /// Connections that clients have, or that are being opened for them.
    pub(super) open: usize,
    replaced: watch::Sender<()>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    answer: oneshot::Sender<Result<PlaceTaken, Bytes>>,
}

/// One connection among those of the pool, given back when this is dropped.
struct PlaceTaken {
    /// `None`: nobody has received it, and it was given back already.
    pool: Option<Arc<Pool>>,
    era: Arc<Era>,
    /// The connection takes it.
    quota: Option<ServerPlace>,
    replaced: watch::Receiver<()>,
}

impl std::fmt::Debug for PlaceTaken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("PlaceTaken")
    }
}

impl Drop for PlaceTaken {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            // The connection may have failed before it took it.
            self.quota = None;
            pool.replica_has_left();
        }
    }
}

/// A client that waits, or has just ceased to.
struct InQueue<'a> {
    pool: &'a Arc<Pool>,
    place: oneshot::Receiver<Result<PlaceTaken, Bytes>>,
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.place.close();
        self.pool.look_for_replicas();
    }
}

impl Replicas {
    /// Whether a client waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Ends the connections that there are.
    pub(super) fn replace(&self) {
        self.replaced.send_replace(());
    }

    /// Ends the waits with these messages.
    pub(super) fn refuse(&mut self, told: &Bytes) {
        for waiting in self.waiting.drain(..) {
            // A client that has gone needs no answer.
            let _ = waiting.answer.send(Err(told.clone()));
        }
    }
}

impl Inner {
    /// Whether a replication client has waited for longer than every request that could leave.
    pub(super) fn replica_is_next(&self) -> bool {
        let Some(first) = self.replication.waiting.front() else {
            return false;
        };
        let ready = self.line.oldest_ready();
        ready.is_none_or(|ready| first.since <= ready)
    }
}

impl Pool {
    /// A server connection for a replication client, which waits for it as others do: until `query_wait_timeout` for room among
    /// the connections of the pool, and for a server that is away.
    ///
    /// # Errors
    /// The messages with which the client's connection ends.
    pub(crate) async fn replication_server(
        self: &Arc<Self>,
        kind: Replication,
        parameters: &[(String, String)],
    ) -> Result<ReplicationServer, Bytes> {
        let since = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let place = self.replication_place(since).await?;
            let error = match self.open_for_replication(place, kind, parameters).await {
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
                limit => limit.saturating_sub(since.elapsed()),
            };
            tokio::time::sleep(pause.min(left).max(PAUSE_MIN)).await;
            pause *= 2;
            if self.has_waited_too_long(since) {
                return Err(waited_too_long(&error.to_string()));
            }
        }
    }

    async fn replication_place(self: &Arc<Self>, since: Instant) -> Result<PlaceTaken, Bytes> {
        let mut queue = self.enqueue(since);
        loop {
            match tokio::time::timeout(LOOK_EVERY, &mut queue.place).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => return Err(super::Summons::ShutDown.farewell()),
                Err(_) if self.has_waited_too_long(since) => {
                    return Err(waited_too_long(match self.lock().hold {
                        Hold::Paused => "the database is paused",
                        _ => "no server connection was free",
                    }));
                }
                Err(_) => self.look_for_replicas(),
            }
        }
    }

    fn enqueue(self: &Arc<Self>, since: Instant) -> InQueue<'_> {
        let (answer, place) = oneshot::channel();
        let mut inner = self.lock();
        let waiting = Waiting { since, answer };
        // One that comes back after a failure has its old turn.
        let later = |other: &Waiting| other.since > since;
        let at = inner.replication.waiting.iter().position(later);
        let at = at.unwrap_or(inner.replication.waiting.len());
        inner.replication.waiting.insert(at, waiting);
        self.dispatch(&mut inner, Instant::now());
        InQueue { pool: self, place }
    }

    fn has_waited_too_long(&self, since: Instant) -> bool {
        let limit = self.settings().timeouts.query_wait_timeout;
        !limit.is_zero() && since.elapsed() >= limit && self.lock().hold != Hold::Suspended
    }

    /// Gives places to those that wait, and forgets those that have gone.
    fn look_for_replicas(self: &Arc<Self>) {
        let mut inner = self.lock();
        self.dispatch(&mut inner, Instant::now());
    }

    fn replica_has_left(self: &Arc<Self>) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.replication.open -= 1;
        self.lost(&mut inner);
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
    }

    /// Gives places to those replication clients that are next, as far as there is room.
    pub(super) fn place_replicas(self: &Arc<Self>, inner: &mut Inner, now: Instant) {
        if !inner.replication.has_waiting() {
            return;
        }
        let gone = |waiting: &Waiting| waiting.answer.is_closed();
        inner.replication.waiting.retain(|waiting| !gone(waiting));
        if !inner.replication.has_waiting() && inner.line.is_empty() {
            inner.hunger = None;
        }
        if inner.hold != Hold::Open || inner.is_excluded() {
            return;
        }
        while inner.replica_is_next()
            && let Some(quota) = self.room_for_replica(inner, now)
            && let Some(first) = inner.replication.waiting.pop_front()
        {
            inner.open += 1;
            inner.replication.open += 1;
            let place = PlaceTaken {
                pool: Some(Arc::clone(self)),
                era: Arc::clone(&inner.era),
                quota: Some(quota),
                replaced: inner.replication.replaced.subscribe(),
            };
            self.stats
                .departed(std::iter::once(now.saturating_duration_since(first.since)));
            if let Err(Ok(mut place)) = first.answer.send(Ok(place)) {
                // The client has gone in this moment. Dropped with its pool, it would ask for the lock.
                place.pool = None;
                inner.open -= 1;
                inner.replication.open -= 1;
            }
        }
    }

    /// A place for a replication client's connection; an idle connection is closed for it if need be.
    fn room_for_replica(self: &Arc<Self>, inner: &mut Inner, now: Instant) -> Option<ServerPlace> {
        let settings = self.settings();
        let first = inner.replication.waiting.front()?.since;
        let waited = now.saturating_duration_since(first);
        let reserve = match waited >= settings.pooling.reserve_pool_timeout {
            true => settings.reserve_size,
            false => 0,
        };
        while inner.open >= settings.size + reserve {
            self.evict(inner)?;
        }
        match self.server_place(inner, &settings) {
            Some(place) => Some(place),
            // The limit of the database or the user: what this pool does not need is a place, too.
            None => {
                self.evict(inner)?;
                self.server_place(inner, &settings)
            }
        }
    }

    /// Closes the connection that has been idle for longest.
    fn evict(&self, inner: &mut Inner) -> Option<()> {
        if inner.idle.is_empty() {
            return None;
        }
        let mut conn = inner.idle.remove(0);
        conn.place = None;
        inner.open -= 1;
        conn.closes_because(reasons::EVICTED);
        conn.say_goodbye();
        Some(())
    }

    async fn open_for_replication(
        &self,
        mut place: PlaceTaken,
        kind: Replication,
        parameters: &[(String, String)],
    ) -> Result<ReplicationServer, ServerError> {
        let config = Arc::clone(&self.proxy.config());
        let limit = config.paceline.timeouts.server_connect_timeout;
        let (none, address) = (self.proxy.book.none(), &place.era.address);
        let pass = self.proxy.gate.pass(address, &self.learned);
        let mut conn =
            ServerConn::open_for_replication(limit, address, &pass, none, kind, parameters).await?;
        conn.place = place.quota.take();
        conn.log = Some(self.server_log(&conn, &place.era));
        Arc::clone(&place.era).bind(&mut conn);
        self.roster.enter(&self.proxy, &conn);
        Ok(ReplicationServer {
            conn: Box::new(conn),
            replaced: place.replaced.clone(),
            _place: place,
        })
    }
}

fn fatal(error: &ServerError) -> Bytes {
    let mut out = BytesMut::new();
    error.to_fatal(&mut out);
    out.freeze()
}

fn waited_too_long(why: &str) -> Bytes {
    let mut out = BytesMut::new();
    ErrorResponse::fatal("08P01", "query_wait_timeout")
        .with_detail(format!("For a replication connection: {why}."))
        .write(&mut out);
    out.freeze()
}
