//! Log lines about client connections, in PgBouncer's words: logins, closed connections, and errors that clients get.
//!
//! Each line begins with `C`, the database, the user and the client's address.

use paceline_config::Logging;
use paceline_net::Cipher;
use paceline_net::Peer;
use std::fmt;

/// The properties of a client in the log.
#[derive(Debug, Clone, Copy)]
pub struct ClientNames<'a> {
    /// The database that the client names; `None` before its startup packet.
    pub database: Option<&'a str>,
    /// The user that the client names.
    pub user: Option<&'a str>,
    /// The client's address.
    pub peer: &'a Peer,
}

impl fmt::Display for ClientNames<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database.unwrap_or("(nodb)");
        let user = self.user.unwrap_or("(nouser)");
        write!(out, "C: {database}/{user}@{}", self.peer)
    }
}

/// Logs a startup packet (`log_connections`).
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

/// Logs the end of a client connection (`log_disconnections`) after `age` seconds.
pub fn client_closed(logging: &Logging, client: ClientNames<'_>, why: &str, age: u32) {
    if logging.log_disconnections {
        tracing::info!("{client} closing because: {why} (age={age}s)");
    }
}

/// Logs an error of Paceline's own that ends the client's connection (`log_pooler_errors`).
pub(crate) fn pooler_error(logging: &Logging, client: ClientNames<'_>, why: &str) {
    if logging.log_pooler_errors {
        tracing::warn!("{client} pooler error: {why}");
    }
}
