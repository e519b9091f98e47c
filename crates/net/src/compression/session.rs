//! One compressed connection: compresses what it writes to the transport, decompresses what it reads there.
//!
//! As in a TLS session, a write takes bytes from its caller only when the transport has accepted their blocks. Unlike there, a read may
//! leave blocks for the next one, because a small block may be long when it is decompressed: [`CompressionSession::has_block`].

use super::block::BLOCK_BYTES_MAX;
use super::compressor::Compressor;
use super::decoder::Decoder;
use super::encoder::{COMPRESSED_BYTES_MIN, Encoder, FindEnd, Window};
use super::pace::Effort;
use crate::transport::Transport;
use bytes::{Buf, BytesMut};
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After this many bytes, a read decompresses no further block.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// All connections of a thread compress into one buffer.
    static COMPRESSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The state of a compressed connection.
#[derive(Debug)]
pub(crate) struct CompressionSession {
    compressor: Arc<Compressor>,
    encoder: Encoder,
    decoder: Decoder,
    /// Blocks that the transport has not accepted.
    outgoing: BytesMut,
    /// Number of bytes at the front of the writer's buffer that are in `outgoing`. They leave the writer's buffer when the transport has
    /// accepted them.
    partial: usize,
    /// Whether the peer has sent something else than blocks.
    failed: bool,
}

impl CompressionSession {
    /// `received` has arrived already. `find_end` finds the ends of exchanges in what is written.
    pub(crate) fn new(compressor: Arc<Compressor>, find_end: FindEnd, received: BytesMut) -> Self {
        let window = match compressor.settings().shared_window {
            true => Window::Connection,
            false => Window::Exchange(find_end),
        };
        compressor.count_received(0, received.len());
        Self {
            compressor,
            encoder: Encoder::new(window),
            decoder: Decoder::new(received),
            outgoing: BytesMut::new(),
            partial: 0,
            failed: false,
        }
    }

    /// Whether a read returns bytes or an error although the transport has none.
    pub(crate) fn has_block(&self) -> bool {
        self.decoder.has_block()
    }

    /// Appends bytes that have arrived, at most about 128 KiB; `Ok(false)` if there are none. Reads from the transport, once, only if
    /// no block is left from the last read.
    ///
    /// # Errors
    /// The transport's, or [`io::ErrorKind::InvalidData`] if the peer has sent something else than blocks.
    pub(crate) fn read(
        &mut self,
        transport: &Transport,
        scratch: &mut [u8],
        plain: &mut BytesMut,
    ) -> io::Result<bool> {
        if !self.decoder.has_block() {
            let incoming = self.decoder.incoming();
            let before = incoming.len();
            if !transport.read_now(scratch, incoming)? {
                return Ok(false);
            }
            let arrived = incoming.len() - before;
            self.compressor.count_received(0, arrived);
        }
        let start = plain.len();
        while plain.len() - start < READ_BYTES {
            match self.decoder.decode(plain) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    if !std::mem::replace(&mut self.failed, true) {
                        let peer = transport.peer();
                        tracing::warn!(%peer, %error, "compressed data cannot be read; the connection is closed");
                    }
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        self.compressor.count_received(plain.len() - start, 0);
        Ok(plain.len() > start)
    }

    /// Writes from the front of `plain` as much as the transport accepts now. The next write must begin with the rest: part of it may be
    /// compressed already.
    pub(crate) fn write(&mut self, transport: &Transport, plain: &mut impl Buf) -> io::Result<()> {
        if plain.remaining() < self.partial {
            return Err(io::Error::other("part of another message is not sent yet"));
        }
        while self.flush(transport)? {
            plain.advance(std::mem::take(&mut self.partial));
            if !plain.has_remaining() {
                return Ok(());
            }
            let chunk = plain.chunk();
            let chunk = chunk.get(..BLOCK_BYTES_MAX).unwrap_or(chunk);
            COMPRESSED.with_borrow_mut(|blocks| {
                blocks.clear();
                self.compress(chunk, blocks);
                self.send(transport, blocks)
            })?;
            self.partial = chunk.len();
        }
        Ok(())
    }

    /// Appends the blocks of a chunk to `blocks`.
    fn compress(&mut self, chunk: &[u8], blocks: &mut Vec<u8>) {
        if chunk.len() < COMPRESSED_BYTES_MIN {
            // Nothing is compressed, so that nothing has to be measured.
            self.encoder.encode(chunk, Effort::Store, blocks);
        } else {
            let effort = self.compressor.effort(Instant::now());
            let start = processor_time();
            self.encoder.encode(chunk, effort, blocks);
            let time = processor_time().saturating_sub(start);
            self.compressor.wrote(time, chunk.len());
        }
        self.compressor.count_sent(chunk.len(), blocks.len());
    }

    /// Writes blocks as far as the transport accepts them; the session keeps the rest.
    fn send(&mut self, transport: &Transport, mut blocks: &[u8]) -> io::Result<()> {
        transport.write_now(&mut blocks)?;
        self.outgoing.extend_from_slice(blocks);
        Ok(())
    }

    /// Writes blocks that an earlier write has left; returns whether none is left.
    fn flush(&mut self, transport: &Transport) -> io::Result<bool> {
        if self.outgoing.is_empty() {
            return Ok(true);
        }
        transport.write_now(&mut self.outgoing)?;
        let all = self.outgoing.is_empty();
        if all {
            self.outgoing = BytesMut::new();
        }
        Ok(all)
    }
}

/// The processor time of this thread. Unlike the time of day, it does not count the time of others.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

#[cfg(test)]
mod tests;
