//! One encrypted connection: what the socket brings becomes plain text, what is written becomes records.
//!
//! Plain text never stays in here: a read hands on all that has come, and what a write has taken from its caller is with the
//! system. So whoever waits for the socket waits for the right thing. Kept are only the part of a record that has come so
//! far, and records that the socket did not take; a connection that is idle has neither.

use super::engine::Engine;
use super::{ALPN, Acceptor, Cipher, Connector, certificate};
use crate::stream::Socket;
use bytes::{Buf, BytesMut};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use tokio::io::Interest;

/// Bytes read at a time while hands are shaken.
const HANDSHAKE_READ_BYTES: usize = 4 * 1024;

/// Plain text that is encrypted at a time: four full records.
const SEAL_BYTES: usize = 64 * 1024;

/// Longest ciphertext of that: each record has a header and a tag, and there may be an announcement of new keys.
const SEALED_BYTES: usize = SEAL_BYTES + 4 * 256 + 1024;

/// After as many pieces a connection had better be replaced: with AES-GCM in TLS 1.2, keys are good for 2^24 records (RFC 8446,
/// section 5.5), and there are no others. A statement is a piece.
const PIECES_MAX: u64 = 1 << 23;

thread_local! {
    /// Connections encrypt into one buffer per thread.
    static SEALED: RefCell<Vec<u8>> = RefCell::new(vec![0; SEALED_BYTES]);
}

/// The state of an encrypted connection.
pub(crate) struct Session {
    engine: Engine,
    /// The beginning of a record.
    incoming: BytesMut,
    /// Records that the socket has not taken.
    outgoing: BytesMut,
    /// Bytes at the front of the writer's buffer that are in `outgoing`. They are taken from it when the socket has them.
    underway: usize,
    /// Pieces that were encrypted.
    sealed: u64,
    /// Nothing more is read.
    end: Option<End>,
}

/// Why nothing more comes.
enum End {
    /// The other side said so, or its socket is closed.
    Closed,
    /// What it sent is not TLS, or its certificate is not good.
    Failed(Error),
}

impl End {
    fn error(&self) -> io::Error {
        match self {
            Self::Closed => io::ErrorKind::UnexpectedEof.into(),
            Self::Failed(error) => io::Error::new(io::ErrorKind::InvalidData, error.clone()),
        }
    }
}

/// Who the other side is, and what binds a login to this connection.
pub(crate) struct Identity {
    /// `tls-server-end-point` of the certificate of whoever is the server here (SCRAM-SHA-256-PLUS).
    pub(crate) binding: Option<Arc<[u8]>>,
    /// Names in a client's certificate that comes from a known authority: the common name first.
    pub(crate) names: Box<[String]>,
}

/// Shakes hands with a client. `input` is what it has sent so far of TLS; afterwards it holds what came encrypted, behind the
/// handshake. A client that did not ask before (`direct`) must name the protocol.
///
/// # Errors
/// The socket's, or `InvalidData`; the client has been told then, if it could be.
pub(crate) async fn accept(
    socket: &Socket,
    acceptor: &Acceptor,
    input: &mut BytesMut,
    direct: bool,
) -> io::Result<(Session, Identity)> {
    let mut session = acceptor.session().map_err(io::Error::other)?;
    let mut hello = std::mem::take(input);
    session.open(&mut hello, input);
    session.shake_hands(socket, input).await?;
    if direct && session.state().alpn_protocol() != Some(ALPN) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "received direct SSL connection request without ALPN protocol negotiation extension",
        ));
    }
    let identity = Identity {
        binding: acceptor.binding(),
        names: acceptor.names(session.peer()),
    };
    Ok((session, identity))
}

/// Shakes hands with a server that has agreed to it.
///
/// # Errors
/// The socket's, or `InvalidData`: also for a certificate that is not good.
pub(crate) async fn connect(
    socket: &Socket,
    connector: &Connector,
    host: &str,
) -> io::Result<(Session, Identity)> {
    let mut session = connector.session(host).map_err(io::Error::other)?;
    let (mut nothing, mut input) = (BytesMut::new(), BytesMut::new());
    session.open(&mut nothing, &mut input);
    session.shake_hands(socket, &mut input).await?;
    if !input.is_empty() {
        let message = "the server speaks before it was spoken to";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let binding = session.peer().first();
    let binding = binding.and_then(|cert| certificate::end_point(cert));
    let identity = Identity {
        binding: binding.map(Arc::from),
        names: Box::default(),
    };
    Ok((session, identity))
}

impl Session {
    pub(super) fn with_client(engine: UnbufferedServerConnection) -> Self {
        Self::new(Engine::WithClient(engine))
    }

    pub(super) fn with_server(engine: UnbufferedClientConnection) -> Self {
        Self::new(Engine::WithServer(engine))
    }

    fn new(engine: Engine) -> Self {
        Self {
            engine,
            incoming: BytesMut::new(),
            outgoing: BytesMut::new(),
            underway: 0,
            sealed: 0,
            end: None,
        }
    }

    fn state(&self) -> &CommonState {
        self.engine.state()
    }

    /// What both sides have agreed on.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        self.state().negotiated_cipher_suite().and_then(Cipher::of)
    }

    /// The certificates that the other side has shown.
    fn peer(&self) -> &[CertificateDer<'static>] {
        self.state().peer_certificates().unwrap_or_default()
    }

    /// Will a read say something although the socket has nothing?
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Are its keys nearly used up?
    pub(crate) fn is_worn(&self) -> bool {
        self.sealed >= PIECES_MAX
    }

    /// Is part of a message on its way, and the rest not said?
    pub(crate) fn is_cut(&self) -> bool {
        self.underway > 0
    }

    async fn shake_hands(&mut self, socket: &Socket, input: &mut BytesMut) -> io::Result<()> {
        let mut scratch = vec![0; HANDSHAKE_READ_BYTES];
        loop {
            let flushed = self.flush(socket)?;
            let handshaking = self.state().is_handshaking();
            let interest = match (handshaking, flushed) {
                (false, true) => return Ok(()),
                (false, false) => Interest::WRITABLE,
                (true, true) => Interest::READABLE,
                (true, false) => Interest::READABLE | Interest::WRITABLE,
            };
            if let (true, Some(end)) = (handshaking, &self.end) {
                return Err(end.error());
            }
            socket.ready(interest).await?;
            if handshaking {
                self.read(socket, &mut scratch, input)?;
            }
        }
    }

    /// Reads from the socket once, and appends all plain text that has come; `Ok(false)`: none has. The end of the stream is
    /// [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn read(
        &mut self,
        socket: &Socket,
        scratch: &mut [u8],
        plain: &mut BytesMut,
    ) -> io::Result<bool> {
        if let Some(end) = &self.end {
            return Err(end.error());
        }
        let before = plain.len();
        match socket.try_read(scratch) {
            Ok(0) => self.end = Some(End::Closed),
            Ok(len) => self.open(scratch.get_mut(..len).unwrap_or_default(), plain),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if !self.outgoing.is_empty() {
            // Answers of TLS itself; if the socket does not take them now, they go before what is written next.
            let _ = self.flush(socket);
        }
        match &self.end {
            Some(end) if plain.len() == before => Err(end.error()),
            _ => Ok(plain.len() > before),
        }
    }

    /// Works through ciphertext that has come.
    fn open(&mut self, fresh: &mut [u8], plain: &mut BytesMut) {
        let opened = match self.incoming.is_empty() {
            true => {
                let (used, opened) = self.engine.open(fresh, plain, &mut self.outgoing);
                let rest = fresh.get(used..).unwrap_or_default();
                self.incoming.extend_from_slice(rest);
                opened
            }
            false => {
                self.incoming.extend_from_slice(fresh);
                let Self {
                    engine,
                    incoming,
                    outgoing,
                    ..
                } = self;
                let (used, opened) = engine.open(incoming, plain, outgoing);
                incoming.advance(used.min(incoming.len()));
                opened
            }
        };
        if self.incoming.is_empty() {
            self.incoming = BytesMut::new();
        }
        match opened {
            Ok(true) => {}
            Ok(false) => self.end = Some(End::Closed),
            Err(error) => self.end = Some(End::Failed(error)),
        }
    }

    /// Writes from the front of `plain` what the socket takes now. What is left must be at the front the next time, too: it
    /// may have been encrypted already.
    pub(crate) fn write(&mut self, socket: &Socket, plain: &mut impl Buf) -> io::Result<()> {
        if let Some(end @ End::Failed(_)) = &self.end {
            return Err(end.error());
        }
        if plain.remaining() < self.underway {
            return Err(io::Error::other("part of another message is on its way"));
        }
        while self.flush(socket)? {
            plain.advance(std::mem::take(&mut self.underway));
            if !plain.has_remaining() {
                return Ok(());
            }
            let chunk = plain.chunk();
            let chunk = chunk.get(..SEAL_BYTES).unwrap_or(chunk);
            SEALED.with_borrow_mut(|sealed| self.seal(socket, chunk, sealed))?;
            self.underway = chunk.len();
        }
        Ok(())
    }

    /// Encrypts, and writes what the socket takes; the rest is kept.
    fn seal(&mut self, socket: &Socket, chunk: &[u8], sealed: &mut [u8]) -> io::Result<()> {
        let encrypted = self
            .engine
            .seal(&mut self.incoming, chunk, sealed, &mut self.outgoing);
        // Who waits for an answer to what was never sent is to find an end.
        let len = encrypted.inspect_err(|_| self.end = Some(End::Failed(Error::EncryptError)))?;
        self.sealed += 1;
        let sealed = sealed.get(..len).unwrap_or_default();
        let taken = match self.outgoing.is_empty() {
            true => match socket.try_write(sealed) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                other => other?,
            },
            false => 0,
        };
        self.outgoing
            .extend_from_slice(sealed.get(taken..).unwrap_or_default());
        Ok(())
    }

    /// Writes records that are left; true: none is.
    fn flush(&mut self, socket: &Socket) -> io::Result<bool> {
        if self.outgoing.is_empty() {
            return Ok(true);
        }
        socket.write_now(&mut self.outgoing)?;
        let all = self.outgoing.is_empty();
        if all {
            self.outgoing = BytesMut::new();
        }
        Ok(all)
    }

    /// Says that nothing more comes, if the socket takes it and no record is half written.
    pub(crate) fn say_goodbye(&mut self, socket: &Socket) {
        let failed = matches!(self.end, Some(End::Failed(_)));
        if failed || self.state().is_handshaking() || !self.outgoing.is_empty() {
            return;
        }
        SEALED.with_borrow_mut(|sealed| {
            if let Ok(len) = self.engine.close(&mut self.incoming, sealed) {
                // The end of the connection says the same.
                let _ = socket.try_write(sealed.get(..len).unwrap_or_default());
            }
        });
    }
}

#[cfg(test)]
mod tests;
