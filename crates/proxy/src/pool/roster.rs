//! The server connections of a pool for `SHOW SERVERS`, wherever they are: at rest, with a client, or on a trip.

use super::Pool;
use crate::proxy::Proxy;
use crate::stream::Ends;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is known of a server connection while others have it.
#[derive(Debug)]
pub(crate) struct ServerCard {
    /// Its two ends.
    pub(crate) ends: Ends,
    /// The process of the server behind it.
    pub(crate) process: u32,
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
}

/// The cards of all connections that there are, and their numbers.
#[derive(Debug, Default)]
pub(crate) struct Roster(Mutex<Vec<(u32, Weak<ServerCard>)>>);

impl ServerCard {
    /// Of a connection that is new.
    pub(crate) fn new(ends: Ends, process: u32) -> Arc<Self> {
        Arc::new(Self {
            ends,
            process,
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
    pub(super) fn enter(&self, proxy: &Proxy, card: &Arc<ServerCard>) {
        let now = proxy.clock.seconds();
        card.since.store(now, Ordering::Relaxed);
        card.begins(now);
        let id = proxy.server_ids.fetch_add(1, Ordering::Relaxed) + 1;
        let mut cards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cards.retain(|(_, card)| card.strong_count() > 0);
        cards.push((id, Arc::downgrade(card)));
    }
}

impl Pool {
    /// Its server connections.
    pub(crate) fn servers(&self) -> Vec<ServerSeen> {
        let inner = self.lock();
        let at_rest = inner.idle.iter().chain(&inner.parked);
        let idle: Vec<Arc<ServerCard>> = at_rest.map(|conn| Arc::clone(&conn.card)).collect();
        drop(inner);
        let cards = self.roster.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = cards.iter().filter_map(|(id, card)| {
            let card = card.upgrade()?;
            Some(ServerSeen {
                id: *id,
                idle: idle.iter().any(|at_rest| Arc::ptr_eq(at_rest, &card)),
                card,
            })
        });
        seen.collect()
    }
}
