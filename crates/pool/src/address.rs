//! Where server connections lead.

use crate::keyring::Keyring;
use paceline_config::{Host, Tcp, Upstream};
use std::sync::Arc;

/// Where a pool's connections lead.
#[derive(Debug, Clone)]
pub struct Address {
    /// The server.
    pub upstream: Upstream,
    /// The database there.
    pub database: String,
    /// The user there.
    pub user: String,
    /// Settings of the startup packet.
    pub startup: Vec<(String, String)>,
    /// The query that a new connection runs first (`connect_query`); empty for none.
    pub connect_query: String,
    /// Options of TCP sockets.
    pub tcp: Tcp,
    /// Keys and certificates.
    pub keyring: Arc<Keyring>,
}

impl Address {
    /// Whether both addresses lead to the same server and database, as the same user, with the same options. Keys are not
    /// compared: a process has one keyring.
    pub(crate) fn leads_to(&self, other: &Self) -> bool {
        let parts = |address: &Self| {
            let Self {
                upstream,
                database,
                user,
                startup,
                connect_query,
                tcp,
                keyring: _,
            } = address.clone();
            (upstream, database, user, startup, connect_query, tcp)
        };
        parts(self) == parts(other)
    }
}

/// A database on a server. Two names of one machine count as two servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatabaseAddress {
    host: Host,
    port: u16,
    database: String,
}

impl DatabaseAddress {
    /// The database that this address leads to.
    pub fn of(address: &Address) -> Self {
        Self::beside(address, address.database.clone())
    }

    /// Another database on the server of this address.
    pub fn beside(address: &Address, database: String) -> Self {
        Self {
            host: address.upstream.host.clone(),
            port: address.upstream.port,
            database,
        }
    }

    /// The name of the database on its server.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Whether this address leads to this database.
    pub(crate) fn is_at(&self, address: &Address) -> bool {
        let Self {
            host,
            port,
            database,
        } = self;
        (host, *port, database)
            == (
                &address.upstream.host,
                address.upstream.port,
                &address.database,
            )
    }
}
