//! What the members of a trip add to their pool's statistics: each is the query and the transaction that it would have been
//! alone, and took as long as the trip until it was answered. Added up for all who are answered together.

use crate::stats::{Prepared, Stats, state_of};
use paceline_relay::request::{Request, RequestForm};
use std::time::Instant;

/// Members that are answered together.
#[derive(Debug, Default)]
pub(super) struct Fares {
    units: u64,
    received: u64,
    sent: u64,
    prepared: Prepared,
}

impl Fares {
    /// A member is answered.
    pub(super) fn take(&mut self, unit: &Request, answer: &[u8], stats: &Stats) {
        self.units += 1;
        self.received += unit.bytes.len() as u64;
        self.sent += answer.len() as u64;
        if unit.form != RequestForm::Simple {
            unit.frames().for_each(|frame| self.prepared.note(frame));
        }
        if let Some(state) = state_of(answer) {
            stats.failed(state);
        }
    }

    /// Counts them. They have been under way since then.
    pub(super) fn count(self, since: Instant, stats: &Stats) {
        if self.units > 0 {
            stats.served_single(self.units, since.elapsed());
            stats.moved(self.received, self.sent);
            stats.prepared(self.prepared);
        }
    }
}
