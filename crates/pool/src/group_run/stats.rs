//! Counts the members of a group in the statistics of their pool: each is the query and the transaction that it would have been alone, and
//! took as long as the group until it was answered. Members that are answered together are counted together.

use crate::stats::{PreparedCounts, Stats, state_of};
use paceline_batch::strategy::{MemberOutcome, MemberResult, Strategy};
use paceline_relay::commits::{CommitCounts, Writes};
use paceline_relay::request::{Request, RequestForm};
use std::time::Duration;

/// Members that are answered together.
#[derive(Debug, Default)]
pub(super) struct RunStats {
    requests: u64,
    received: u64,
    sent: u64,
    prepared: PreparedCounts,
}

impl RunStats {
    /// Adds a member and its answer.
    pub(super) fn add(&mut self, request: &Request, answer: &[u8], stats: &Stats) {
        self.requests += 1;
        self.received += request.bytes.len() as u64;
        self.sent += answer.len() as u64;
        if request.form != RequestForm::Simple {
            request.frames().for_each(|frame| self.prepared.note(frame));
        }
        if let Some(state) = state_of(answer) {
            stats.failed(state);
        }
    }

    /// Counts the members, which took `each`.
    pub(super) fn count(self, each: Duration, stats: &Stats) {
        if self.requests > 0 {
            stats.served_single(self.requests, each);
            stats.moved(self.received, self.sent);
            stats.prepared(self.prepared);
        }
    }
}

/// The commits of members of a group of writes; `None`: of a statement alone.
pub(super) fn commits(results: &[MemberResult], strategy: Option<Strategy>) -> CommitCounts {
    let exact = strategy.is_some_and(Strategy::rewrites);
    let mut commits = CommitCounts::default();
    for result in results {
        if let MemberOutcome::Answer(answer) = &result.outcome {
            commits += Writes::of_answer(answer, exact);
        }
    }
    commits
}
