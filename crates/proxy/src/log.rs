//! Lines of the log about single connections, in PgBouncer's words: who logs in, which connections are opened and closed, and
//! what clients are told.
//!
//! Each line begins with `C` for a client or `S` for a server, the database, the user and the other end.

use paceline_config::Logging;
use paceline_net::Cipher;
use paceline_net::Peer;
use std::fmt;

/// What is known of a client.
#[derive(Debug, Clone, Copy)]
pub struct ClientNames<'a> {
    /// The database that it asks for; `None`: it has not said so.
    pub database: Option<&'a str>,
    /// What it calls itself.
    pub user: Option<&'a str>,
    /// The other end of its connection.
    pub peer: &'a Peer,
}

impl fmt::Display for ClientNames<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database.unwrap_or("(nodb)");
        let user = self.user.unwrap_or("(nouser)");
        write!(out, "C: {database}/{user}@{}", self.peer)
    }
}

/// A client has said who it is (`log_connections`).
pub fn login_attempt(
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
pub fn client_closed(logging: &Logging, client: ClientNames<'_>, why: &str, age: u32) {
    if logging.log_disconnections {
        tracing::info!("{client} closing because: {why} (age={age}s)");
    }
}

/// A client gets an error of Paceline's own, which ends its connection (`log_pooler_errors`).
pub fn pooler_error(logging: &Logging, client: ClientNames<'_>, why: &str) {
    if logging.log_pooler_errors {
        tracing::warn!("{client} pooler error: {why}");
    }
}
