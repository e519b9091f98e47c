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
    pub fn keep(&mut self, to_server: BytesMut, to_client: BytesMut) {
        let is_kept = |buffer: &BytesMut| buffer.is_empty() && buffer.capacity() <= KEPT_BYTES_MAX;
        if is_kept(&to_server) {
            self.to_server = to_server;
        }
        if is_kept(&to_client) {
            self.to_client = to_client;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_empty_buffers_are_kept() {
        let mut buffers = RelayBuffers::default();
        buffers.keep(BytesMut::with_capacity(100), BytesMut::from("unsent"));
        assert!(buffers.take_to_server().capacity() >= 100);
        assert_eq!(buffers.take_to_client().capacity(), 0);
        let large = || BytesMut::with_capacity(KEPT_BYTES_MAX + 1);
        buffers.keep(large(), large());
        assert_eq!(buffers.take_to_server().capacity(), 0);
        assert_eq!(buffers.take_to_client().capacity(), 0);
    }
}
