//! Framing: a type byte, a length word that includes itself, a body (PostgreSQL documentation, section "Message
//! Formats").

use crate::error::WireError;
use bytes::{BufMut, Bytes, BytesMut};

/// Bytes of the type and the length in front of a body.
pub const HEADER_LEN: usize = 5;

/// Largest message accepted from a peer. It is PostgreSQL's limit (1 GiB, `PQ_LARGE_MESSAGE_LIMIT`).
pub const MESSAGE_LEN_MAX: usize = 0x3fff_ffff;

/// The type and the length of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The message type.
    pub tag: u8,
    /// Bytes of the whole message, header included.
    pub len: usize,
}

impl Header {
    /// Reads the header at the start of `buf`; `None` if fewer than [`HEADER_LEN`] bytes are available.
    ///
    /// # Errors
    /// [`WireError::Length`] if the length word is below 4 or above [`MESSAGE_LEN_MAX`].
    pub fn read(buf: &[u8]) -> Result<Option<Self>, WireError> {
        let Some((&[tag, a, b, c, d], _)) = buf.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(4..=MESSAGE_LEN_MAX).contains(&len) {
            return Err(WireError::Length);
        }
        Ok(Some(Self { tag, len: len + 1 }))
    }
}

/// A complete message as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The message type.
    pub tag: u8,
    /// The message, header included.
    pub bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The bytes after the header.
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }
}

/// Iterates over the complete messages at the start of a slice; stops before an incomplete one.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Iterates over the messages in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next complete message; `None` if the rest does not contain one.
    ///
    /// # Errors
    /// [`WireError::Length`], see [`Header::read`].
    pub fn next_frame(&mut self) -> Result<Option<Frame<'a>>, WireError> {
        let Some(header) = Header::read(self.rest)? else {
            return Ok(None);
        };
        let Some((bytes, rest)) = self.rest.split_at_checked(header.len) else {
            return Ok(None);
        };
        self.rest = rest;
        Ok(Some(Frame {
            tag: header.tag,
            bytes,
        }))
    }

    /// The bytes that were not returned.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    /// Like [`Frames::next_frame`], for bytes whose framing the caller has checked.
    fn next(&mut self) -> Option<Frame<'a>> {
        self.next_frame().ok().flatten()
    }
}

/// Appends a message; `body` appends its body.
pub fn write(out: &mut BytesMut, tag: u8, body: impl FnOnce(&mut BytesMut)) {
    out.put_u8(tag);
    write_untagged(out, body);
}

/// Appends a message without a type byte (start-up packets).
pub fn write_untagged(out: &mut BytesMut, body: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    body(out);
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(word) = out.get_mut(start..start + 4) {
        word.copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends a message without a body.
pub fn write_empty(out: &mut BytesMut, tag: u8) {
    out.put_slice(&[tag, 0, 0, 0, 4]);
}

/// Splits the first complete message off `buf`: its type and its bytes.
///
/// # Errors
/// [`WireError::Length`], see [`Header::read`].
pub fn split_message(buf: &mut BytesMut) -> Result<Option<(u8, Bytes)>, WireError> {
    match Header::read(buf)? {
        Some(header) if buf.len() >= header.len => {
            Ok(Some((header.tag, buf.split_to(header.len).freeze())))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_stop_before_an_incomplete_message() {
        let mut out = BytesMut::new();
        write(&mut out, b'Q', |b| b.put_slice(b"select 1\0"));
        write_empty(&mut out, b'S');
        out.put_slice(b"Q\0\0");
        let mut frames = Frames::new(&out);
        assert_eq!(
            frames.next().map(|f| (f.tag, f.body())),
            Some((b'Q', &b"select 1\0"[..]))
        );
        assert_eq!(frames.next().map(|f| f.tag), Some(b'S'));
        assert_eq!(frames.next_frame(), Ok(None));
        assert_eq!(frames.rest(), b"Q\0\0");
    }

    #[test]
    fn a_length_below_its_own_size_is_an_error() {
        assert_eq!(Header::read(b"Q\0\0\0\x03"), Err(WireError::Length));
        assert_eq!(Header::read(b"Q\xff\xff\xff\xff"), Err(WireError::Length));
        assert_eq!(Header::read(b"Q\0\0\0"), Ok(None));
    }
}
