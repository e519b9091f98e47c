//! One encrypted connection: what the socket brings becomes plain text, what is written becomes records.
//!
//! Plain text never stays in here: a read hands on all that has come, and what a write has taken from its caller is with the
//! system. So whoever waits for the socket waits for the right thing. Kept are only the part of a record that has come so
//! far, and records that the socket did not take; a connection that is idle has neither.

use super::{ALPN, Acceptor, Connector, certificate};
use crate::stream::Socket;
use bytes::{Buf, BytesMut};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
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
    /// Nothing more is read.
    end: Option<End>,
}

/// rustls, on the one side or the other.
enum Engine {
    WithClient(UnbufferedServerConnection),
    WithServer(UnbufferedClientConnection),
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
    /// Names in the other side's certificate, if it was asked for one: the common name first.
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
        names: session.peer().map(names).unwrap_or_default(),
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
    let binding = session.peer().and_then(|cert| certificate::end_point(cert));
    let identity = Identity {
        binding: binding.map(Arc::from),
        names: Box::default(),
    };
    Ok((session, identity))
}

fn names(certificate: &CertificateDer<'_>) -> Box<[String]> {
    let names = certificate::names(certificate);
    names.common.into_iter().chain(names.alternative).collect()
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
            end: None,
        }
    }

    fn state(&self) -> &CommonState {
        match &self.engine {
            Engine::WithClient(engine) => engine,
            Engine::WithServer(engine) => engine,
        }
    }

    fn peer(&self) -> Option<&CertificateDer<'static>> {
        self.state().peer_certificates()?.first()
    }

    /// Will a read say something although the socket has nothing?
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
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
        let len = self
            .engine
            .seal(&mut self.incoming, chunk, sealed, &mut self.outgoing)?;
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

/// rustls' connections take the same steps, but have no trait in common.
trait Steps {
    type Data;
    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    /// The next step is to say something of TLS itself.
    fn has_to_say(&self) -> bool;
}

impl Steps for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
    fn has_to_say(&self) -> bool {
        self.wants_write()
    }
}

impl Steps for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn step<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
    fn has_to_say(&self) -> bool {
        self.wants_write()
    }
}

impl Engine {
    /// Opens whole records: appends plain text to `plain`, and what TLS itself has to say to `out`. Returns how many bytes
    /// are done with, and whether more may come.
    fn open(
        &mut self,
        incoming: &mut [u8],
        plain: &mut BytesMut,
        out: &mut BytesMut,
    ) -> (usize, Result<bool, Error>) {
        match self {
            Self::WithClient(engine) => open(engine, incoming, plain, out),
            Self::WithServer(engine) => open(engine, incoming, plain, out),
        }
    }

    /// Encrypts a piece into `sealed` and returns its length there.
    fn seal(
        &mut self,
        incoming: &mut BytesMut,
        chunk: &[u8],
        sealed: &mut [u8],
        out: &mut BytesMut,
    ) -> io::Result<usize> {
        match self {
            Self::WithClient(engine) => speak(engine, incoming, out, Speech::Data(chunk), sealed),
            Self::WithServer(engine) => speak(engine, incoming, out, Speech::Data(chunk), sealed),
        }
    }

    fn close(&mut self, incoming: &mut BytesMut, sealed: &mut [u8]) -> io::Result<usize> {
        let mut out = BytesMut::new();
        match self {
            Self::WithClient(engine) => speak(engine, incoming, &mut out, Speech::Close, sealed),
            Self::WithServer(engine) => speak(engine, incoming, &mut out, Speech::Close, sealed),
        }
    }
}

fn open<E: Steps>(
    engine: &mut E,
    incoming: &mut [u8],
    plain: &mut BytesMut,
    out: &mut BytesMut,
) -> (usize, Result<bool, Error>) {
    let mut used = 0;
    loop {
        let rest = incoming.get_mut(used..).unwrap_or_default();
        let UnbufferedStatus { discard, state, .. } = engine.step(rest);
        used += discard;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            used += record.discard;
                            plain.extend_from_slice(record.payload);
                        }
                        Err(error) => return (used, Err(error)),
                    }
                }
            }
            Ok(ConnectionState::EncodeTlsData(message)) => put_encoded(message, out),
            // It is in `out`, which goes before all else.
            Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                return (used, Ok(true));
            }
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => return (used, Ok(false)),
            // Early data is not allowed for, and there is no other state.
            Ok(_) => return (used, Err(Error::HandshakeNotComplete)),
            Err(error) => {
                let rest = incoming.get_mut(used..).unwrap_or_default();
                put_alerts(engine, rest, out);
                return (used, Err(error));
            }
        }
    }
}

/// After an error: what the other side is told of it. No other step may follow.
fn put_alerts<E: Steps>(engine: &mut E, incoming: &mut [u8], out: &mut BytesMut) {
    while engine.has_to_say()
        && let Ok(ConnectionState::EncodeTlsData(message)) = engine.step(incoming).state
    {
        put_encoded(message, out);
    }
}

fn put_encoded<D>(mut message: EncodeTlsData<'_, D>, out: &mut BytesMut) {
    let start = out.len();
    // Without room it says how much it needs.
    let Err(EncodeError::InsufficientSize(needs)) = message.encode(&mut []) else {
        return;
    };
    out.resize(start + needs.required_size, 0);
    let encoded = message.encode(out.get_mut(start..).unwrap_or_default());
    out.truncate(start + encoded.unwrap_or_default());
}

/// What is to be said.
#[derive(Clone, Copy)]
enum Speech<'a> {
    Data(&'a [u8]),
    Close,
}

/// Puts it into `sealed`; what TLS itself has to say before goes to `out`.
fn speak<E: Steps>(
    engine: &mut E,
    incoming: &mut BytesMut,
    out: &mut BytesMut,
    speech: Speech<'_>,
    sealed: &mut [u8],
) -> io::Result<usize> {
    loop {
        let UnbufferedStatus { discard, state, .. } = engine.step(incoming);
        let spoken = match state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(match speech {
                Speech::Data(chunk) => traffic.encrypt(chunk, sealed),
                Speech::Close => traffic.queue_close_notify(sealed),
            }),
            Ok(ConnectionState::EncodeTlsData(message)) => {
                put_encoded(message, out);
                None
            }
            Ok(ConnectionState::TransmitTlsData(transmit)) => {
                transmit.done();
                None
            }
            Ok(ConnectionState::PeerClosed) => None,
            Ok(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        incoming.advance(discard.min(incoming.len()));
        if let Some(spoken) = spoken {
            return spoken.map_err(|error: EncryptError| io::Error::other(error));
        }
    }
}

#[cfg(test)]
mod tests;
