//! Who a client is and since when, for `SHOW CLIENTS` and `KILL_CLIENT`: a few words per client, kept in its registration for
//! cancel requests. What it is doing is known there.

use paceline_net::Cipher;
use paceline_net::Peer;
use paceline_pool::pool::Pool;
use paceline_pool::replication::Replication;
use paceline_relay::settings::SessionSettings;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::task::AbortHandle;

/// A client that is logged in, or waits for its login.
pub struct ClientInfo {
    /// Its pool.
    pub pool: Arc<Pool>,
    /// Its connection.
    pub peer: Peer,
    /// It is encrypted so.
    pub cipher: Option<Cipher>,
    /// It replicates.
    pub replication: Option<Replication>,
    /// When it came, by the clock.
    pub since: u32,
    /// When its last unit began, by the clock.
    requested: AtomicU32,
    /// Named statements that it has prepared.
    prepared: AtomicU32,
    /// Its task.
    task: OnceLock<AbortHandle>,
    /// An operator has ended it.
    killed: AtomicBool,
}

impl ClientInfo {
    /// A client that has come just now.
    pub fn new(pool: &Arc<Pool>, peer: Peer, cipher: Option<Cipher>) -> Self {
        let now = pool.shared.clock.seconds();
        Self {
            pool: Arc::clone(pool),
            peer,
            cipher,
            replication: None,
            since: now,
            requested: AtomicU32::new(now),
            prepared: AtomicU32::new(0),
            task: OnceLock::new(),
            killed: AtomicBool::new(false),
        }
    }

    /// The same for a replication client.
    pub fn replicating(mut self, kind: Replication) -> Self {
        self.replication = Some(kind);
        self
    }

    /// A unit begins.
    pub fn request_begins(&self) {
        let now = self.pool.shared.clock.seconds();
        self.requested.store(now, Ordering::Relaxed);
    }

    /// It has so many named statements now.
    pub fn set_prepared(&self, statements: usize) {
        let statements = u32::try_from(statements).unwrap_or(u32::MAX);
        self.prepared.store(statements, Ordering::Relaxed);
    }

    /// When its last unit began.
    pub fn requested(&self) -> u32 {
        self.requested.load(Ordering::Relaxed)
    }

    /// Named statements that it has prepared.
    pub fn prepared(&self) -> u32 {
        self.prepared.load(Ordering::Relaxed)
    }

    /// Its task has begun.
    pub fn set_task(&self, task: AbortHandle) {
        if let Err(task) = self.task.set(task) {
            tracing::debug!(id = ?task.id(), "a client has two tasks");
        }
    }

    /// It has a task of its own: it is logged in.
    pub fn has_task(&self) -> bool {
        self.task.get().is_some()
    }

    /// Ends its task wherever it is. False: it has none yet, or none any more.
    pub fn kill(&self) -> bool {
        let Some(task) = self.task.get().filter(|task| !task.is_finished()) else {
            return false;
        };
        self.killed.store(true, Ordering::Release);
        task.abort();
        true
    }

    /// An operator has ended it.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }
}

/// The value of `application_name` in settings, as far as their SQL tells it.
pub fn application_name(settings: &SessionSettings) -> String {
    let sql = settings.sql_of("application_name").unwrap_or_default();
    // As the client has said it, or as the server has reported it.
    let called = sql
        .split_once("set_config('application_name', ")
        .and_then(|(_, value)| value.rsplit_once(", false)"));
    let value = match called {
        Some((value, _)) => value,
        None => {
            let value = sql.split_once(" TO ").or_else(|| sql.split_once('='));
            value.map_or("", |(_, value)| value.trim().trim_end_matches(';'))
        }
    };
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    match (inside('\''), inside('"')) {
        (Some(text), _) => text.replace("''", "'"),
        (None, Some(name)) => name.replace("\"\"", "\""),
        (None, None) => value.to_owned(),
    }
}
