//! Helpers for the tests of this crate.

use paceline_net::Peer;
use std::net::SocketAddr;

/// A TCP peer with this IP address.
pub(crate) fn tcp_peer(ip: &str) -> Peer {
    let address = SocketAddr::new(ip.parse().unwrap(), 1);
    Peer::tcp(address, address).unwrap()
}
