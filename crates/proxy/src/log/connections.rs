//! Lines of the log about single connections, in PgBouncer's words: who logs in, which connections are opened and closed, and
//! what clients are told.
//!
//! Each line begins with `C` for a client or `S` for a server, the database, the user and the other end.

use crate::config::Logging;
use crate::proxy::Proxy;
use crate::server::Address;
use crate::stream::Peer;
use crate::tls::Cipher;
use std::fmt;
use std::sync::Arc;
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
    address: Arc<Address>,
    peer: Peer,
    opened: Instant,
    /// Why it is closed.
    pub(crate) why: Option<&'static str>,
}

impl ServerLog {
    /// A connection has been opened.
    pub(crate) fn begin(proxy: &Arc<Proxy>, address: &Arc<Address>, peer: &Peer) -> Self {
        let log = Self {
            proxy: Arc::clone(proxy),
            address: Arc::clone(address),
            peer: peer.clone(),
            opened: Instant::now(),
            why: None,
        };
        if proxy.config().paceline.logging.log_connections {
            match peer.local() {
                Some(local) => tracing::info!("{log} new connection to server (from {local})"),
                None => tracing::info!("{log} new connection to server"),
            }
        }
        log
    }
}

impl fmt::Debug for ServerLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for ServerLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { database, user, .. } = &*self.address;
        write!(out, "S: {database}/{user}@{}", self.peer)
    }
}

impl Drop for ServerLog {
    fn drop(&mut self) {
        if self.proxy.config().paceline.logging.log_disconnections {
            let age = self.opened.elapsed().as_secs();
            let why = self.why.unwrap_or("server connection lost or not clean");
            tracing::info!("{self} closing because: {why} (age={age}s)");
        }
    }
}
