//! Messages on their way from a relay to the client.

use bytes::BytesMut;
use paceline_pool::result_memory::ResultReservation;

/// Messages that the client's socket has not taken yet.
pub(super) struct ClientOutput {
    pub(super) bytes: BytesMut,
    /// Number of bytes that were dropped because the client has left.
    pub(super) dropped: usize,
    /// The memory of a shared answer whose beginning is in `bytes`.
    memory: Option<ResultReservation>,
}

impl ClientOutput {
    /// Without messages.
    pub(super) fn new(empty: BytesMut) -> Self {
        Self {
            bytes: empty,
            dropped: 0,
            memory: None,
        }
    }

    /// For a relay that begins with a part of a shared answer.
    pub(super) fn of_shared(answer: BytesMut, memory: ResultReservation) -> Self {
        Self {
            bytes: answer,
            dropped: 0,
            memory: Some(memory),
        }
    }

    /// Drops messages for a client that has left.
    pub(super) fn drop_messages(&mut self) {
        self.dropped += self.bytes.len();
        self.bytes.clear();
    }

    /// Releases the memory of a shared answer after the client has it. Other buffers are reused.
    pub(super) fn release_shared(&mut self) {
        if self.bytes.is_empty() && self.memory.take().is_some() {
            self.bytes = BytesMut::new();
        }
    }
}
