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
        /// Address for clients; beyond loopback only if auth_type requires a proof; port 0 lets the system choose
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 6432)), listen(), needs_restart();
        /// Folder of the Unix socket .s.PGSQL.PORT; "" for no Unix socket
        unix_socket_dir: Option<PathBuf> = None, folder(), needs_restart(), pgbouncer("/tmp");
        /// Permissions of the Unix socket, which decide which users of the machine may connect
        unix_socket_mode: u32 = 0o777, permissions(), needs_restart(), pgbouncer("0777");
        /// Maximum number of connections that wait to be accepted; the system may allow fewer
        listen_backlog: usize = 4_096, count("connections", 1..=65_535), needs_restart(), pgbouncer("128");
        /// Whether several processes may listen at the same address; the newest owns the Unix socket and the pidfile
        so_reuseport: bool = false, switch(), needs_restart(), pgbouncer("0");
        /// The id of this process in [peers], by which cancel requests reach it; 0 is none
        peer_id: usize = 0, count("number", 0..=PEER_ID_MAX), pgbouncer("0");
        /// Address of /metrics, /health and /ready, without a password; "" turns them off
        metrics_listen: Option<SocketAddr> = None, address(), needs_restart();
        /// Address of the web console, for users in admin_users and stats_users; "" turns it off
        web_console_listen: Option<SocketAddr> = None, address(), needs_restart();
    }
}
