//! The packets before the first typed message: start-up, cancel, requests for encryption (PostgreSQL documentation,
//! chapter "Frontend/Backend Protocol", sections "Start-up", "Canceling Requests in Progress", "SSL Session
//! Encryption", "GSSAPI Session Encryption").

use crate::error::WireError;
use crate::frame;
use crate::frontend::put_cstr;
use crate::reader::Reader;
use bytes::{BufMut, BytesMut};

/// Protocol 3.0.
pub const VERSION_3_0: u32 = 3 << 16;
/// The largest packet that PostgreSQL accepts. Its limit (`MAX_STARTUP_PACKET_LENGTH`) does not include the length
/// word.
pub const PACKET_LEN_MAX: usize = 10_000 + LENGTH_LEN;

/// Bytes of the length word.
const LENGTH_LEN: usize = 4;
/// Bytes of the protocol version or request code.
const VERSION_LEN: usize = 4;

/// Request code, process ID and secret, four bytes each.
const CANCEL_BODY_LEN: usize = 12;
const CANCEL: u32 = (1234 << 16) | 5678;
const SSL: u32 = (1234 << 16) | 5679;
const GSS: u32 = (1234 << 16) | 5680;

/// A client's first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// `SSLRequest`: the server replies with one byte; then the client starts the handshake or sends another packet.
    Tls,
    /// `GSSENCRequest`: the server replies as to `SSLRequest`.
    Gss,
    /// `CancelRequest`: the server closes the connection without a reply.
    Cancel {
        /// Process id from `BackendKeyData`.
        process: u32,
        /// Secret from `BackendKeyData`.
        secret: u32,
    },
    /// `StartupMessage`.
    Startup(Startup),
}

/// A `StartupMessage`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Startup {
    /// Requested minor protocol version; 0 is the supported one.
    pub minor: u16,
    /// Parameters in the order of the message; names are case-sensitive.
    pub parameters: Vec<(String, String)>,
}

impl Startup {
    /// The value of a parameter; the last one if the client has sent it more than once.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Requested protocol extensions (`_pq_.…`) that are not `supported`. If there are any, or [`Startup::minor`] is above 0, the server
    /// sends `NegotiateProtocolVersion` with them.
    pub fn unsupported_extensions(&self, supported: &[&str]) -> Vec<String> {
        let names = self.parameters.iter().map(|(name, _)| name);
        names
            .filter(|name| name.starts_with("_pq_.") && !supported.contains(&name.as_str()))
            .cloned()
            .collect()
    }

    /// Appends the message with protocol version 3.0.
    pub fn write(&self, out: &mut BytesMut) {
        frame::write_untagged(out, |out| {
            out.put_u32(VERSION_3_0);
            for (name, value) in &self.parameters {
                put_cstr(out, name.as_bytes());
                put_cstr(out, value.as_bytes());
            }
            out.put_u8(0);
        });
    }
}

/// Appends an `SSLRequest`; a server always replies with one byte.
pub fn write_ssl_request(out: &mut BytesMut) {
    frame::write_untagged(out, |out| out.put_u32(SSL));
}

/// The error for a request for encryption in a place where it is not valid: PostgreSQL takes its code for a protocol
/// version. `None` for other packets.
pub fn out_of_place(packet: &Packet) -> Option<WireError> {
    match packet {
        Packet::Tls => Some(version_error(SSL)),
        Packet::Gss => Some(version_error(GSS)),
        Packet::Cancel { .. } | Packet::Startup(_) => None,
    }
}

/// Reads the packet at the start of `buf` and returns it with its length; `None` if it is incomplete.
///
/// # Errors
/// The errors of PostgreSQL's `ProcessStartupPacket`, checked in its order.
pub fn read(buf: &[u8]) -> Result<Option<(Packet, usize)>, WireError> {
    let Some((&word, rest)) = buf.split_first_chunk::<LENGTH_LEN>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(word) as usize;
    if !(LENGTH_LEN + VERSION_LEN..=PACKET_LEN_MAX).contains(&len) {
        return Err(WireError::FrontendLength);
    }
    let Some(body) = rest.get(..len - LENGTH_LEN) else {
        return Ok(None);
    };
    let mut r = Reader::new(body);
    let packet = match r.u32()? {
        SSL => Packet::Tls,
        GSS => Packet::Gss,
        // A cancel request of another length identifies no client.
        CANCEL if body.len() == CANCEL_BODY_LEN => Packet::Cancel {
            process: r.u32()?,
            secret: r.u32()?,
        },
        CANCEL => Packet::Cancel {
            process: 0,
            secret: 0,
        },
        version => Packet::Startup(read_startup(version, body)?),
    };
    Ok(Some((packet, len)))
}

fn version_error(version: u32) -> WireError {
    let (major, minor) = halves(version);
    WireError::Version { major, minor }
}

fn halves(version: u32) -> (u16, u16) {
    let [a, b, c, d] = version.to_be_bytes();
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

/// Reads names and values as PostgreSQL does: a string ends at a NUL or at the end of the packet. An empty name ends
/// the list, and no bytes may follow it.
fn read_startup(version: u32, body: &[u8]) -> Result<Startup, WireError> {
    let (major, minor) = halves(version);
    if major != 3 {
        return Err(version_error(version));
    }
    let mut found = Vec::new();
    let mut at = VERSION_LEN;
    while at < body.len() {
        let name = string_at(body, at);
        let value_at = at + name.len() + 1;
        if name.is_empty() || value_at >= body.len() {
            break;
        }
        let value = string_at(body, value_at);
        at = value_at + value.len() + 1;
        found.push((name, value));
    }
    if at + 1 != body.len() {
        return Err(WireError::StartupLayout);
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
    let pair = |(name, value)| Ok((text(name)?, text(value)?));
    let parameters = found.into_iter().map(pair);
    let parameters: Result<_, std::string::FromUtf8Error> = parameters.collect();
    let parameters = parameters.map_err(|_| WireError::StartupEncoding)?;
    Ok(Startup { minor, parameters })
}

/// The string that begins at `at`, without its terminator.
fn string_at(body: &[u8], at: usize) -> &[u8] {
    let rest = body.get(at..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0);
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}

/// Appends a `CancelRequest`.
pub fn write_cancel(out: &mut BytesMut, process: u32, secret: u32) {
    frame::write_untagged(out, |out| {
        out.put_u32(CANCEL);
        out.put_u32(process);
        out.put_u32(secret);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_startup_is_read_and_each_truncation_is_incomplete() {
        let startup = Startup {
            minor: 0,
            parameters: vec![("user".into(), "u".into()), ("database".into(), "d".into())],
        };
        let mut out = BytesMut::new();
        startup.write(&mut out);
        assert_eq!(read(&out), Ok(Some((Packet::Startup(startup), out.len()))));
        for len in 0..out.len() {
            assert_eq!(read(&out[..len]), Ok(None));
        }
    }

    #[test]
    fn other_versions_and_lengths_are_rejected() {
        assert_eq!(
            read(&[0, 0, 0, 8, 0, 2, 0, 0]),
            Err(WireError::Version { major: 2, minor: 0 })
        );
        for bytes in [&[0, 0, 0, 7], b"GET ", b"X\0\0\0", &[0, 0, 0x27, 0x15]] {
            assert_eq!(read(bytes), Err(WireError::FrontendLength), "{bytes:?}");
        }
        assert_eq!(read(&[0, 0, 0x27, 0x14]), Ok(None), "10,004");
    }

    fn version_3(body: &[u8]) -> Result<Vec<(String, String)>, WireError> {
        let mut out = BytesMut::new();
        frame::write_untagged(&mut out, |out| {
            out.put_u32(VERSION_3_0);
            out.put_slice(body);
        });
        match read(&out)? {
            Some((Packet::Startup(startup), _)) => Ok(startup.parameters),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_byte_must_be_the_terminator() {
        for wrong in [
            &b""[..],
            b"user\0me\0",
            b"user\0me",
            b"user\0",
            b"user\0me\0\0more\0",
            b"\0\0",
            b"user\0me\0database\0\0",
        ] {
            assert_eq!(version_3(wrong), Err(WireError::StartupLayout), "{wrong:?}");
        }
        // If a name has no value, PostgreSQL takes the last byte for the terminator, whatever it is.
        assert_eq!(version_3(b"x"), Ok(Vec::new()));
        let empty = vec![("user".to_owned(), String::new())];
        assert_eq!(version_3(b"user\0\0\0"), Ok(empty));
        assert_eq!(version_3(b"\xff\0x\0\0"), Err(WireError::StartupEncoding));
    }

    #[test]
    fn a_cancel_request_is_read_with_the_same_values() {
        let mut out = BytesMut::new();
        write_cancel(&mut out, 7, 9);
        let cancel = Packet::Cancel {
            process: 7,
            secret: 9,
        };
        assert_eq!(read(&out), Ok(Some((cancel, 16))));
    }

    #[test]
    fn a_request_for_encryption_is_read() {
        let mut out = BytesMut::new();
        write_ssl_request(&mut out);
        assert_eq!(read(&out).unwrap(), Some((Packet::Tls, 8)));
    }
}
