//! The server connections of a pool for `SHOW SERVERS`, wherever they are: at rest, with a client, or on a trip.

use super::{Bond, Era, Pool};
use crate::proxy::Proxy;
use crate::replication::Replication;
use crate::server::ServerConn;
use paceline_net::Cipher;
use paceline_net::{Peer, Stream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What clients call a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolName {
    /// The database that they asked for.
    pub(crate) database: String,
    /// What they called themselves.
    pub(crate) user: String,
}

/// What is known of a server connection while others have it.
#[derive(Debug)]
pub(crate) struct ServerCard {
    /// The server at its other end.
    pub(crate) peer: Peer,
    /// It is encrypted so.
    pub(crate) cipher: Option<Cipher>,
    /// The process of the server behind it.
    pub(crate) process: u32,
    /// It replicates.
    pub(crate) replication: Option<Replication>,
    /// When it was opened, by the proxy's clock.
    pub(crate) since: AtomicU32,
    /// When it began to serve last, by the proxy's clock.
    requested: AtomicU32,
    /// Statements that are prepared on it.
    prepared: AtomicU32,
}

/// A server connection at one moment.
#[derive(Debug)]
pub(crate) struct ServerSeen {
    /// Its number in this process.
    pub(crate) id: u32,
    /// What else is known.
    pub(crate) card: Arc<ServerCard>,
    /// Nobody uses it.
    pub(crate) idle: bool,
    /// It is replaced when it is free.
    pub(crate) close_needed: bool,
}

/// All connections that there are.
#[derive(Debug, Default)]
pub(crate) struct Roster(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    id: u32,
    card: Weak<ServerCard>,
    era: Weak<Era>,
}

impl ServerCard {
    /// Of a connection that is new.
    pub(crate) fn new(
        stream: &Stream,
        process: u32,
        replication: Option<Replication>,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer: stream.peer(),
            cipher: stream.cipher(),
            process,
            replication,
            since: AtomicU32::new(0),
            requested: AtomicU32::new(0),
            prepared: AtomicU32::new(0),
        })
    }

    /// It serves, from now on.
    pub(crate) fn begins(&self, now: u32) {
        self.requested.store(now, Ordering::Relaxed);
    }

    /// So many statements are prepared there now.
    pub(crate) fn has_prepared(&self, statements: usize) {
        let statements = u32::try_from(statements).unwrap_or(u32::MAX);
        self.prepared.store(statements, Ordering::Relaxed);
    }

    /// When it began to serve last.
    pub(crate) fn requested(&self) -> u32 {
        self.requested.load(Ordering::Relaxed)
    }

    /// Statements that are prepared on it.
    pub(crate) fn prepared(&self) -> u32 {
        self.prepared.load(Ordering::Relaxed)
    }
}

impl Roster {
    /// A connection has been opened.
    pub(super) fn enter(&self, proxy: &Proxy, conn: &ServerConn) {
        let card = &conn.card;
        let now = proxy.clock.seconds();
        card.since.store(now, Ordering::Relaxed);
        card.begins(now);
        let id = proxy.server_ids.fetch_add(1, Ordering::Relaxed) + 1;
        let mut cards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cards.retain(|entry| entry.card.strong_count() > 0);
        cards.push(Entry {
            id,
            card: Arc::downgrade(card),
            era: conn.bond.as_ref().map(Bond::era).unwrap_or_default(),
        });
    }
}

impl Pool {
    /// A client that named this database and user has been admitted: from now on the console shows the pool.
    pub(crate) fn is_called(&self, database: &str, user: &str) {
        self.name.get_or_init(|| PoolName {
            database: database.to_owned(),
            user: user.to_owned(),
        });
    }

    /// Its server connections.
    pub(crate) fn servers(&self) -> Vec<ServerSeen> {
        let inner = self.lock();
        let at_rest = inner.idle.iter().chain(&inner.parked);
        let at_rest: Vec<Arc<ServerCard>> = at_rest.map(|conn| Arc::clone(&conn.card)).collect();
        let era = Arc::downgrade(&inner.era);
        drop(inner);
        let cards = self.roster.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = cards.iter().filter_map(|entry| {
            let card = entry.card.upgrade()?;
            Some(ServerSeen {
                id: entry.id,
                idle: at_rest.iter().any(|other| Arc::ptr_eq(other, &card)),
                close_needed: !entry.era.ptr_eq(&era),
                card,
            })
        });
        seen.collect()
    }
}
