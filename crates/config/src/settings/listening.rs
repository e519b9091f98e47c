//! Where clients and monitoring connect.

use super::form::{address, count, folder, listen, permissions, switch};
use super::key::section;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The largest `peer_id`, as in PgBouncer.
pub(crate) const PEER_ID_MAX: usize = 16_383;

section! {
    /// Where clients and monitoring connect.
    pub struct Listening {
        /// Where clients connect; beyond loopback only if auth_type asks for proof; port 0 lets the system choose
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 6432)), listen(), needs_restart();
        /// Folder in which clients find the Unix socket .s.PGSQL.PORT; "" for no Unix socket
        unix_socket_dir: Option<PathBuf> = None, folder(), needs_restart(), pgbouncer("/tmp");
        /// Permissions of the Unix socket: who may connect there
        unix_socket_mode: u32 = 0o777, permissions(), needs_restart(), pgbouncer("0777");
        /// Connections that wait to be accepted; the system may allow fewer
        listen_backlog: usize = 4_096, count("connections", 1..=65_535), needs_restart(), pgbouncer("128");
        /// Several processes may listen at the same address; the newest has the Unix socket and the pidfile
        so_reuseport: bool = false, switch(), needs_restart(), pgbouncer("0");
        /// What the peers in [peers] call this process, so that cancel requests find it; 0 is none
        peer_id: usize = 0, count("number", 0..=PEER_ID_MAX), pgbouncer("0");
        /// Where /metrics, /health and /ready are served, to anybody who can connect; "" for nowhere
        metrics_listen: Option<SocketAddr> = None, address(), needs_restart();
    }
}
