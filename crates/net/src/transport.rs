//! A socket, plain or encrypted. Non-blocking. It buffers nothing, except that TLS keeps incomplete records.

use crate::peer::Peer;
use crate::socket::Socket;
use crate::tls::session::{PeerIdentity, TlsSession};
use bytes::{Buf, BytesMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, io};
use tokio::io::{Interest, Ready};

/// A socket, plain or encrypted.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: Socket,
    security: Security,
}

#[derive(Debug)]
enum Security {
    Plain,
    /// The handshake is not complete: the caller can neither read nor write.
    Handshake,
    Tls(Box<Tls>),
}

/// The TLS session of a connection, and the identity of the peer.
pub(crate) struct Tls {
    // The lock is never contended: a connection belongs to one task.
    session: Mutex<TlsSession>,
    pub(crate) identity: PeerIdentity,
}

impl Transport {
    pub(crate) fn plain(socket: Socket) -> Self {
        Self {
            socket,
            security: Security::Plain,
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The peer as the operating system reports it.
    pub(crate) fn peer(&self) -> Peer {
        Peer::of(&self.socket)
    }

    /// Forbids plain text from now on, whether or not the handshake succeeds, and returns the socket for the handshake.
    pub(crate) fn begin_handshake(&mut self) -> &Socket {
        self.security = Security::Handshake;
        &self.socket
    }

    /// Encrypts everything from now on.
    pub(crate) fn encrypt(&mut self, session: TlsSession, identity: PeerIdentity) {
        self.security = Security::Tls(Box::new(Tls {
            session: Mutex::new(session),
            identity,
        }));
    }

    /// The TLS session of an encrypted connection.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        match &self.security {
            Security::Tls(tls) => Some(tls),
            Security::Plain | Security::Handshake => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn session_mut(&mut self) -> &mut TlsSession {
        match &mut self.security {
            Security::Tls(tls) => tls.session.get_mut().unwrap(),
            security => panic!("{security:?}"),
        }
    }

    /// Whether a handshake has begun and is not complete.
    pub(crate) fn is_in_handshake(&self) -> bool {
        matches!(self.security, Security::Handshake)
    }

    /// Waits until the socket is ready for any of `interest`.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        // The peer's last TLS message may have arrived together with the bytes of an earlier read.
        if let Some(tls) = self.tls()
            && interest.is_readable()
            && tls.session().has_ended()
        {
            return Ok(Ready::READABLE);
        }
        self.socket.ready(interest).await
    }

    /// Reads once through `scratch` and appends all bytes that have arrived; `Ok(false)` if there are none.
    pub(crate) fn read_now(&self, scratch: &mut [u8], buf: &mut BytesMut) -> io::Result<bool> {
        match &self.security {
            Security::Plain => self.socket.read_now(scratch, buf),
            Security::Handshake => Err(io::ErrorKind::NotConnected.into()),
            Security::Tls(tls) => tls.session().read(&self.socket, scratch, buf),
        }
    }

    /// Writes from the front of `buf` as much as the socket accepts now. The next write must begin with the rest.
    pub(crate) fn write_now(&self, buf: &mut impl Buf) -> io::Result<()> {
        match &self.security {
            Security::Plain => self.socket.write_now(buf),
            Security::Handshake => Err(io::ErrorKind::NotConnected.into()),
            Security::Tls(tls) => tls.session().write(&self.socket, buf),
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Some(tls) = self.tls() {
            tls.session().send_close_notify(&self.socket);
        }
    }
}

impl Tls {
    pub(crate) fn session(&self) -> MutexGuard<'_, TlsSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tls")
    }
}
