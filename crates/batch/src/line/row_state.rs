//! Rows that requests in the line or in flight change.

use super::entry::WaiterId;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Longest time that a request waits for a row before a probe checks whether it would wait alone: for the lock as a member of a
/// group, and in the line behind a request in flight.
pub const WAIT_UNCHECKED_MAX: Duration = Duration::from_millis(paceline_sql::UNCHECKED_WAIT_MS);

/// A row that requests in the line or in flight change.
#[derive(Debug, Default)]
pub(super) struct RowState {
    /// A request on this row is in flight, or a server connection waits for its lock.
    pub(super) in_flight: bool,
    /// Start of that flight; after attempts that did not get the lock, start of the first one.
    pub(super) since: Option<Instant>,
    /// Start of the first flight since the row was last unused.
    pub(super) busy_since: Option<Instant>,
    /// A check is scheduled for when its requests will have waited for [`WAIT_UNCHECKED_MAX`].
    pub(super) is_checked: bool,
    /// The way in which the next request leaves the line.
    pub(super) contention: Contention,
    /// Waiting requests in order of arrival; may name requests that were withdrawn.
    pub(super) queue: VecDeque<WaiterId>,
    /// Number of waiting requests that also wait for other rows.
    pub(super) multi_row: usize,
}

/// The way in which the next request on a row leaves the line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contention {
    /// With its group.
    #[default]
    None,
    /// With its group, after a server connection has got the row lock.
    Lock,
    /// Alone.
    Alone,
}

/// The end of a flight of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    /// The lock was granted at once, or not needed.
    Free,
    /// The lock was granted after a wait.
    Contended,
    /// The lock was not granted.
    Blocked,
}

impl RowState {
    /// Its flight, or its attempts to get the lock, have lasted for `limit` or longer.
    pub(super) fn has_kept_waiting(&self, now: Instant, limit: Duration) -> bool {
        self.since
            .is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    /// Adds a request at its place in the order of arrival. Requests in front of it may have overtaken it on this row while it did
    /// not wait for the row.
    pub(super) fn enqueue(&mut self, waiter: WaiterId) {
        let place = self.queue.partition_point(|other| *other < waiter);
        self.queue.insert(place, waiter);
    }

    pub(super) fn is_contended(&self) -> bool {
        self.contention != Contention::None
    }

    pub(super) fn release_rows(&mut self, outcome: LockOutcome) {
        self.in_flight = false;
        self.contention = match outcome {
            LockOutcome::Free => Contention::None,
            LockOutcome::Contended => Contention::Lock,
            LockOutcome::Blocked if self.contention == Contention::None => Contention::Lock,
            LockOutcome::Blocked => Contention::Alone,
        };
        if outcome != LockOutcome::Blocked {
            self.since = None;
        }
    }
}
