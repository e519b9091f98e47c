//! A byte stream to a client or server over TCP or a Unix socket, plain or encrypted, compressed or not. Non-blocking. The stream
//! buffers nothing, except that TLS keeps incomplete records, and compression what it has not decompressed yet.

use crate::compression::{CompressionSession, Compressor, FindEnd};
use crate::peer::Peer;
use crate::socket::Socket;
use crate::tls::Cipher;
use crate::tls::session::{PeerIdentity, TlsSession};
use crate::transport::Transport;
use bytes::{Buf, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// Maximum bytes that [`Stream::unless_closed`] reads ahead. Further bytes stay in the socket, and then the stream does not notice
/// that the peer disconnects.
const READ_AHEAD_BYTES_MAX: usize = 8 * 1024;

/// Maximum bytes of one [`Stream::write_part`]. After them, other tasks run.
const WRITE_BYTES_MAX: usize = 256 * 1024;

/// Maximum bytes of one read from a socket.
pub const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// All streams of a thread read through one buffer, so that an idle connection owns none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Options of TCP sockets that detect a dead peer. Zero leaves a value to the operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSettings {
    /// Sends keepalive probes on an idle connection (`SO_KEEPALIVE`).
    pub keepalive: bool,
    /// Number of unanswered probes before the connection is dropped (`TCP_KEEPCNT`).
    pub keepcnt: usize,
    /// Idle time before the first probe (`TCP_KEEPIDLE`), rounded down to seconds, at least one.
    pub keepidle: Duration,
    /// Time between probes (`TCP_KEEPINTVL`), rounded down to seconds, at least one.
    pub keepintvl: Duration,
    /// Maximum time that sent data may stay unacknowledged (`TCP_USER_TIMEOUT`).
    pub user_timeout: Duration,
}

/// A connection.
#[derive(Debug)]
pub struct Stream {
    transport: Transport,
    // The lock is never contended: a connection belongs to one task.
    compression: Option<Box<Mutex<CompressionSession>>>,
    /// Whether the last message is only partly written.
    partial: AtomicBool,
}

impl Stream {
    /// Takes a TCP socket and disables Nagle's algorithm.
    pub fn tcp(stream: TcpStream) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        Self::plain(Socket::Tcp(stream))
    }

    /// Takes a Unix socket.
    pub fn unix(stream: UnixStream) -> Self {
        Self::plain(Socket::Unix(stream))
    }

    /// Takes a connection in memory.
    #[cfg(feature = "memory")]
    pub(crate) fn memory(socket: crate::memory_pipe::MemorySocket) -> Self {
        Self::plain(Socket::Memory(socket))
    }

    fn plain(socket: Socket) -> Self {
        Self {
            transport: Transport::plain(socket),
            compression: None,
            partial: AtomicBool::new(false),
        }
    }

    /// Returns the peer as the operating system reports it.
    pub fn peer(&self) -> Peer {
        self.transport.peer()
    }

    /// Sets the options of a TCP socket. Failures are logged and ignored: the connection works without the options.
    pub fn set_tcp_options(&self, settings: &TcpSettings) {
        if let Socket::Tcp(stream) = self.transport.socket()
            && let Err(error) = set_tcp_options(&SockRef::from(stream), settings)
        {
            tracing::debug!(%error, "TCP keepalive could not be set");
        }
    }

    /// Forbids plain text from now on, whether or not the handshake succeeds, and returns the socket for the handshake.
    pub(crate) fn begin_handshake(&mut self) -> &Socket {
        self.transport.begin_handshake()
    }

    /// Encrypts everything from now on.
    pub(crate) fn encrypt(&mut self, session: TlsSession, identity: PeerIdentity) {
        self.transport.encrypt(session, identity);
    }

    /// Compresses everything from now on, in both directions. `received` is what has been read behind the peer's last byte that was not
    /// compressed; it is left empty. `find_end` finds the ends of exchanges in what is written.
    pub fn compress(
        &mut self,
        compressor: Arc<Compressor>,
        find_end: FindEnd,
        received: &mut BytesMut,
    ) {
        let session = CompressionSession::new(compressor, find_end, std::mem::take(received));
        self.compression = Some(Box::new(Mutex::new(session)));
    }

    fn compression(&self) -> Option<MutexGuard<'_, CompressionSession>> {
        let session = self.compression.as_deref()?;
        Some(session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the connection is compressed.
    pub fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    #[cfg(test)]
    pub(crate) fn socket(&self) -> &Socket {
        self.transport.socket()
    }

    #[cfg(test)]
    pub(crate) fn session_mut(&mut self) -> &mut TlsSession {
        self.transport.session_mut()
    }

    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.transport.tls().is_some()
    }

    /// Returns the TLS version and cipher suite of an encrypted connection.
    pub fn cipher(&self) -> Option<Cipher> {
        self.transport.tls()?.session().cipher()
    }

    /// Whether this is a Unix socket, or in memory, which needs no encryption.
    pub fn is_unix(&self) -> bool {
        !matches!(self.transport.socket(), Socket::Tcp(_))
    }

    /// Returns the channel binding data for SCRAM-SHA-256-PLUS: `tls-server-end-point` (RFC 5929). `None` if the connection is not
    /// encrypted, or if the certificate's signature has no hash function (Ed25519).
    pub fn channel_binding(&self) -> Option<&[u8]> {
        self.transport.tls()?.identity.channel_binding.as_deref()
    }

    /// Returns the names in a verified client certificate, the common name first; none if the client has shown no certificate of a
    /// known authority.
    pub fn certified_names(&self) -> &[String] {
        let tls = self.transport.tls();
        tls.map_or(&[], |tls| &tls.identity.names)
    }

    /// Returns another descriptor of the same socket.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.transport.socket().duplicate()
    }

    /// Waits until the stream is ready for any of `interest`.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let has_block = |session: MutexGuard<'_, CompressionSession>| session.has_block();
        if interest.is_readable() && self.compression().is_some_and(has_block) {
            // No wait for the socket lets other tasks run.
            tokio::task::consume_budget().await;
            return Ok(Ready::READABLE);
        }
        self.transport.ready(interest).await
    }

    /// Waits until bytes arrive or the peer disconnects.
    ///
    /// # Errors
    /// As [`Stream::ready`].
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(|_| ())
    }

    /// Appends the bytes that have arrived; `Ok(false)` if there are none.
    ///
    /// # Errors
    /// The socket's, or those of TLS and compression ([`io::ErrorKind::InvalidData`]). The end of the stream is
    /// [`io::ErrorKind::UnexpectedEof`].
    pub fn read_now(&self, buf: &mut BytesMut) -> io::Result<bool> {
        SCRATCH.with_borrow_mut(|scratch| match self.compression() {
            None => self.transport.read_now(scratch, buf),
            Some(mut session) => session.read(&self.transport, scratch, buf),
        })
    }

    /// Writes from the front of `buf` as much as the socket accepts now. The next write must begin with the rest.
    ///
    /// # Errors
    /// The socket's, or TLS's.
    pub fn write_now(&self, buf: &mut impl Buf) -> io::Result<()> {
        let written = match self.compression() {
            None => self.transport.write_now(buf),
            Some(mut session) => session.write(&self.transport, buf),
        };
        self.partial.store(buf.has_remaining(), Ordering::Relaxed);
        written
    }

    /// Whether the last message is only partly written, so that no other message can be sent.
    pub fn has_partial_write(&self) -> bool {
        self.transport.is_in_handshake() || self.partial.load(Ordering::Relaxed)
    }

    /// Whether the TLS keys are nearly used up, so that the connection should be replaced.
    pub fn needs_replacement(&self) -> bool {
        let tls = self.transport.tls();
        tls.is_some_and(|tls| tls.session().keys_nearly_used_up())
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// As [`Stream::write_now`].
    pub async fn write_all(&self, buf: &mut impl Buf) -> io::Result<()> {
        loop {
            let left = buf.remaining();
            self.write_part(buf)?;
            if !buf.has_remaining() {
                return Ok(());
            }
            if left - buf.remaining() < WRITE_BYTES_MAX {
                self.ready(Interest::WRITABLE).await?;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// As [`Stream::write_now`], but at most 256 KiB.
    ///
    /// # Errors
    /// As [`Stream::write_now`].
    pub fn write_part(&self, buf: &mut impl Buf) -> io::Result<()> {
        if buf.remaining() <= WRITE_BYTES_MAX {
            return self.write_now(buf);
        }
        let written = self.write_now(&mut (&mut *buf).take(WRITE_BYTES_MAX));
        self.partial.store(true, Ordering::Relaxed);
        written
    }

    /// Runs `work` for a peer that waits for its result, and returns `None` if the peer disconnects first. Bytes that the peer sends
    /// meanwhile are appended to `input`, at most about 8 KiB; a disconnect behind more bytes is not noticed.
    pub async fn unless_closed<T>(
        &self,
        input: &mut BytesMut,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let disconnect = async {
            while input.len() < READ_AHEAD_BYTES_MAX {
                if self.read_some(input).await.is_err() {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = disconnect => None,
        }
    }

    /// Waits for bytes and appends them.
    ///
    /// # Errors
    /// As [`Stream::read_now`].
    pub async fn read_some(&self, buf: &mut BytesMut) -> io::Result<()> {
        while !self.read_now(buf)? {
            self.readable().await?;
        }
        Ok(())
    }
}

fn set_tcp_options(socket: &SockRef<'_>, settings: &TcpSettings) -> io::Result<()> {
    let given = |time: Duration| (!time.is_zero()).then_some(time);
    // The system counts in whole seconds.
    let whole = |time: Duration| given(time).map(|time| time.max(Duration::from_secs(1)));
    if let Some(limit) = given(settings.user_timeout) {
        socket.set_tcp_user_timeout(Some(limit))?;
    }
    if !settings.keepalive {
        return Ok(());
    }
    let mut keepalive = TcpKeepalive::new();
    if let Some(time) = whole(settings.keepidle) {
        keepalive = keepalive.with_time(time);
    }
    if let Some(time) = whole(settings.keepintvl) {
        keepalive = keepalive.with_interval(time);
    }
    let count = u32::try_from(settings.keepcnt);
    if let Some(count) = count.ok().filter(|count| *count > 0) {
        keepalive = keepalive.with_retries(count);
    }
    socket.set_tcp_keepalive(&keepalive)
}

#[cfg(test)]
mod tests;
