//! The other end of a client's connection, as the system knows it.

use super::Socket;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The other end of a connection, in few bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this machine, over a Unix socket.
    Unix {
        /// Its process id; 0 if the system does not tell it.
        process: u32,
        /// The number of the system's user that it runs as.
        user: u32,
    },
    /// TCP over IPv4: the other end and this one.
    V4([SocketAddrV4; 2]),
    /// TCP over IPv6: the other end and this one.
    V6(Box<[SocketAddrV6; 2]>),
    /// It disconnected before its address could be asked for. It counts as remote, as any user, and matches no rule.
    Gone,
}

impl Peer {
    pub(super) fn of(socket: &Socket) -> Self {
        match socket {
            Socket::Tcp(stream) => match (stream.peer_addr(), stream.local_addr()) {
                (Ok(SocketAddr::V4(peer)), Ok(SocketAddr::V4(local))) => Self::V4([peer, local]),
                (Ok(SocketAddr::V6(peer)), Ok(SocketAddr::V6(local))) => {
                    Self::V6(Box::new([peer, local]))
                }
                _ => Self::Gone,
            },
            Socket::Unix(stream) => match stream.peer_cred() {
                Ok(peer) => Self::Unix {
                    process: peer.pid().map_or(0, i32::cast_unsigned),
                    user: peer.uid(),
                },
                Err(_) => Self::Gone,
            },
        }
    }

    /// Its address, if it uses TCP; an IPv4 address that is mapped into IPv6 is returned as IPv4.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::V4([peer, _]) => Some(IpAddr::V4(*peer.ip())),
            Self::V6(ends) => {
                let [peer, _] = &**ends;
                Some(peer.ip().to_canonical())
            }
            Self::Unix { .. } | Self::Gone => None,
        }
    }

    /// This end of the connection, if it uses TCP.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::V4([_, local]) => Some(SocketAddr::V4(*local)),
            Self::V6(ends) => {
                let [_, local] = **ends;
                Some(SocketAddr::V6(local))
            }
            Self::Unix { .. } | Self::Gone => None,
        }
    }

    /// The number of the system's user, if it uses a Unix socket.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Self::Unix { user, .. } => Some(*user),
            Self::V4(_) | Self::V6(_) | Self::Gone => None,
        }
    }

    /// Its process id; 0 if it is not known.
    pub(crate) fn process(&self) -> u32 {
        match self {
            Self::Unix { process, .. } => *process,
            Self::V4(_) | Self::V6(_) | Self::Gone => 0,
        }
    }

    /// It is known to run on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Unix { .. } => true,
            Self::V4(_) | Self::V6(_) => self.address().is_some_and(|ip| ip.is_loopback()),
            Self::Gone => false,
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
            Self::Gone => out.write_str("gone"),
        }
    }
}

#[cfg(test)]
impl Peer {
    /// Over TCP from this address.
    pub(crate) fn tcp(address: &str) -> Self {
        match address.parse().unwrap() {
            IpAddr::V4(ip) => Self::V4([SocketAddrV4::new(ip, 1); 2]),
            IpAddr::V6(ip) => Self::V6(Box::new([SocketAddrV6::new(ip, 1, 0, 0); 2])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    #[test]
    fn only_a_known_peer_is_local() {
        for local in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(Peer::tcp(local).is_local(), "{local}");
        }
        for remote in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(!Peer::tcp(remote).is_local(), "{remote}");
        }
        assert!(!Peer::Gone.is_local());
        assert_eq!(Peer::Gone.user(), None);
    }

    #[tokio::test]
    async fn a_client_that_has_reset_its_connection_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let socket = Socket::Tcp(accepted.unwrap().0);
        assert!(matches!(Peer::of(&socket), Peer::V4(_)));
        client.unwrap().set_zero_linger().unwrap();
        socket.ready(tokio::io::Interest::READABLE).await.unwrap();
        assert_eq!(Peer::of(&socket), Peer::Gone);
    }
}
