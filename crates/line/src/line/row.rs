//! State of a row that requests wait for: whether a request on it is in flight, and how the next one leaves the line.
//!
//! A group waits for a row lock in PostgreSQL for at most [`WAIT_UNCHECKED_MAX`]. If it does not get the lock, it has done
//! nothing, its members return to the line, and the row is *contended*: a server connection waits for the lock while the requests
//! stay in the line, where they can be withdrawn, cancelled and time out. When PostgreSQL grants the lock, the requests that are
//! in the line then leave with that connection. If the lock cannot be waited for separately, or that does not help, the first
//! request leaves alone and waits in PostgreSQL, as it does without Paceline.

use super::{Entry, GroupId, Key, Keys, Line, Next, Slip, Ticket};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Longest time that a request waits for a row before a probe checks whether it would wait alone: for the lock as a member of a
/// group, and in the line behind a request in flight.
pub const WAIT_UNCHECKED_MAX: Duration = Duration::from_millis(paceline_sql::UNCHECKED_WAIT_MS);

/// A row that requests in the line or in flight change.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// A request on this row is in flight, or a server connection waits for its lock.
    pub(super) in_flight: bool,
    /// Start of that flight; after attempts that did not get the lock, start of the first one.
    pub(super) since: Option<Instant>,
    /// Start of the first flight since the row was last unused.
    pub(super) busy_since: Option<Instant>,
    /// A check is scheduled for when its requests will have waited for [`WAIT_UNCHECKED_MAX`].
    pub(super) is_checked: bool,
    /// How the next request leaves.
    pub(super) contention: Contention,
    /// Waiting requests in order of arrival; may name requests that were withdrawn.
    pub(super) queue: VecDeque<Ticket>,
    /// Number of waiting requests that also wait for other rows.
    pub(super) several: usize,
}

/// How the next request on a row leaves the line.
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

/// How a flight of a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// The lock was granted at once, or not needed.
    Free,
    /// The lock was granted after a wait.
    Contended,
    /// The lock was not granted.
    Blocked,
}

impl Row {
    /// Its flight, or its attempts to get the lock, have lasted for `limit` or longer.
    pub(super) fn has_kept_waiting(&self, now: Instant, limit: Duration) -> bool {
        self.since
            .is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    pub(super) fn is_contended(&self) -> bool {
        self.contention != Contention::None
    }

    fn land(&mut self, landing: Landing) {
        self.in_flight = false;
        self.contention = match landing {
            Landing::Free => Contention::None,
            Landing::Contended => Contention::Lock,
            Landing::Blocked if self.contention == Contention::None => Contention::Lock,
            Landing::Blocked => Contention::Alone,
        };
        if landing != Landing::Blocked {
            self.since = None;
        }
    }
}

impl<T> Line<T> {
    /// Marks a row as in flight.
    pub(super) fn begin_flight(&mut self, now: Instant, key: Key) {
        let row = self.rows.entry(key).or_default();
        row.in_flight = true;
        row.since.get_or_insert(now);
        row.busy_since.get_or_insert(now);
        self.check_later(key);
    }

    /// Ends the flight of a row. The next request that waits for it may leave.
    pub fn land(&mut self, now: Instant, key: Key, landing: Landing) {
        let Some(row) = self.rows.get_mut(&key) else {
            return;
        };
        row.land(landing);
        if landing == Landing::Blocked {
            self.probe_row(now, key);
            self.check_later(key);
        }
        self.promote(now, key);
    }

    /// Starts the wait for the lock of a request's row. The request stays in the line.
    pub(super) fn wait_for_lock(&mut self, now: Instant, ticket: Ticket) -> Option<Next<T>> {
        self.unready(ticket);
        let entry = self.waiting.get_mut(&ticket)?;
        entry.begins(now);
        let Keys::One(key) = entry.slip.keys else {
            return None;
        };
        self.note_deadline(ticket);
        self.begin_flight(now, key);
        Some(Next::Lock(ticket))
    }

    /// PostgreSQL has granted the lock that was requested for `first`: takes the requests at the head of the row's queue that may
    /// share a group with `first`. Returns an empty list if there are none.
    pub fn take_locked(&mut self, now: Instant, key: Key, first: &Slip) -> Vec<Entry<T>> {
        let mut entries = Vec::new();
        if let Some(front) = self.first_on(key)
            && let Some(group) = first.group
        {
            let same = |id: GroupId| group.meets(id, key);
            let most = self.most(front, Some(group));
            let barrier = self.fences(front, Some(group), most).behind(front);
            self.take_followers(now, key, &same, (most, barrier), &mut entries);
        }
        entries
    }

    /// Whether a request waits for the row.
    pub fn is_awaited(&mut self, key: Key) -> bool {
        self.first_on(key).is_some()
    }

    /// The request at the head of the row's queue.
    pub(super) fn first_on(&mut self, key: Key) -> Option<Ticket> {
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
