//! A group in flight.

use super::outcome::{Invalidation, MemberResult};
use paceline_relay::request::PartialAnswer;
use paceline_relay::server::ServerSide;
use paceline_wire::Frame;
use std::fmt::Debug;

/// Whether the server sends more messages to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchProgress {
    /// The answer is not complete.
    InFlight,
    /// The answer is complete: the batch must get no further message.
    Complete,
}

impl BatchProgress {
    pub(super) fn complete_if(complete: bool) -> Self {
        match complete {
            true => Self::Complete,
            false => Self::InFlight,
        }
    }

    /// Whether the answer is complete.
    pub fn is_complete(self) -> bool {
        self == Self::Complete
    }
}

/// A group whose messages are written, until its answer is complete.
pub trait Batch: Debug + Send + Sync {
    /// Reads a message from the server, other than `ParameterStatus`, and appends the results that are known because of it.
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> BatchProgress;

    /// The part of the analysis of the members' templates that the answer has shown to be wrong.
    fn invalidation(&self) -> Option<Invalidation> {
        None
    }

    /// Whether an error has undone the whole batch.
    fn failed(&self) -> bool {
        false
    }

    /// Whether the definition of a table on the shard has changed, so that the batch has done nothing.
    fn has_changed(&self) -> bool {
        false
    }

    /// Number of row versions that the group's one statement has written; 0 if the members' own statements ran.
    fn rows_written(&self) -> u64 {
        0
    }

    /// Number of bytes of answers that wait for their end.
    fn buffered_len(&self) -> usize {
        0
    }

    /// Whether members may draw numbers from sequences, be it by defaults or triggers.
    fn may_use_sequences(&self) -> bool {
        true
    }

    /// Gives up the members of a pipeline that have no answer yet, so that they can leave on other connections. `None` for other
    /// strategies.
    fn abandon(&mut self) -> Option<Vec<MemberResult>> {
        None
    }

    /// Hands a shared answer over to one member, which relays the rest (see [`share`](super::share)). `rest` holds the bytes that
    /// the server has sent and this batch has not received.
    fn hand_over(&mut self, _rest: &[u8]) -> Option<PartialAnswer> {
        None
    }
}
