//! One encrypted connection: decrypts what it reads from the socket, encrypts what it writes there.
//!
//! The session keeps no plain text: a read returns all plain text that has arrived, and a write takes bytes from its caller only
//! when the socket has accepted their records. So readiness of the socket is readiness of the connection. The session keeps only
//! the incomplete record at the end of the input and records that the socket did not accept; an idle connection has neither.

use super::cipher::Cipher;
use super::engine::Engine;
use crate::socket::Socket;
use bytes::{Buf, BytesMut};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use tokio::io::Interest;

/// Bytes of one read during the handshake.
const HANDSHAKE_READ_BYTES: usize = 4 * 1024;

/// Maximum plain text that is encrypted at once: four full records.
const ENCRYPT_BYTES: usize = 64 * 1024;

/// Maximum ciphertext of [`ENCRYPT_BYTES`]: each record has a header and a tag, and a KeyUpdate may come first.
const ENCRYPTED_BYTES: usize = ENCRYPT_BYTES + 4 * 256 + 1024;

/// Number of encrypted chunks after which the connection should be replaced: AES-GCM keys are safe for 2^24 records (RFC 8446,
/// section 5.5), and TLS 1.2 without renegotiation has no others. A statement takes one chunk or more.
const CHUNKS_MAX: u64 = 1 << 23;

thread_local! {
    /// All sessions of a thread encrypt into one buffer.
    static ENCRYPTED: RefCell<Vec<u8>> = RefCell::new(vec![0; ENCRYPTED_BYTES]);
}

/// The state of an encrypted connection.
pub(crate) struct TlsSession {
    engine: Engine,
    /// An incomplete record.
    incoming: BytesMut,
    /// Records that the socket has not accepted.
    outgoing: BytesMut,
    /// Number of bytes at the front of the writer's buffer that are encrypted in `outgoing`. They leave the writer's buffer when the
    /// socket has accepted them.
    partial: usize,
    /// Number of encrypted chunks.
    chunks: u64,
    /// Set when nothing more can be read.
    end: Option<ReadEnd>,
}

/// The reason why nothing more can be read.
enum ReadEnd {
    /// The peer has sent close_notify or closed its socket.
    Closed,
    /// The peer broke the protocol, or its certificate was rejected.
    Failed(Error),
}

impl ReadEnd {
    fn error(&self) -> io::Error {
        match self {
            Self::Closed => io::ErrorKind::UnexpectedEof.into(),
            Self::Failed(error) => io::Error::new(io::ErrorKind::InvalidData, error.clone()),
        }
    }
}

/// The identity of the peer, as the handshake has shown it.
pub(crate) struct PeerIdentity {
    /// `tls-server-end-point` of the TLS server's certificate, for SCRAM-SHA-256-PLUS.
    pub(crate) channel_binding: Option<Arc<[u8]>>,
    /// Names in a client certificate of a known authority, the common name first.
    pub(crate) names: Box<[String]>,
}

impl TlsSession {
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
            partial: 0,
            chunks: 0,
            end: None,
        }
    }

    fn state(&self) -> &CommonState {
        self.engine.state()
    }

    /// Returns the negotiated version and cipher suite.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        self.state().negotiated_cipher_suite().and_then(Cipher::of)
    }

    /// Returns the certificates that the peer has sent.
    pub(super) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.state().peer_certificates().unwrap_or_default()
    }

    /// Whether a read returns the end although the socket has no bytes.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the protocol that both sides agreed on by ALPN.
    pub(super) fn alpn_protocol(&self) -> Option<&[u8]> {
        self.state().alpn_protocol()
    }

    /// Whether the connection should be replaced before its keys are used up.
    pub(crate) fn keys_nearly_used_up(&self) -> bool {
        self.chunks >= CHUNKS_MAX
    }

    /// Completes the handshake. Plain text that follows it is appended to `input`.
    pub(super) async fn handshake(
        &mut self,
        socket: &Socket,
        input: &mut BytesMut,
    ) -> io::Result<()> {
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

    /// Reads from the socket once and appends all plain text that has arrived; `Ok(false)` if there is none. The end of the stream
    /// is [`io::ErrorKind::UnexpectedEof`].
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
            Ok(0) => self.end = Some(ReadEnd::Closed),
            Ok(len) => self.decrypt(scratch.get_mut(..len).unwrap_or_default(), plain),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if !self.outgoing.is_empty() {
            // Answers of TLS itself. If the socket does not accept them now, the next write sends them first.
            let _ = self.flush(socket);
        }
        match &self.end {
            Some(end) if plain.len() == before => Err(end.error()),
            _ => Ok(plain.len() > before),
        }
    }

    /// Decrypts ciphertext that has arrived.
    pub(super) fn decrypt(&mut self, fresh: &mut [u8], plain: &mut BytesMut) {
        let decrypted = match self.incoming.is_empty() {
            true => {
                let (used, decrypted) = self.engine.decrypt(fresh, plain, &mut self.outgoing);
                let rest = fresh.get(used..).unwrap_or_default();
                self.incoming.extend_from_slice(rest);
                decrypted
            }
            false => {
                self.incoming.extend_from_slice(fresh);
                let Self {
                    engine,
                    incoming,
                    outgoing,
                    ..
                } = self;
                let (used, decrypted) = engine.decrypt(incoming, plain, outgoing);
                incoming.advance(used.min(incoming.len()));
                decrypted
            }
        };
        if self.incoming.is_empty() {
            self.incoming = BytesMut::new();
        }
        match decrypted {
            Ok(true) => {}
            Ok(false) => self.end = Some(ReadEnd::Closed),
            Err(error) => self.end = Some(ReadEnd::Failed(error)),
        }
    }

    /// Writes from the front of `plain` as much as the socket accepts now. The next write must begin with the rest: part of it may be
    /// encrypted already.
    pub(crate) fn write(&mut self, socket: &Socket, plain: &mut impl Buf) -> io::Result<()> {
        if let Some(end @ ReadEnd::Failed(_)) = &self.end {
            return Err(end.error());
        }
        if plain.remaining() < self.partial {
            return Err(io::Error::other("part of another message is not sent yet"));
        }
        while self.flush(socket)? {
            plain.advance(std::mem::take(&mut self.partial));
            if !plain.has_remaining() {
                return Ok(());
            }
            let chunk = plain.chunk();
            let chunk = chunk.get(..ENCRYPT_BYTES).unwrap_or(chunk);
            ENCRYPTED.with_borrow_mut(|buf| self.encrypt(socket, chunk, buf))?;
            self.partial = chunk.len();
        }
        Ok(())
    }

    /// Encrypts a chunk into `buf` and writes what the socket accepts; the session keeps the rest.
    fn encrypt(&mut self, socket: &Socket, chunk: &[u8], buf: &mut [u8]) -> io::Result<()> {
        let encrypted = self
            .engine
            .encrypt(&mut self.incoming, chunk, buf, &mut self.outgoing);
        // A caller that waits for the answer must find the end of the stream: the message was never sent.
        let len =
            encrypted.inspect_err(|_| self.end = Some(ReadEnd::Failed(Error::EncryptError)))?;
        self.chunks += 1;
        let records = buf.get(..len).unwrap_or_default();
        let taken = match self.outgoing.is_empty() {
            true => match socket.try_write(records) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                other => other?,
            },
            false => 0,
        };
        self.outgoing
            .extend_from_slice(records.get(taken..).unwrap_or_default());
        Ok(())
    }

    /// Writes records that an earlier write has left; returns whether none is left.
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

    /// Sends close_notify, unless the connection has failed or a record is partly written.
    pub(crate) fn send_close_notify(&mut self, socket: &Socket) {
        let failed = matches!(self.end, Some(ReadEnd::Failed(_)));
        if failed || self.state().is_handshaking() || !self.outgoing.is_empty() {
            return;
        }
        ENCRYPTED.with_borrow_mut(|buf| {
            if let Ok(len) = self.engine.close(&mut self.incoming, buf) {
                // If the socket does not accept it, the peer finds the end of the connection instead.
                let _ = socket.try_write(buf.get(..len).unwrap_or_default());
            }
        });
    }
}

#[cfg(test)]
mod tests;
