//! State of a row that requests wait for: whether a request on it is in flight, and how the next one leaves the line.
//!
//! A group waits for a row lock in PostgreSQL for at most [`WAIT_UNCHECKED_MAX`](super::WAIT_UNCHECKED_MAX). If it does not get
//! the lock, it has no effect, its members return to the line, and the row is *contended*: a server connection waits for the lock
//! while the requests stay in the line, where they can be withdrawn, cancelled and time out. When PostgreSQL grants the lock, the
//! requests that are in the line then leave with that connection. If no separate statement can request the lock, or that does not
//! help, the first request leaves alone and waits in PostgreSQL, as it does without Paceline.

use super::row_state::LockOutcome;
use super::{GroupId, Line, LineKey, LineKeys, NextStep, WaitEntry, WaitSpec, WaiterId};
use std::time::Instant;

impl<T> Line<T> {
    /// Marks a row as in flight.
    pub(super) fn begin_flight(&mut self, now: Instant, key: LineKey) {
        let row = self.rows.entry(key).or_default();
        row.in_flight = true;
        row.since.get_or_insert(now);
        row.busy_since.get_or_insert(now);
        self.check_later(key);
    }

    /// Ends the flight of a row. The next request that waits for it may leave.
    pub fn release_rows(&mut self, now: Instant, key: LineKey, outcome: LockOutcome) {
        let Some(row) = self.rows.get_mut(&key) else {
            return;
        };
        row.release_rows(outcome);
        if outcome == LockOutcome::Blocked {
            self.probe_row(now, key);
            self.check_later(key);
        }
        self.promote(now, key);
    }

    /// Starts the wait for the lock of a request's row. The request stays in the line.
    pub(super) fn wait_for_lock(&mut self, now: Instant, waiter: WaiterId) -> Option<NextStep<T>> {
        self.unready(waiter);
        let entry = self.waiting.get_mut(&waiter)?;
        entry.begins(now);
        let LineKeys::One(key) = entry.spec.keys else {
            return None;
        };
        self.note_deadline(waiter);
        self.begin_flight(now, key);
        Some(NextStep::Lock(waiter))
    }

    /// PostgreSQL has granted the lock that was requested for `first`: takes the requests at the head of the row's queue that may
    /// share a group with `first`. Returns an empty list if there are none.
    pub fn take_locked(
        &mut self,
        now: Instant,
        key: LineKey,
        first: &WaitSpec,
    ) -> Vec<WaitEntry<T>> {
        let mut entries = Vec::new();
        if let Some(front) = self.first_on(key)
            && let Some(group) = first.group
        {
            let same = |id: GroupId| group.meets(id, key);
            let most = self.group_size_max(front, Some(group));
            let barrier = self.barriers(front, Some(group), most).behind(front);
            self.take_followers(now, key, &same, (most, barrier), &mut entries);
        }
        entries
    }

    /// Whether a request waits for the row.
    pub fn is_awaited(&mut self, key: LineKey) -> bool {
        self.first_on(key).is_some()
    }

    /// The request at the head of the row's queue.
    pub(super) fn first_on(&mut self, key: LineKey) -> Option<WaiterId> {
        let row = self.rows.get_mut(&key)?;
        while let Some(front) = row.queue.front() {
            if self.waiting.contains_key(front) {
                return Some(*front);
            }
            row.queue.pop_front();
        }
        None
    }
}
