//! The two ends of a connection in memory.

use bytes::{Buf, BytesMut};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The state of a connection at one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Closed,
    Reset,
}

/// Both directions of a connection.
#[derive(Debug)]
struct Pipe {
    to_socket: BytesMut,
    to_peer: BytesMut,
    /// Maximum bytes of `to_peer`; a write accepts no more.
    to_peer_max: usize,
    by_peer: End,
    by_socket: End,
    reader: Option<Waker>,
    writer: Option<Waker>,
    peer: Option<Waker>,
}

#[derive(Debug, Clone)]
struct SharedPipe(Arc<Mutex<Pipe>>);

impl SharedPipe {
    fn lock(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// The end of a connection in memory that Paceline uses as a socket.
#[derive(Debug)]
pub(crate) struct MemorySocket(SharedPipe);

/// The other end, which belongs to the test. Dropping it closes the connection.
#[derive(Debug)]
pub struct MemoryPeer(SharedPipe);

/// Makes a connection. A write accepts bytes until `write_max` of them have not been received.
pub(crate) fn pipe(write_max: usize) -> (MemorySocket, MemoryPeer) {
    let pipe = SharedPipe(Arc::new(Mutex::new(Pipe {
        to_socket: BytesMut::new(),
        to_peer: BytesMut::new(),
        to_peer_max: write_max,
        by_peer: End::Open,
        by_socket: End::Open,
        reader: None,
        writer: None,
        peer: None,
    })));
    (MemorySocket(pipe.clone()), MemoryPeer(pipe))
}

impl MemorySocket {
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.0.lock();
        if !pipe.to_socket.is_empty() || pipe.by_peer != End::Open {
            return Poll::Ready(Ok(()));
        }
        pipe.reader = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.0.lock();
        if pipe.to_peer.len() < pipe.to_peer_max || pipe.by_peer != End::Open {
            return Poll::Ready(Ok(()));
        }
        pipe.writer = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.0.lock();
        let len = pipe.to_socket.len().min(buf.len());
        match (len, pipe.by_peer) {
            (0, End::Open) => Err(io::ErrorKind::WouldBlock.into()),
            (0, End::Closed) => Ok(0),
            (0, End::Reset) => Err(io::ErrorKind::ConnectionReset.into()),
            _ => {
                pipe.to_socket
                    .copy_to_slice(buf.get_mut(..len).unwrap_or_default());
                Ok(len)
            }
        }
    }

    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        let mut pipe = self.0.lock();
        if pipe.by_peer != End::Open {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = pipe
            .to_peer_max
            .saturating_sub(pipe.to_peer.len())
            .min(buf.len());
        if len == 0 && !buf.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        pipe.to_peer
            .extend_from_slice(buf.get(..len).unwrap_or_default());
        wake(&mut pipe.peer);
        Ok(len)
    }
}

impl Drop for MemorySocket {
    fn drop(&mut self) {
        let mut pipe = self.0.lock();
        pipe.by_socket = End::Closed;
        wake(&mut pipe.peer);
    }
}

impl MemoryPeer {
    /// Sends bytes, which arrive at once. They are lost if Paceline has closed the connection.
    pub fn send(&self, bytes: &[u8]) {
        let mut pipe = self.0.lock();
        if pipe.by_socket == End::Open {
            pipe.to_socket.extend_from_slice(bytes);
            wake(&mut pipe.reader);
        }
    }

    /// Waits for bytes and appends them; `false` if Paceline has closed the connection and all has been received.
    pub async fn receive(&self, buf: &mut BytesMut) -> bool {
        poll_fn(|context| {
            let mut pipe = self.0.lock();
            if !pipe.to_peer.is_empty() {
                buf.extend_from_slice(&pipe.to_peer);
                pipe.to_peer.clear();
                wake(&mut pipe.writer);
                return Poll::Ready(true);
            }
            if pipe.by_socket != End::Open {
                return Poll::Ready(false);
            }
            pipe.peer = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Loses the connection: bytes that Paceline has not read are lost, too.
    pub fn reset(self) {
        let mut pipe = self.0.lock();
        pipe.to_socket.clear();
        pipe.by_peer = End::Reset;
    }
}

impl Drop for MemoryPeer {
    fn drop(&mut self) {
        let mut pipe = self.0.lock();
        if pipe.by_peer == End::Open {
            pipe.by_peer = End::Closed;
        }
        wake(&mut pipe.reader);
        wake(&mut pipe.writer);
    }
}
