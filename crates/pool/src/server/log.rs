//! Lines of the log about a server connection, in PgBouncer's words: `S`, the database, the user and the other end.

use crate::clock;
use crate::close_reason;
use crate::shared::Shared;
use paceline_net::Peer;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Logs that a connection to a server was opened, and when it is dropped, that and why it was closed.
pub(crate) struct ServerLog {
    shared: Arc<Shared>,
    /// The database and user of its pool.
    database: String,
    user: String,
    peer: Peer,
    opened: Instant,
    /// The reason why the connection is closed.
    why: Option<&'static str>,
    /// The reason why the connection is replaced, if an operator or a reload has ordered that.
    replaced: Replaced,
}

/// The reason why the connections of a generation are replaced or shut down, if they are. The last order counts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Replaced(Arc<Mutex<Option<&'static str>>>);

impl Replaced {
    /// Sets the reason.
    pub(crate) fn set(&self, why: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn get(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerLog {
    /// Logs that a connection was opened (`log_connections`).
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        (database, user): (&str, &str),
        peer: &Peer,
        replaced: &Replaced,
    ) -> Self {
        let log = Self {
            shared: Arc::clone(shared),
            database: database.to_owned(),
            user: user.to_owned(),
            peer: peer.clone(),
            opened: clock::now(),
            why: None,
            replaced: replaced.clone(),
        };
        if shared.config().paceline.logging.log_connections {
            match peer.local() {
                Some(local) => tracing::info!("{log} new connection to server (from {local})"),
                None => tracing::info!("{log} new connection to server"),
            }
        }
        log
    }

    /// Sets why the connection is closed, unless a reason was set before.
    pub(crate) fn closes_because(&mut self, why: &'static str) {
        self.why.get_or_insert(why);
    }

    /// The same, unless the connection is replaced: then that is the reason.
    pub(crate) fn closes_unless_replaced(&mut self, why: &'static str) {
        self.closes_because(self.replaced.get().unwrap_or(why));
    }
}

impl fmt::Debug for ServerLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for ServerLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "S: {}/{}@{}", self.database, self.user, self.peer)
    }
}

impl Drop for ServerLog {
    fn drop(&mut self) {
        if self.shared.config().paceline.logging.log_disconnections {
            let age = clock::elapsed(self.opened).as_secs();
            let why = self
                .why
                .or(self.replaced.get())
                .unwrap_or(close_reason::UNCLEAN);
            tracing::info!("{self} closing because: {why} (age={age}s)");
        }
    }
}
