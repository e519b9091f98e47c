//! The hosts of one database, and what a URL says about the choice among them.

use crate::words::words;
use std::fmt;
use std::path::PathBuf;

/// How to reach a server.
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
    /// Its zone; `None` if the URL names none.
    pub zone: Option<String>,
}

/// What a URL says beyond its first host. The default is that of a URL with one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostList {
    /// The zone of the first host.
    pub zone: Option<String>,
    /// The hosts behind the first one, in the order of the URL.
    pub others: Vec<ServerHost>,
    /// Which host clients get; `None` if the URL does not say.
    pub target_session_attrs: Option<TargetSessionAttrs>,
    /// How Paceline chooses between replicas; `None` if the URL does not say.
    pub load_balance_hosts: Option<LoadBalanceHosts>,
}

words! {
    /// Which hosts clients get (libpq's `target_session_attrs`).
    #[derive(Hash)]
    pub enum TargetSessionAttrs {
        /// The primary, and replicas for reads if `reads` allows that.
        Any = "any",
        /// The primary only.
        ReadWrite = "read-write",
        /// Hosts that are read only.
        ReadOnly = "read-only",
        /// The primary only.
        Primary = "primary",
        /// Replicas only.
        Standby = "standby",
        /// Replicas, or the primary if there is none.
        PreferStandby = "prefer-standby",
    }
}

words! {
    /// How Paceline chooses between replicas that are fresh enough (libpq's and PgBouncer's `load_balance_hosts`).
    #[derive(Hash)]
    pub enum LoadBalanceHosts {
        /// The first in the order of the URL.
        Disable = "disable",
        /// The one with the least outstanding work.
        Random = "random",
        /// As `Random`.
        RoundRobin = "round-robin",
    }
}

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
