//! What waits in the line, and what leaves it.

use super::spec::WaitSpec;
use std::time::{Duration, Instant};

/// Place in the order of arrival; also names a waiting unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) u64);

/// A unit in the line or on its way.
#[derive(Debug)]
pub struct WaitEntry<T> {
    /// Its place.
    pub waiter: WaiterId,
    /// What the line knows of it.
    pub spec: WaitSpec,
    /// When it came.
    pub arrived: Instant,
    /// The unit.
    pub request: T,
    pub(super) timeout_starts: TimeoutStarts,
    /// It is among those whose time is up then.
    pub(super) deadline: Option<Instant>,
    /// When it was asked about last.
    pub(super) probed: Option<Instant>,
}

/// Those who leave together: one entry travels as it is, several by the strategy of their group.
#[derive(Debug)]
pub struct Dispatch<T> {
    /// In order of arrival; never empty.
    pub entries: Vec<WaitEntry<T>>,
}

/// What a free server connection does next.
#[derive(Debug)]
pub enum NextStep<T> {
    /// Carries out these requests. Their rows are in flight until [`Line::release_rows`].
    Group(Dispatch<T>),
    /// Probes these requests, which stay in the line.
    Probe(Vec<WaiterId>),
    /// Waits for the row lock of this request, which stays in the line. The row is in flight until [`Line::release_rows`].
    Lock(WaiterId),
}

/// Limits of a line.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most units in a group; of units on several rows, so many that they have as many rows.
    pub group_size_max: usize,
    /// Most units in a pipeline: a few, because each waits for those in front of it.
    pub pipeline_depth_max: usize,
    /// How long a unit that could leave with others waits for them (`hotspot_update_max_wait_time`).
    pub max_wait: Duration,
    /// Longest wait for a row (`query_timeout`); zero: for ever.
    pub query_timeout: Duration,
}

/// Start of a request's time-outs, or an earlier time: [`Line::time_out`] corrects it when a time-out seems to have expired, by
/// when the row was in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeoutStarts {
    /// PostgreSQL alone would have started the statement.
    pub(super) begun: Option<Instant>,
    /// `begun` needs no correction.
    pub(super) has_begun: bool,
    /// The wait for the row began.
    pub(super) blocked: Option<Instant>,
}

impl TimeoutStarts {
    /// `busy` is the start of the flights of the row that the request waits for, if one is in flight.
    pub(super) fn correct(&mut self, now: Instant, busy: Option<Instant>) {
        let since = busy.unwrap_or(now);
        self.blocked = self.blocked.map(|blocked| blocked.max(since));
        if !self.has_begun {
            self.begun = self.begun.map(|begun| begun.max(since));
            self.has_begun = busy.is_some();
        }
    }
}
