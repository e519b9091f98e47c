//! The hosts of one database.

use std::fmt;
use std::path::PathBuf;

/// The address of a server, without its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A host name or IP address (IPv6 without brackets).
    Tcp(String),
    /// The absolute folder that holds `.s.PGSQL.PORT`.
    Unix(PathBuf),
}

/// One host of a database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerHost {
    /// The machine, or the folder of its Unix socket.
    pub host: Host,
    /// The TCP port; for a Unix socket the number at the end of its name.
    pub port: u16,
}

/// The part of a URL behind its first host. The default is that of a URL with one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostList {
    /// The hosts behind the first one, in the order of the URL.
    pub others: Vec<ServerHost>,
}

/// The words of `target_session_attrs` with which clients get the primary, as they do from Paceline.
pub(crate) const FOR_THE_PRIMARY: [&str; 3] = ["any", "read-write", "primary"];
/// The words of `target_session_attrs` that need replicas.
pub(crate) const FOR_REPLICAS: [&str; 3] = ["read-only", "standby", "prefer-standby"];

/// The address as URLs have it: `host:5432`, `[::1]:5432`, `/run/postgresql:5432`.
pub(crate) fn write_address(out: &mut fmt::Formatter<'_>, host: &Host, port: u16) -> fmt::Result {
    match host {
        Host::Tcp(host) if host.contains(':') => write!(out, "[{host}]")?,
        Host::Tcp(host) => out.write_str(host)?,
        Host::Unix(folder) => write!(out, "{}", folder.display())?,
    }
    write!(out, ":{port}")
}

impl fmt::Display for ServerHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_address(out, &self.host, self.port)
    }
}
