//! Buffers that one relay on a server connection leaves to the next. A client owns none: idle clients are many.

use bytes::BytesMut;

/// Maximum capacity of a buffer that is kept, in bytes. Larger ones are rare.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Empty buffers of a server connection, for the next relay.
#[derive(Debug, Default)]
pub struct RelayBuffers {
    to_server: BytesMut,
    to_client: BytesMut,
}

impl RelayBuffers {
    /// Takes the buffer for messages to the server.
    pub fn take_to_server(&mut self) -> BytesMut {
        std::mem::take(&mut self.to_server)
    }

    /// Takes the buffer for messages to the client.
    pub fn take_to_client(&mut self) -> BytesMut {
        std::mem::take(&mut self.to_client)
    }

    /// Keeps the buffers of a relay that has ended, if they are empty and not too large.
    pub fn keep(&mut self, to_server: BytesMut, mut to_client: BytesMut) {
        self.keep_to_server(to_server);
        if is_kept(&mut to_client) {
            self.to_client = to_client;
        }
    }

    /// The same, of the buffer for messages to the server.
    pub fn keep_to_server(&mut self, mut to_server: BytesMut) {
        if is_kept(&mut to_server) {
            self.to_server = to_server;
        }
    }
}

fn is_kept(buffer: &mut BytesMut) -> bool {
    // The capacity of a buffer that was written out is what remained behind the last byte.
    buffer.is_empty() && !buffer.try_reclaim(KEPT_BYTES_MAX + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

    #[test]
    fn only_small_empty_buffers_are_kept() {
        let mut buffers = RelayBuffers::default();
        buffers.keep(BytesMut::with_capacity(100), BytesMut::from("unsent"));
        assert!(buffers.take_to_server().capacity() >= 100);
        assert_eq!(buffers.take_to_client().capacity(), 0);
        let large = BytesMut::with_capacity(KEPT_BYTES_MAX + 1);
        let mut written = BytesMut::from(&[0; KEPT_BYTES_MAX + 1][..]);
        written.advance(KEPT_BYTES_MAX + 1);
        buffers.keep(large, written);
        assert_eq!(buffers.take_to_server().capacity(), 0);
        assert_eq!(buffers.take_to_client().capacity(), 0);
    }
}
