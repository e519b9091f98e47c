//! Lines of the log about single connections, in PgBouncer's words: who logs in, which connections are opened and closed, and
//! what clients are told.
//!
//! Each line begins with `C` for a client or `S` for a server, the database, the user and the other end.

use super::reasons;
use crate::proxy::Proxy;
use paceline_config::Logging;
use paceline_net::Cipher;
use paceline_net::Peer;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What is known of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientNames<'a> {
    /// The database that it asks for; `None`: it has not said so.
    pub(crate) database: Option<&'a str>,
    /// What it calls itself.
    pub(crate) user: Option<&'a str>,
    /// The other end of its connection.
    pub(crate) peer: &'a Peer,
}

impl fmt::Display for ClientNames<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database.unwrap_or("(nodb)");
        let user = self.user.unwrap_or("(nouser)");
        write!(out, "C: {database}/{user}@{}", self.peer)
    }
}

/// A client has said who it is (`log_connections`).
pub(crate) fn login_attempt(
    logging: &Logging,
    client: ClientNames<'_>,
    cipher: Option<Cipher>,
    replication: bool,
) {
    if !logging.log_connections {
        return;
    }
    let tls = cipher.map_or("no", Cipher::name);
    let replication = if replication { "yes" } else { "no" };
    let database = client.database.unwrap_or_default();
    let user = client.user.unwrap_or_default();
    tracing::info!(
        "{client} login attempt: db={database} user={user} tls={tls} replication={replication}"
    );
}

/// A client's connection ends (`log_disconnections`) after `age` seconds.
pub(crate) fn client_closed(logging: &Logging, client: ClientNames<'_>, why: &str, age: u32) {
    if logging.log_disconnections {
        tracing::info!("{client} closing because: {why} (age={age}s)");
    }
}

/// A client gets an error of Paceline's own, which ends its connection (`log_pooler_errors`).
pub(crate) fn pooler_error(logging: &Logging, client: ClientNames<'_>, why: &str) {
    if logging.log_pooler_errors {
        tracing::warn!("{client} pooler error: {why}");
    }
}

/// Logs that a connection to a server was opened, and when it is dropped, that and why it was closed.
pub(crate) struct ServerLog {
    proxy: Arc<Proxy>,
    /// The database and user of its pool.
    database: String,
    user: String,
    peer: Peer,
    opened: Instant,
    /// Why it is closed.
    why: Option<&'static str>,
    /// Why it is replaced, if an operator or a reload has ordered that.
    replaced: Replaced,
}

/// Why the connections of a pool that were opened up to now are replaced or cut, if they are. The last order counts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Replaced(Arc<Mutex<Option<&'static str>>>);

impl Replaced {
    /// They are, for this reason.
    pub(crate) fn set(&self, why: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn get(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerLog {
    /// A connection has been opened.
    pub(crate) fn begin(
        proxy: &Arc<Proxy>,
        (database, user): (&str, &str),
        peer: &Peer,
        replaced: &Replaced,
    ) -> Self {
        let log = Self {
            proxy: Arc::clone(proxy),
            database: database.to_owned(),
            user: user.to_owned(),
            peer: peer.clone(),
            opened: Instant::now(),
            why: None,
            replaced: replaced.clone(),
        };
        if proxy.config().paceline.logging.log_connections {
            match peer.local() {
                Some(local) => tracing::info!("{log} new connection to server (from {local})"),
                None => tracing::info!("{log} new connection to server"),
            }
        }
        log
    }

    /// It is about to be closed for this reason, or for another one that was given before.
    pub(crate) fn closes_because(&mut self, why: &'static str) {
        self.why.get_or_insert(why);
    }

    /// The same, unless it was to be replaced or cut: then that is the reason.
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
        if self.proxy.config().paceline.logging.log_disconnections {
            let age = self.opened.elapsed().as_secs();
            let why = self.why.or(self.replaced.get()).unwrap_or(reasons::UNCLEAN);
            tracing::info!("{self} closing because: {why} (age={age}s)");
        }
    }
}
