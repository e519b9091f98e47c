//! Reads blocks. It keeps what has arrived in compressed form, at most one read from the socket and one incomplete block, and
//! decompresses a block at a time: so a peer cannot make it allocate more by any content.

use super::block::{BlockError, Form, Header};
use super::codec;
use super::history::History;
use bytes::{Buf, BytesMut};

/// The reading side of a compressed connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Bytes that have arrived and are not decompressed yet.
    incoming: BytesMut,
    history: History,
}

impl Decoder {
    /// `received` has arrived behind the last byte that was not compressed.
    pub(super) fn new(received: BytesMut) -> Self {
        Self {
            incoming: received,
            history: History::default(),
        }
    }

    /// The buffer to which the caller appends what arrives.
    pub(super) fn incoming(&mut self) -> &mut BytesMut {
        &mut self.incoming
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.incoming.capacity() + self.history.capacity()
    }

    /// The header of the next block and its length, if the block is complete.
    fn next(&self) -> Result<Option<(Header, usize)>, BlockError> {
        let header = Header::read(&self.incoming)?;
        Ok(header.filter(|(header, len)| self.incoming.len() - len >= header.content_len()))
    }

    /// Whether [`Decoder::decode`] returns a block or an error now.
    pub(super) fn has_block(&self) -> bool {
        !matches!(self.next(), Ok(None))
    }

    /// Appends the content of the next block to `plain`; `Ok(false)` if none is complete. After an error, each call returns the error.
    pub(super) fn decode(&mut self, plain: &mut BytesMut) -> Result<bool, BlockError> {
        let Some((header, at)) = self.next()? else {
            return Ok(false);
        };
        let end = at + header.content_len();
        let content = self.incoming.get(at..end).unwrap_or_default();
        let start = plain.len();
        match header.form {
            Form::Stored => plain.extend_from_slice(content),
            Form::Zstd(_) => {
                plain.resize(start + header.plain_len, 0);
                let room = plain.get_mut(start..).unwrap_or_default();
                let dictionary = self.history.dictionary_of(header.plain_len);
                codec::decompress(content, dictionary, room)
                    .inspect_err(|_| plain.truncate(start))?;
            }
        }
        match header.last {
            true => self.history.clear(),
            false => self.history.push(plain.get(start..).unwrap_or_default()),
        }
        self.incoming.advance(end);
        if self.incoming.is_empty() {
            self.incoming = BytesMut::new();
        }
        Ok(true)
    }
}
