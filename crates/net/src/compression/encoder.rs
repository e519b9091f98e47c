//! Divides what is written into blocks.
//!
//! A block holds bytes of one exchange, and the next exchange begins without a dictionary. Short exchanges that follow one another are
//! stored, uncompressed, in one block.

use super::block::{BLOCK_BYTES_MAX, COMPRESSED_HEADER_LEN, Form, Header};
use super::codec;
use super::history::History;
use super::pace::Effort;
use std::fmt;

/// Fewer bytes are not compressed: it would save little.
pub(super) const COMPRESSED_BYTES_MIN: usize = 200;

/// Minimum number of bytes by which a compressed block must be shorter.
const SAVED_BYTES_MIN: usize = 20;

/// Finds the first end of an exchange in what is written next: returns its distance in bytes, `None` if these bytes contain no end.
/// The next call gets the bytes behind that end, or behind all of these.
pub type FindEnd = Box<dyn FnMut(&[u8]) -> Option<usize> + Send>;

/// The bytes that the dictionary of a block may contain.
pub(super) enum Window {
    /// Bytes of the same exchange.
    Exchange(FindEnd),
    /// Bytes of earlier exchanges, too.
    Connection,
}

impl fmt::Debug for Window {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Exchange(_) => "Exchange",
            Self::Connection => "Connection",
        })
    }
}

/// The writing side of a compressed connection.
#[derive(Debug)]
pub(super) struct Encoder {
    window: Window,
    history: History,
}

impl Encoder {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            history: History::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.history.capacity()
    }

    /// Appends blocks with all of `plain`, which has at most [`BLOCK_BYTES_MAX`] bytes, to `out`.
    pub(super) fn encode(&mut self, plain: &[u8], effort: Effort, out: &mut Vec<u8>) {
        debug_assert!(plain.len() <= BLOCK_BYTES_MAX);
        // `short` begins with exchanges that have ended and are not in a block yet; `rest` follows them.
        let (mut short, mut rest) = (plain, plain);
        while !rest.is_empty() {
            let end = self.next_end(rest);
            let (exchange, behind) = rest.split_at(end.unwrap_or(rest.len()));
            if end.is_none() || exchange.len() >= COMPRESSED_BYTES_MIN {
                let (ended, _) = short.split_at(short.len() - rest.len());
                self.store(ended, true, out);
                self.write(exchange, end.is_some(), effort, out);
                short = behind;
            }
            rest = behind;
        }
        self.store(short, true, out);
    }

    fn next_end(&mut self, plain: &[u8]) -> Option<usize> {
        match &mut self.window {
            Window::Exchange(find_end) => find_end(plain),
            Window::Connection => None,
        }
    }

    /// Appends a block, compressed if that makes it shorter.
    fn write(&mut self, plain: &[u8], last: bool, effort: Effort, out: &mut Vec<u8>) {
        let is_compressed = match effort {
            Effort::Level(level) => self.compress(plain, last, level, out),
            Effort::Store => false,
        };
        match is_compressed {
            true => self.remember(plain, last),
            false => self.store(plain, last, out),
        }
    }

    /// Appends a compressed block. Returns false, and appends nothing, if that would save little.
    fn compress(&self, plain: &[u8], last: bool, level: i32, out: &mut Vec<u8>) -> bool {
        if plain.len() < COMPRESSED_BYTES_MIN {
            return false;
        }
        let start = out.len();
        let content = start + COMPRESSED_HEADER_LEN;
        out.resize(content + plain.len() - SAVED_BYTES_MIN, 0);
        let room = out.get_mut(content..).unwrap_or_default();
        let compressed =
            codec::compress(plain, self.history.dictionary_of(plain.len()), level, room);
        let Some(len) = compressed else {
            out.truncate(start);
            return false;
        };
        out.truncate(content + len);
        let header = Header {
            form: Form::Zstd(len),
            plain_len: plain.len(),
            last,
        };
        let (header, _) = header.bytes();
        let place = out.iter_mut().skip(start);
        place.zip(header).for_each(|(place, byte)| *place = byte);
        true
    }

    /// Appends a block that is not compressed, unless `plain` is empty.
    fn store(&mut self, plain: &[u8], last: bool, out: &mut Vec<u8>) {
        if plain.is_empty() {
            return;
        }
        let header = Header {
            form: Form::Stored,
            plain_len: plain.len(),
            last,
        };
        let (bytes, len) = header.bytes();
        out.extend(bytes.into_iter().take(len));
        out.extend_from_slice(plain);
        self.remember(plain, last);
    }

    fn remember(&mut self, plain: &[u8], last: bool) {
        match last {
            true => self.history.clear(),
            false => self.history.push(plain),
        }
    }
}
