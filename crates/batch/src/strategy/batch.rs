//! A group in flight.

use super::outcome::{Invalidation, MemberResult};
use paceline_relay::request::Underway;
use paceline_relay::server::ServerSide;
use paceline_wire::Frame;
use std::fmt::Debug;

/// A group whose messages were written, up to the end of its answer.
pub trait Batch: Debug + Send + Sync {
    /// Takes a message from the server; results that it settles are appended to `dealt`. True: the batch is over.
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool;

    /// What no longer holds of the members' templates.
    fn invalidation(&self) -> Option<Invalidation> {
        None
    }

    /// The server has refused the batch as a whole.
    fn failed(&self) -> bool {
        false
    }

    /// Row versions that the group's one statement has written; 0 if each member's own statement ran.
    fn rows_written(&self) -> u64 {
        0
    }

    /// Bytes of answers that are kept.
    fn buffered_len(&self) -> usize {
        0
    }

    /// Its members may draw numbers of sequences, by defaults or triggers if not by their texts.
    fn may_use_sequences(&self) -> bool {
        true
    }

    /// Members of a pipeline that are not answered yet, if this is one; they may go elsewhere.
    fn abandon(&mut self) -> Option<Vec<MemberResult>> {
        None
    }

    /// Gives a shared answer up to one member (see [`share`](super::share)). `rest` is what has come and was not received.
    fn hand_over(&mut self, _rest: &[u8]) -> Option<Underway> {
        None
    }
}
