//! Where clients and monitoring connect.

use super::key::{Key, Kind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The largest `peer_id`, as in PgBouncer.
pub(in crate::config) const PEER_ID_MAX: usize = 16_383;

/// Where clients and monitoring connect.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listening {
    /// TCP address for clients; beyond loopback only with a login that asks for proof. Port 0 lets the system choose.
    pub(crate) listen: SocketAddr,
    /// Folder for the Unix socket `.s.PGSQL.PORT`; `None` for no Unix socket.
    pub(crate) unix_socket_dir: Option<PathBuf>,
    /// Permissions of the Unix socket.
    pub(crate) unix_socket_mode: u32,
    /// Connections that wait to be accepted, 1 to 65,535.
    pub(crate) listen_backlog: usize,
    /// Whether other processes may listen at the same address at the same time.
    pub(crate) so_reuseport: bool,
    /// What peers call this process, 1 to [`PEER_ID_MAX`]; 0: it has none.
    pub(crate) peer_id: usize,
    /// TCP address for metrics and health, any address; `None` for none. Port 0 lets the system choose.
    pub(crate) metrics_listen: Option<SocketAddr>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 6432)),
            unix_socket_dir: None,
            unix_socket_mode: 0o777,
            listen_backlog: 4_096,
            so_reuseport: false,
            peer_id: 0,
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
        name: "unix_socket_mode",
        meaning: "Permissions of the Unix socket: who may connect there",
        kind: Kind::Mode(|settings| &mut settings.listening.unix_socket_mode),
    },
    Key {
        name: "listen_backlog",
        meaning: "Connections that wait to be accepted; the system may allow fewer",
        kind: Kind::Count {
            unit: "connections",
            limits: 1..=65_535,
            field: |settings| &mut settings.listening.listen_backlog,
        },
    },
    Key {
        name: "so_reuseport",
        meaning: "Several processes may listen at the same address; the newest has the Unix socket and the pidfile",
        kind: Kind::Switch(|settings| &mut settings.listening.so_reuseport),
    },
    Key {
        name: "peer_id",
        meaning: "What the peers in [peers] call this process, so that cancel requests find it; 0 is none",
        kind: Kind::Count {
            unit: "number",
            limits: 0..=PEER_ID_MAX,
            field: |settings| &mut settings.listening.peer_id,
        },
    },
    Key {
        name: "metrics_listen",
        meaning: "Where /metrics, /health and /ready are served, to anybody who can connect; \"\" for nowhere",
        kind: Kind::Address(|settings| &mut settings.listening.metrics_listen),
    },
];
