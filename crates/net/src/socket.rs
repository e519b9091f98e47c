//! A connected socket, TCP or Unix. Reads and writes return at once.

#[cfg(feature = "memory")]
use crate::memory_pipe::MemorySocket;
use bytes::{Buf, BytesMut};
use rustix::net::RecvFlags;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
    /// In memory, for tests.
    #[cfg(feature = "memory")]
    Memory(MemorySocket),
}

impl Socket {
    /// Waits until the socket is ready for any of `interest`. If several tasks wait for the same direction, only the last one is
    /// woken: a socket belongs to one task, and a wait without a place in tokio's list of waiters is much cheaper.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        poll_fn(|context| {
            let mut ready = Ready::EMPTY;
            if interest.is_readable() && self.poll_readable(context)?.is_ready() {
                ready |= Ready::READABLE;
            }
            if interest.is_writable() && self.poll_writable(context)?.is_ready() {
                ready |= Ready::WRITABLE;
            }
            match ready.is_empty() {
                true => Poll::Pending,
                false => Poll::Ready(Ok(ready)),
            }
        })
        .await
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(context),
            Self::Unix(stream) => stream.poll_read_ready(context),
            #[cfg(feature = "memory")]
            Self::Memory(socket) => socket.poll_readable(context),
        }
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(context),
            Self::Unix(stream) => stream.poll_write_ready(context),
            #[cfg(feature = "memory")]
            Self::Memory(socket) => socket.poll_writable(context),
        }
    }

    /// Returns another descriptor of the same socket.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(stream) => stream.as_fd().try_clone_to_owned(),
            Self::Unix(stream) => stream.as_fd().try_clone_to_owned(),
            #[cfg(feature = "memory")]
            Self::Memory(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Reads the bytes that have arrived. A read that returns less than `buf` holds has emptied the socket, so tokio marks the socket
    /// as not readable and the next read waits for an event instead of a system call.
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let nothing = || io::Error::from(io::ErrorKind::WouldBlock);
        let mut got = None;
        let mut read = |socket: BorrowedFd<'_>| {
            let (len, _) = rustix::net::recv(socket, &mut *buf, RecvFlags::empty())?;
            got = Some(len);
            match (1..buf.len()).contains(&len) {
                true => Err(nothing()),
                false => Ok(()),
            }
        };
        let ready = match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || read(stream.as_fd())),
            Self::Unix(stream) => stream.try_io(Interest::READABLE, || read(stream.as_fd())),
            #[cfg(feature = "memory")]
            Self::Memory(socket) => return socket.try_read(buf),
        };
        match got {
            Some(len) => Ok(len),
            None => ready.and(Err(nothing())),
        }
    }

    /// Writes as many bytes as the socket accepts now.
    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(buf),
            Self::Unix(stream) => stream.try_write(buf),
            #[cfg(feature = "memory")]
            Self::Memory(socket) => socket.try_write(buf),
        }
    }

    /// Reads once through `scratch` and appends to `buf`; `Ok(false)` if nothing has arrived. The end of the stream is
    /// [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn read_now(&self, scratch: &mut [u8], buf: &mut BytesMut) -> io::Result<bool> {
        match self.try_read(scratch) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                buf.extend_from_slice(scratch.get(..len).unwrap_or_default());
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes from the front of `buf` as much as the socket accepts now.
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
}
