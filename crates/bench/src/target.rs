//! A target: the address of a server, and the name under which tables and charts show it.

use std::fmt;
use std::path::PathBuf;

/// A server, a pooler or Paceline.
#[derive(Clone)]
pub struct Target {
    /// Name in all results, such as `direct`.
    pub name: String,
    /// The host.
    pub host: Host,
    /// The TCP port; for a Unix socket the number at the end of its name.
    pub port: u16,
    /// Further servers on the same host, which replicate each other. If there are any, each client tries them in order until it
    /// finds the one that accepts writes, as libpq does with `target_session_attrs=read-write`.
    pub other_ports: Vec<u16>,
    /// The user.
    pub user: String,
    /// The password, for servers that require one.
    pub password: Option<String>,
    /// The database in which the lab creates its schema.
    pub database: String,
}

/// The host of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A host name or IP address (IPv6 without brackets).
    Tcp(String),
    /// The folder that contains `.s.PGSQL.PORT`.
    Unix(PathBuf),
}

impl Target {
    /// A server on loopback that requires no password.
    pub(crate) fn on_loopback(name: &str, port: u16, user: &str, database: &str) -> Self {
        Self {
            name: name.to_owned(),
            host: Host::Tcp("127.0.0.1".to_owned()),
            port,
            other_ports: Vec::new(),
            user: user.to_owned(),
            password: None,
            database: database.to_owned(),
        }
    }

    /// Whether the target runs on this machine, so that its processor time can be read.
    pub(crate) fn is_local(&self) -> bool {
        match &self.host {
            Host::Unix(_) => true,
            Host::Tcp(host) if host == "localhost" => true,
            Host::Tcp(host) => {
                let address = host.parse::<std::net::IpAddr>();
                address.is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

/// Formats the address without the password: `127.0.0.1:5432/app as alice`.
impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => write!(out, "[{host}]")?,
            Host::Tcp(host) => out.write_str(host)?,
            Host::Unix(folder) => write!(out, "{}", folder.display())?,
        }
        write!(out, ":{}", self.port)?;
        for port in &self.other_ports {
            write!(out, ",{port}")?;
        }
        write!(out, "/{} as {}", self.database, self.user)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={self}", self.name)
    }
}
