//! The destination of server connections.

use crate::compression::ServerCompression;
use crate::keyring::Keyring;
use crate::location::Location;
use paceline_cluster::HostAddress;
use paceline_config::{Host, Tcp, Upstream};
use std::sync::Arc;

/// The destination of a pool's connections.
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
    /// Compression, if a Paceline answers there; `None` if it is not offered.
    pub compression: Option<ServerCompression>,
    /// The location of the server, found by the monitor; `None` if the name alone decides.
    pub location: Option<Arc<Location>>,
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
                compression,
                location,
            } = address.clone();
            let location = location.as_ref().map(Arc::as_ptr);
            (
                upstream,
                database,
                user,
                startup,
                connect_query,
                tcp,
                compression,
                location,
            )
        };
        parts(self) == parts(other)
    }

    /// An address for a monitor.
    pub(crate) fn of_monitor(
        upstream: Upstream,
        database: String,
        tcp: &Tcp,
        keyring: &Arc<Keyring>,
    ) -> Self {
        Self {
            user: upstream.user.clone().unwrap_or_default(),
            database,
            upstream,
            startup: vec![(
                "application_name".to_owned(),
                "paceline: monitor".to_owned(),
            )],
            connect_query: String::new(),
            tcp: tcp.clone(),
            keyring: Arc::clone(keyring),
            compression: None,
            location: None,
        }
    }

    /// A number that changes when the monitor finds that the name of the server leads elsewhere, and again when it finds the server there.
    pub(crate) fn moves(&self) -> u64 {
        let location = self.location.as_ref();
        location.map_or(0, |location| location.moves())
    }
}

/// A database on a server. Two names of one machine count as two servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatabaseAddress {
    host: Host,
    port: u16,
    /// [`Address::moves`]: after a change, the name leads to another server than before.
    moves: u64,
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
            moves: address.moves(),
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
            // Each entry of the configuration has moves of its own.
            moves: _,
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

/// Converts the address of a server to the cluster's type.
pub(crate) fn host_address(host: &Host, port: u16) -> HostAddress {
    HostAddress {
        host: match host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        },
        port,
    }
}
