//! The packets before the first typed message: start-up, cancel, requests for encryption (chapters
//! "Start-up", "Canceling Requests in Progress", "SSL Session Encryption").

use crate::frontend::put_cstr;
use crate::reader::Reader;
use crate::{WireError, frame};
use bytes::{BufMut, BytesMut};

/// Protocol 3.0.
pub const VERSION_3_0: u32 = 3 << 16;
/// The largest start-up packet PostgreSQL takes (`MAX_STARTUP_PACKET_LENGTH`).
pub const PACKET_LEN_MAX: usize = 10_000;

/// Code, process id and secret, four bytes each.
const CANCEL_BODY_LEN: usize = 12;
const CANCEL: u32 = (1234 << 16) | 5678;
const SSL: u32 = (1234 << 16) | 5679;
const GSS: u32 = (1234 << 16) | 5680;

/// What a client says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// `SSLRequest`: answered by one byte, then comes the handshake, or the client says something else.
    Tls,
    /// `GSSENCRequest`: likewise.
    Gss,
    /// `CancelRequest`: no answer, the connection ends.
    Cancel {
        /// Process id from `BackendKeyData`.
        process: u32,
        /// Secret from `BackendKeyData`.
        secret: u32,
    },
    /// `StartupMessage`.
    Startup(Startup),
}

/// `StartupMessage`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Startup {
    /// Minor protocol version asked for (0 is what is spoken here).
    pub minor: u16,
    /// Parameters in the order sent; names as sent.
    pub parameters: Vec<(String, String)>,
}

impl Startup {
    /// The last value sent of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Protocol extensions asked for (`_pq_.…`): none is understood here.
    pub fn extensions(&self) -> Vec<String> {
        let names = self.parameters.iter().map(|(name, _)| name);
        names
            .filter(|name| name.starts_with("_pq_."))
            .cloned()
            .collect()
    }

    /// Appends the message, protocol 3.0.
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

/// Appends an `SSLRequest`: a server answers it by one byte, whatever it thinks of the client.
pub fn write_ssl_request(out: &mut BytesMut) {
    frame::write_untagged(out, |out| out.put_u32(SSL));
}

/// Reads the packet at the start of `buf` and how many bytes it takes; `None` while it is incomplete.
pub fn read(buf: &[u8]) -> Result<Option<(Packet, usize)>, WireError> {
    let Some((&word, rest)) = buf.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(word) as usize;
    if !(8..=PACKET_LEN_MAX).contains(&len) {
        return Err(WireError::Length);
    }
    let Some(body) = rest.get(..len - 4) else {
        return Ok(None);
    };
    let mut r = Reader::new(body);
    let packet = match r.u32()? {
        SSL => Packet::Tls,
        GSS => Packet::Gss,
        // One of another length names nobody.
        CANCEL if body.len() == CANCEL_BODY_LEN => Packet::Cancel {
            process: r.u32()?,
            secret: r.u32()?,
        },
        CANCEL => Packet::Cancel {
            process: 0,
            secret: 0,
        },
        version => Packet::Startup(read_startup(version, r)?),
    };
    Ok(Some((packet, len)))
}

fn read_startup(version: u32, mut r: Reader<'_>) -> Result<Startup, WireError> {
    let [a, b, c, d] = version.to_be_bytes();
    let (major, minor) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if major != 3 {
        return Err(WireError::Version { major, minor });
    }
    let mut parameters = Vec::new();
    loop {
        let name = r.str()?;
        if name.is_empty() {
            return Ok(Startup { minor, parameters });
        }
        parameters.push((name.to_owned(), r.str()?.to_owned()));
    }
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
    fn a_startup_reads_back_and_every_cut_waits_for_more() {
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
    fn other_versions_and_lengths_are_refused() {
        assert_eq!(
            read(&[0, 0, 0, 8, 0, 2, 0, 0]),
            Err(WireError::Version { major: 2, minor: 0 })
        );
        assert_eq!(read(&[0, 0, 0, 7]), Err(WireError::Length));
        assert_eq!(read(b"GET / HTTP"), Err(WireError::Length));
    }

    #[test]
    fn a_cancel_reads_back() {
        let mut out = BytesMut::new();
        write_cancel(&mut out, 7, 9);
        let cancel = Packet::Cancel {
            process: 7,
            secret: 9,
        };
        assert_eq!(read(&out), Ok(Some((cancel, 16))));
    }

    #[test]
    fn a_request_for_encryption_is_read_as_one() {
        let mut out = BytesMut::new();
        write_ssl_request(&mut out);
        assert_eq!(read(&out).unwrap(), Some((Packet::Tls, 8)));
    }
}
