//! Where clients and monitoring connect.

use super::key::{Key, Kind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where clients and monitoring connect.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listening {
    /// TCP address for clients; beyond loopback only with a login that asks for proof. Port 0 lets the system choose.
    pub(crate) listen: SocketAddr,
    /// Folder for the Unix socket `.s.PGSQL.PORT`; `None` for no Unix socket.
    pub(crate) unix_socket_dir: Option<PathBuf>,
    /// TCP address for metrics and health, any address; `None` for none. Port 0 lets the system choose.
    pub(crate) metrics_listen: Option<SocketAddr>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 6432)),
            unix_socket_dir: None,
            metrics_listen: None,
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "listen",
        meaning: "Where clients connect; beyond loopback only if auth_type asks for proof; port 0 lets the system choose",
        kind: Kind::Listen(|settings| &mut settings.listening.listen),
    },
    Key {
        name: "unix_socket_dir",
        meaning: "Folder in which clients find the Unix socket .s.PGSQL.PORT; \"\" for no Unix socket",
        kind: Kind::Folder(|settings| &mut settings.listening.unix_socket_dir),
    },
    Key {
        name: "metrics_listen",
        meaning: "Where /metrics, /health and /ready are served, to anybody who can connect; \"\" for nowhere",
        kind: Kind::Address(|settings| &mut settings.listening.metrics_listen),
    },
];
