//! The peer of a connection, as the operating system reports it.

use crate::socket::Socket;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The peer of a connection, in few bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, connected through a Unix socket.
    Unix {
        /// Process id; 0 if the system does not report it.
        process: u32,
        /// User id of the process.
        user: u32,
    },
    /// TCP over IPv4: the peer's address and the local one.
    V4([SocketAddrV4; 2]),
    /// TCP over IPv6: the peer's address and the local one.
    V6(Box<[SocketAddrV6; 2]>),
    /// The peer disconnected before its address was read. It counts as remote and has no user.
    Disconnected,
}

impl Peer {
    /// A TCP connection between these addresses; `None` if one is IPv4 and the other IPv6.
    pub fn tcp(peer: SocketAddr, local: SocketAddr) -> Option<Self> {
        match (peer, local) {
            (SocketAddr::V4(peer), SocketAddr::V4(local)) => Some(Self::V4([peer, local])),
            (SocketAddr::V6(peer), SocketAddr::V6(local)) => {
                Some(Self::V6(Box::new([peer, local])))
            }
            _ => None,
        }
    }

    pub(crate) fn of(socket: &Socket) -> Self {
        match socket {
            Socket::Tcp(stream) => match (stream.peer_addr(), stream.local_addr()) {
                (Ok(peer), Ok(local)) => Self::tcp(peer, local).unwrap_or(Self::Disconnected),
                _ => Self::Disconnected,
            },
            Socket::Unix(stream) => match stream.peer_cred() {
                Ok(peer) => Self::Unix {
                    process: peer.pid().map_or(0, i32::cast_unsigned),
                    user: peer.uid(),
                },
                Err(_) => Self::Disconnected,
            },
            #[cfg(feature = "memory")]
            Socket::Memory(_) => Self::Unix {
                process: 0,
                user: 0,
            },
        }
    }

    /// Returns the address of a TCP peer. An IPv4 address mapped into IPv6 is returned as IPv4.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::V4([peer, _]) => Some(IpAddr::V4(*peer.ip())),
            Self::V6(ends) => {
                let [peer, _] = &**ends;
                Some(peer.ip().to_canonical())
            }
            Self::Unix { .. } | Self::Disconnected => None,
        }
    }

    /// Returns the address and port of a TCP peer.
    pub fn remote(&self) -> Option<SocketAddr> {
        match self {
            Self::V4([peer, _]) => Some(SocketAddr::V4(*peer)),
            Self::V6(ends) => {
                let [peer, _] = **ends;
                Some(SocketAddr::V6(peer))
            }
            Self::Unix { .. } | Self::Disconnected => None,
        }
    }

    /// Returns the local address of a TCP connection.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::V4([_, local]) => Some(SocketAddr::V4(*local)),
            Self::V6(ends) => {
                let [_, local] = **ends;
                Some(SocketAddr::V6(local))
            }
            Self::Unix { .. } | Self::Disconnected => None,
        }
    }

    /// Returns the user id of a peer on a Unix socket.
    pub fn user(&self) -> Option<u32> {
        match self {
            Self::Unix { user, .. } => Some(*user),
            Self::V4(_) | Self::V6(_) | Self::Disconnected => None,
        }
    }

    /// Returns the process id of the peer; 0 if it is not known.
    pub fn process(&self) -> u32 {
        match self {
            Self::Unix { process, .. } => *process,
            Self::V4(_) | Self::V6(_) | Self::Disconnected => 0,
        }
    }

    /// Whether the peer certainly runs on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix { .. } => true,
            Self::V4(_) | Self::V6(_) => self.address().is_some_and(|ip| ip.is_loopback()),
            Self::Disconnected => false,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { process, .. } => write!(out, "unix:{process}"),
            Self::V4([peer, _]) => peer.fmt(out),
            Self::V6(ends) => {
                let [peer, _] = &**ends;
                peer.fmt(out)
            }
            Self::Disconnected => out.write_str("gone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    fn from(ip: &str) -> Peer {
        let address = SocketAddr::new(ip.parse().unwrap(), 1);
        Peer::tcp(address, address).unwrap()
    }

    #[test]
    fn only_a_known_peer_is_local() {
        for local in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(from(local).is_local(), "{local}");
        }
        for remote in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(!from(remote).is_local(), "{remote}");
        }
        assert!(!Peer::Disconnected.is_local());
        assert_eq!(Peer::Disconnected.user(), None);
    }

    #[tokio::test]
    async fn a_peer_that_has_reset_its_connection_is_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let socket = Socket::Tcp(accepted.unwrap().0);
        assert!(matches!(Peer::of(&socket), Peer::V4(_)));
        client.unwrap().set_zero_linger().unwrap();
        socket.ready(tokio::io::Interest::READABLE).await.unwrap();
        assert_eq!(Peer::of(&socket), Peer::Disconnected);
    }
}
