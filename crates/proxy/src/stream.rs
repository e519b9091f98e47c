//! A byte stream to a client or server: TCP or Unix socket, plain or encrypted. Non-blocking; nothing is buffered here,
//! except that TLS keeps parts of records.

mod peer;

use crate::tls::Cipher;
use crate::tls::session::{Identity, Session};
use bytes::{Buf, BytesMut};
use paceline_config::Tcp;
pub(crate) use peer::Peer;
use socket2::{SockRef, TcpKeepalive};
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// What a peer that waits for its login may send ahead; more waits in the socket, and then it is not noticed that the peer leaves.
const WAITING_BYTES_MAX: usize = 8 * 1024;

/// Bytes that are written before others have their turn, if the socket takes so many at once.
const WRITE_BYTES: usize = 256 * 1024;

/// Bytes read from a socket at a time.
pub(crate) const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// Clients read through one buffer per thread: an idle connection owns none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    /// What it goes over.
    pub(crate) socket: Socket,
    cover: Cover,
}

/// What protects it.
#[derive(Debug)]
enum Cover {
    /// Nothing; whether the last message is written only in part.
    Plain(AtomicBool),
    /// A handshake is under way: nothing else is said or heard.
    Shaking,
    Tls(Box<Tls>),
}

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Over TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

/// What an encrypted connection has beside its socket.
struct Tls {
    // The lock is never contended: a connection belongs to one task.
    session: Mutex<Session>,
    identity: Identity,
}

impl Stream {
    /// The other end.
    pub(crate) fn peer(&self) -> Peer {
        Peer::of(&self.socket)
    }

    /// Takes a TCP socket.
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        Self {
            socket: Socket::Tcp(stream),
            cover: Cover::Plain(AtomicBool::new(false)),
        }
    }

    /// From now on TCP finds out by itself that the other end is gone, as it is told to.
    pub(crate) fn keep_alive(&self, tcp: &Tcp) {
        if let Socket::Tcp(stream) = &self.socket
            && let Err(error) = keep_alive(&SockRef::from(stream), tcp)
        {
            tracing::debug!(%error, "TCP keepalive could not be set");
        }
    }

    /// Takes a Unix socket.
    pub(crate) fn unix(stream: UnixStream) -> Self {
        Self {
            socket: Socket::Unix(stream),
            cover: Cover::Plain(AtomicBool::new(false)),
        }
    }

    /// From now on nothing goes in plain text, whatever becomes of the handshake.
    pub(crate) fn begin_handshake(&mut self) {
        self.cover = Cover::Shaking;
    }

    /// From now on it is encrypted.
    pub(crate) fn encrypt(&mut self, session: Session, identity: Identity) {
        self.cover = Cover::Tls(Box::new(Tls {
            session: Mutex::new(session),
            identity,
        }));
    }

    fn tls(&self) -> Option<&Tls> {
        match &self.cover {
            Cover::Tls(tls) => Some(tls),
            Cover::Plain(_) | Cover::Shaking => None,
        }
    }

    /// The state of TLS.
    #[cfg(test)]
    pub(crate) fn session_mut(&mut self) -> &mut Session {
        match &mut self.cover {
            Cover::Tls(tls) => tls.session.get_mut().unwrap(),
            cover => panic!("{cover:?}"),
        }
    }

    /// Is it encrypted?
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls().is_some()
    }

    /// How it is encrypted.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        self.tls()?.session().cipher()
    }

    /// Does it stay on this machine, so that there is nothing to encrypt?
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.socket, Socket::Unix(_))
    }

    /// What binds a login to this connection: `tls-server-end-point` for SCRAM-SHA-256-PLUS (RFC 5929). `None`: it is not
    /// encrypted, or the certificate has no such thing (Ed25519).
    pub(crate) fn channel_binding(&self) -> Option<&[u8]> {
        self.tls()?.identity.binding.as_deref()
    }

    /// Names in a client's certificate that comes from an authority in `client_tls_ca_file`, the common name first.
    pub(crate) fn certified_names(&self) -> &[String] {
        self.tls().map_or(&[], |tls| &tls.identity.names)
    }

    /// Another descriptor of the same socket.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd().try_clone_to_owned(),
            Socket::Unix(stream) => stream.as_fd().try_clone_to_owned(),
        }
    }

    /// Waits until the socket is ready for any of `interest`.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        // The last word of TLS may have come together with what was read before.
        if let Some(tls) = self.tls()
            && interest.is_readable()
            && tls.session().has_ended()
        {
            return Ok(Ready::READABLE);
        }
        self.socket.ready(interest).await
    }

    /// Waits until there is something to read, or the peer has gone.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(|_| ())
    }

    /// Appends what has come; `Ok(false)`: nothing has. The end of the stream is [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn read_now(&self, buf: &mut BytesMut) -> io::Result<bool> {
        SCRATCH.with_borrow_mut(|scratch| match &self.cover {
            Cover::Plain(_) => self.socket.read_now(scratch, buf),
            Cover::Shaking => Err(io::ErrorKind::NotConnected.into()),
            Cover::Tls(tls) => tls.session().read(&self.socket, scratch, buf),
        })
    }

    /// Writes from the front of `buf` what the socket takes now. What is left must be at the front of the next write, too.
    pub(crate) fn write_now(&self, buf: &mut impl Buf) -> io::Result<()> {
        match &self.cover {
            Cover::Plain(cut) => {
                let written = self.socket.write_now(buf);
                cut.store(buf.has_remaining(), Ordering::Relaxed);
                written
            }
            Cover::Shaking => Err(io::ErrorKind::NotConnected.into()),
            Cover::Tls(tls) => tls.session().write(&self.socket, buf),
        }
    }

    /// Is the last message written only in part, so that nothing else can be said?
    pub(crate) fn is_cut(&self) -> bool {
        match &self.cover {
            Cover::Plain(cut) => cut.load(Ordering::Relaxed),
            Cover::Shaking => true,
            Cover::Tls(tls) => tls.session().is_cut(),
        }
    }

    /// Had it better be replaced, because what encrypts it is nearly used up?
    pub(crate) fn is_worn(&self) -> bool {
        self.tls().is_some_and(|tls| tls.session().is_worn())
    }

    /// Writes all of `buf`.
    pub(crate) async fn write_all(&self, buf: &mut impl Buf) -> io::Result<()> {
        loop {
            let left = buf.remaining();
            self.write_part(buf)?;
            if !buf.has_remaining() {
                return Ok(());
            }
            if left - buf.remaining() < WRITE_BYTES {
                self.ready(Interest::WRITABLE).await?;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// As [`Stream::write_now`], but not more than [`WRITE_BYTES`].
    pub(crate) fn write_part(&self, buf: &mut impl Buf) -> io::Result<()> {
        if buf.remaining() <= WRITE_BYTES {
            return self.write_now(buf);
        }
        let written = self.write_now(&mut (&mut *buf).take(WRITE_BYTES));
        if let Cover::Plain(cut) = &self.cover {
            cut.store(true, Ordering::Relaxed);
        }
        written
    }

    /// Carries out work for a peer that waits for it. What the peer sends meanwhile is appended to `input`, up to
    /// [`WAITING_BYTES_MAX`]. Returns `None` if the peer leaves first.
    pub(crate) async fn while_it_waits<T>(
        &self,
        input: &mut BytesMut,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let leaves = async {
            while input.len() < WAITING_BYTES_MAX {
                if self.read_some(input).await.is_err() {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = leaves => None,
        }
    }

    /// Waits for bytes and appends them.
    pub(crate) async fn read_some(&self, buf: &mut BytesMut) -> io::Result<()> {
        while !self.read_now(buf)? {
            self.readable().await?;
        }
        Ok(())
    }
}

/// Zero leaves a value to the system.
fn keep_alive(socket: &SockRef<'_>, tcp: &Tcp) -> io::Result<()> {
    let given = |time: Duration| (!time.is_zero()).then_some(time);
    // The system counts in whole seconds.
    let whole = |time: Duration| given(time).map(|time| time.max(Duration::from_secs(1)));
    if !tcp.user_timeout.is_zero() {
        socket.set_tcp_user_timeout(Some(tcp.user_timeout))?;
    }
    if !tcp.keepalive {
        return Ok(());
    }
    let mut keepalive = TcpKeepalive::new();
    if let Some(time) = whole(tcp.keepidle) {
        keepalive = keepalive.with_time(time);
    }
    if let Some(time) = whole(tcp.keepintvl) {
        keepalive = keepalive.with_interval(time);
    }
    if let Some(count) = u32::try_from(tcp.keepcnt).ok().filter(|count| *count > 0) {
        keepalive = keepalive.with_retries(count);
    }
    socket.set_tcp_keepalive(&keepalive)
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(tls) = self.tls() {
            tls.session().say_goodbye(&self.socket);
        }
    }
}

impl Tls {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tls")
    }
}

impl Socket {
    /// Waits until it is ready for any of `interest`.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }

    /// Reads what is there. A socket that gives less than asked for has no more: until an event says otherwise, nobody asks
    /// it again in vain.
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let nothing = || io::Error::from(io::ErrorKind::WouldBlock);
        let mut got = None;
        let mut read = |socket: BorrowedFd<'_>| {
            let len = rustix::io::read(socket, &mut *buf)?;
            got = Some(len);
            match (1..buf.len()).contains(&len) {
                true => Err(nothing()),
                false => Ok(()),
            }
        };
        let told = match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || read(stream.as_fd())),
            Self::Unix(stream) => stream.try_io(Interest::READABLE, || read(stream.as_fd())),
        };
        match got {
            Some(len) => Ok(len),
            None => told.and(Err(nothing())),
        }
    }

    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(buf),
            Self::Unix(stream) => stream.try_write(buf),
        }
    }

    fn read_now(&self, scratch: &mut [u8], buf: &mut BytesMut) -> io::Result<bool> {
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

    /// Writes from the front of `buf` what it takes now.
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

#[cfg(test)]
mod tests;
