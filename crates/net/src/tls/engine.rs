//! Drives rustls' unbuffered connections: bytes in, bytes out. No socket, and no buffer of its own.

use bytes::{Buf, BytesMut};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{CommonState, Error};
use std::io;

/// A rustls connection, on either side.
pub(super) enum Engine {
    /// Towards a client.
    WithClient(UnbufferedServerConnection),
    /// Towards a server.
    WithServer(UnbufferedClientConnection),
}

/// The methods that both rustls connections have, without a common trait in rustls.
trait RustlsConnection {
    type Data;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
    /// Whether TLS itself has a message to send.
    fn wants_to_send(&self) -> bool;
}

impl RustlsConnection for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
    fn wants_to_send(&self) -> bool {
        self.wants_write()
    }
}

impl RustlsConnection for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
    fn wants_to_send(&self) -> bool {
        self.wants_write()
    }
}

impl Engine {
    /// Returns the state that both sides have in common.
    pub(super) fn state(&self) -> &CommonState {
        match self {
            Self::WithClient(engine) => engine,
            Self::WithServer(engine) => engine,
        }
    }

    /// Decrypts complete records: appends plain text to `plain`, and messages of TLS itself to `out`. Returns the number of bytes that
    /// are processed, and whether the peer may send more.
    pub(super) fn decrypt(
        &mut self,
        incoming: &mut [u8],
        plain: &mut BytesMut,
        out: &mut BytesMut,
    ) -> (usize, Result<bool, Error>) {
        match self {
            Self::WithClient(engine) => decrypt(engine, incoming, plain, out),
            Self::WithServer(engine) => decrypt(engine, incoming, plain, out),
        }
    }

    /// Encrypts a chunk into `buf` and returns the length of the records. Messages of TLS itself that must precede them are appended
    /// to `out`.
    pub(super) fn encrypt(
        &mut self,
        incoming: &mut BytesMut,
        chunk: &[u8],
        buf: &mut [u8],
        out: &mut BytesMut,
    ) -> io::Result<usize> {
        match self {
            Self::WithClient(engine) => send(engine, incoming, out, Outgoing::Data(chunk), buf),
            Self::WithServer(engine) => send(engine, incoming, out, Outgoing::Data(chunk), buf),
        }
    }

    /// Writes close_notify into `buf` and returns its length.
    pub(super) fn close(&mut self, incoming: &mut BytesMut, buf: &mut [u8]) -> io::Result<usize> {
        let mut out = BytesMut::new();
        match self {
            Self::WithClient(engine) => send(engine, incoming, &mut out, Outgoing::Close, buf),
            Self::WithServer(engine) => send(engine, incoming, &mut out, Outgoing::Close, buf),
        }
    }
}

fn decrypt<E: RustlsConnection>(
    engine: &mut E,
    incoming: &mut [u8],
    plain: &mut BytesMut,
    out: &mut BytesMut,
) -> (usize, Result<bool, Error>) {
    let mut used = 0;
    loop {
        let rest = incoming.get_mut(used..).unwrap_or_default();
        let UnbufferedStatus { discard, state, .. } = engine.process(rest);
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
            Ok(ConnectionState::EncodeTlsData(message)) => write_encoded(message, out),
            // The message is in `out` already.
            Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                return (used, Ok(true));
            }
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => return (used, Ok(false)),
            // Early data is disabled, and there is no other state.
            Ok(_) => return (used, Err(Error::HandshakeNotComplete)),
            Err(error) => {
                let rest = incoming.get_mut(used..).unwrap_or_default();
                write_alerts(engine, rest, out);
                return (used, Err(error));
            }
        }
    }
}

/// Appends the alerts that tell the peer of an error. The connection must not be processed afterwards.
fn write_alerts<E: RustlsConnection>(engine: &mut E, incoming: &mut [u8], out: &mut BytesMut) {
    while engine.wants_to_send()
        && let Ok(ConnectionState::EncodeTlsData(message)) = engine.process(incoming).state
    {
        write_encoded(message, out);
    }
}

fn write_encoded<D>(mut message: EncodeTlsData<'_, D>, out: &mut BytesMut) {
    let start = out.len();
    // Without room, rustls returns the size that it needs.
    let Err(EncodeError::InsufficientSize(needs)) = message.encode(&mut []) else {
        return;
    };
    out.resize(start + needs.required_size, 0);
    let encoded = message.encode(out.get_mut(start..).unwrap_or_default());
    out.truncate(start + encoded.unwrap_or_default());
}

/// Content of records to send.
#[derive(Clone, Copy)]
enum Outgoing<'a> {
    Data(&'a [u8]),
    Close,
}

/// Writes the records of `outgoing` into `buf`, and messages of TLS itself that must precede them to `out`.
fn send<E: RustlsConnection>(
    engine: &mut E,
    incoming: &mut BytesMut,
    out: &mut BytesMut,
    outgoing: Outgoing<'_>,
    buf: &mut [u8],
) -> io::Result<usize> {
    loop {
        let UnbufferedStatus { discard, state, .. } = engine.process(incoming);
        let written = match state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(match outgoing {
                Outgoing::Data(chunk) => traffic.encrypt(chunk, buf),
                Outgoing::Close => traffic.queue_close_notify(buf),
            }),
            Ok(ConnectionState::EncodeTlsData(message)) => {
                write_encoded(message, out);
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
        if let Some(written) = written {
            return written.map_err(|error: EncryptError| io::Error::other(error));
        }
    }
}
