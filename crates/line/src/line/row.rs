//! A row that units wait for: whether one of them is on its way with it, and how the next one leaves.
//!
//! A group waits for a row's lock in PostgreSQL for [`WAIT_UNCHECKED_MAX`] at most; then it comes back (it has done nothing)
//! and the row is *contended*: first the lock is waited for, while all units stay in the line, where they can leave, cancel and
//! time out; whoever is in the line when the lock is granted leaves with it. Where that cannot be done, or does not help, the
//! first unit leaves alone, and waits in PostgreSQL as it would by itself.

use super::{Entry, GroupId, Key, Keys, Line, Next, Slip, Ticket};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a unit waits for a row without being checked: in a group for its lock, and in the line behind a unit that is on its
/// way. After that a probe tells whether it would wait by itself.
pub const WAIT_UNCHECKED_MAX: Duration = Duration::from_millis(paceline_sql::UNCHECKED_WAIT_MS);

/// Units of one row.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// A unit is on its way with it, or its lock is waited for.
    pub(super) in_flight: bool,
    /// When that began; if the lock could not be had, when the first attempt began.
    pub(super) since: Option<Instant>,
    /// When one was on its way with it for the first time since somebody has waited for it.
    pub(super) busy_since: Option<Instant>,
    /// It will be looked at when it has kept units waiting for long.
    pub(super) is_checked: bool,
    /// How the next unit leaves.
    pub(super) contention: Contention,
    /// In order of arrival; may name units that were withdrawn.
    pub(super) queue: VecDeque<Ticket>,
    /// How many of the units that wait for it wait for other rows, too.
    pub(super) several: usize,
}

/// How the next unit on a row leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contention {
    /// With its group.
    #[default]
    None,
    /// With its group, after the row's lock has been waited for.
    Lock,
    /// By itself.
    Alone,
}

/// What became of a row that was in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// Whoever needed its lock had it at once.
    Free,
    /// The lock was waited for.
    Contended,
    /// The lock could not be had.
    Blocked,
}

impl Row {
    /// Those who wait for it have waited for so long, or longer.
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
    /// A unit is on its way with the row, or its lock is waited for.
    pub(super) fn begin_flight(&mut self, now: Instant, key: Key) {
        let row = self.rows.entry(key).or_default();
        row.in_flight = true;
        row.since.get_or_insert(now);
        row.busy_since.get_or_insert(now);
        self.check_later(key);
    }

    /// A row that was in flight is so no longer; whoever waits for it may leave.
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

    /// The lock of its row is waited for; it stays in the line.
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

    /// The lock that was waited for because of this unit is granted: the first units on the row leave, if they travel with
    /// that one. Empty: they do not, or nobody waits any more.
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

    /// Does anybody wait for the row?
    pub fn is_awaited(&mut self, key: Key) -> bool {
        self.first_on(key).is_some()
    }

    /// The first who waits for the row.
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
