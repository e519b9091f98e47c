//! rustls' unbuffered connections, one step after the other: bytes in, bytes out. No socket, and no buffer of its own.

use bytes::{Buf, BytesMut};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{CommonState, Error};
use std::io;

/// rustls, on the one side or the other.
pub(super) enum Engine {
    WithClient(UnbufferedServerConnection),
    WithServer(UnbufferedClientConnection),
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
    /// What both sides can tell of a connection.
    pub(super) fn state(&self) -> &CommonState {
        match self {
            Self::WithClient(engine) => engine,
            Self::WithServer(engine) => engine,
        }
    }

    /// Opens whole records: appends plain text to `plain`, and what TLS itself has to say to `out`. Returns how many bytes
    /// are done with, and whether more may come.
    pub(super) fn open(
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
    pub(super) fn seal(
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

    /// Puts into `sealed` that nothing more comes, and returns the length.
    pub(super) fn close(
        &mut self,
        incoming: &mut BytesMut,
        sealed: &mut [u8],
    ) -> io::Result<usize> {
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
