//! A byte stream to a client or server: TCP or Unix socket. Non-blocking; nothing is buffered here.

use bytes::{Buf, BytesMut};
use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// Bytes read from a socket at a time.
pub(crate) const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// Clients read through one buffer per thread: an idle connection owns none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Over TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

/// The two ends of a connection, in few bytes.
#[derive(Debug, Clone)]
pub(crate) enum Ends {
    /// A Unix socket, and the process at its other end; 0 if that is not known.
    Unix(u32),
    /// The other end and this one.
    V4([SocketAddrV4; 2]),
    /// The other end and this one.
    V6(Box<[SocketAddrV6; 2]>),
}

impl Stream {
    /// Its two ends. One that is gone already is taken for a Unix socket's.
    pub(crate) fn ends(&self) -> Ends {
        match self {
            Self::Tcp(stream) => match (stream.peer_addr(), stream.local_addr()) {
                (Ok(SocketAddr::V4(peer)), Ok(SocketAddr::V4(local))) => Ends::V4([peer, local]),
                (Ok(SocketAddr::V6(peer)), Ok(SocketAddr::V6(local))) => {
                    Ends::V6(Box::new([peer, local]))
                }
                _ => Ends::Unix(0),
            },
            Self::Unix(stream) => {
                let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
                Ends::Unix(pid.map_or(0, i32::cast_unsigned))
            }
        }
    }

    /// The user at the other end of a Unix socket.
    pub(crate) fn peer_uid(&self) -> Option<u32> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(stream) => stream.peer_cred().ok().map(|peer| peer.uid()),
        }
    }

    /// Takes a TCP socket.
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        Self::Tcp(stream)
    }

    /// Waits until the socket is ready for any of `interest`.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }

    /// Waits until there is something to read, or the peer has gone.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buf),
            Self::Unix(stream) => stream.try_read(buf),
        }
    }

    fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(buf),
            Self::Unix(stream) => stream.try_write(buf),
        }
    }

    /// Appends what has come; `Ok(false)`: nothing has. The end of the stream is [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn read_now(&self, buf: &mut BytesMut) -> io::Result<bool> {
        SCRATCH.with_borrow_mut(|scratch| match self.try_read(scratch) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                buf.extend_from_slice(scratch.get(..len).unwrap_or_default());
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// Writes from the front of `buf` what the socket takes now.
    pub(crate) fn write_now(&self, buf: &mut impl Buf) -> io::Result<()> {
        while buf.has_remaining() {
            match self.try_write(buf.chunk()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => buf.advance(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of `buf`.
    pub(crate) async fn write_all(&self, buf: &mut impl Buf) -> io::Result<()> {
        self.write_now(buf)?;
        while buf.has_remaining() {
            self.ready(Interest::WRITABLE).await?;
            self.write_now(buf)?;
        }
        Ok(())
    }

    /// Waits for bytes and appends them.
    pub(crate) async fn read_some(&self, buf: &mut BytesMut) -> io::Result<()> {
        while !self.read_now(buf)? {
            self.readable().await?;
        }
        Ok(())
    }
}
