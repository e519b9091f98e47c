//! The properties of a client for `SHOW CLIENTS` and `KILL_CLIENT`, besides its activity. They are part of the client's registration for
//! cancel requests.

use paceline_net::Cipher;
use paceline_net::Peer;
use paceline_pool::pool::Pool;
use paceline_pool::replication::Replication;
use paceline_relay::settings::SessionSettings;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::task::AbortHandle;

/// A client that has logged in, or is waiting to.
pub struct ClientInfo {
    /// The client's pool.
    pub pool: Arc<Pool>,
    /// The client's address.
    pub peer: Peer,
    /// The TLS cipher; `None` without TLS.
    pub cipher: Option<Cipher>,
    /// Whether the connection is compressed from the login on.
    pub compressed: bool,
    /// The kind of a replication client.
    pub replication: Option<Replication>,
    /// Time of the login, by the clock.
    pub since: u32,
    /// Start of the last request, by the clock.
    requested: AtomicU32,
    /// Number of named statements that the client has prepared.
    prepared: AtomicU32,
    /// The client's task.
    task: OnceLock<AbortHandle>,
    /// Whether an operator has ended the client.
    killed: AtomicBool,
}

impl ClientInfo {
    /// A client that has just connected.
    pub fn new(pool: &Arc<Pool>, peer: Peer, cipher: Option<Cipher>) -> Self {
        let now = pool.shared.clock.seconds();
        Self {
            pool: Arc::clone(pool),
            peer,
            cipher,
            compressed: false,
            replication: None,
            since: now,
            requested: AtomicU32::new(now),
            prepared: AtomicU32::new(0),
            task: OnceLock::new(),
            killed: AtomicBool::new(false),
        }
    }

    /// Notes whether the connection is compressed from the login on.
    pub(crate) fn compressed(mut self, compressed: bool) -> Self {
        self.compressed = compressed;
        self
    }

    /// Marks the client as a replication client.
    pub(crate) fn replicating(mut self, kind: Replication) -> Self {
        self.replication = Some(kind);
        self
    }

    /// Notes that a request begins.
    pub fn request_begins(&self) {
        let now = self.pool.shared.clock.seconds();
        self.requested.store(now, Ordering::Relaxed);
    }

    /// Notes the number of named statements.
    pub fn set_prepared(&self, statements: usize) {
        let statements = u32::try_from(statements).unwrap_or(u32::MAX);
        self.prepared.store(statements, Ordering::Relaxed);
    }

    /// Start of the last request.
    pub fn requested(&self) -> u32 {
        self.requested.load(Ordering::Relaxed)
    }

    /// Number of named statements that the client has prepared.
    pub fn prepared(&self) -> u32 {
        self.prepared.load(Ordering::Relaxed)
    }

    /// Sets the client's task.
    pub(crate) fn set_task(&self, task: AbortHandle) {
        if let Err(task) = self.task.set(task) {
            tracing::debug!(id = ?task.id(), "a client has two tasks");
        }
    }

    /// Whether the client has a task of its own, which is the case after its login.
    pub(crate) fn has_task(&self) -> bool {
        self.task.get().is_some()
    }

    /// Aborts the client's task. Returns false if the client has none, or it has ended.
    pub fn kill(&self) -> bool {
        let Some(task) = self.task.get().filter(|task| !task.is_finished()) else {
            return false;
        };
        self.killed.store(true, Ordering::Release);
        task.abort();
        true
    }

    /// Whether an operator has ended the client.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }
}

/// The value of `application_name` in the SQL of these settings, as far as it can be read from there.
pub fn application_name(settings: &SessionSettings) -> String {
    let sql = settings.sql_of("application_name").unwrap_or_default();
    // The SQL is the client's own, or was made from a value that the server reported.
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
