//! Time-outs of clients that count while their units wait for a row: each unit that has one leaves the line when its time is
//! up, as PostgreSQL would cancel its statement.
//!
//! `lock_timeout` counts from when the unit began to wait for the row. `statement_timeout` and `query_timeout` count from when
//! PostgreSQL would have begun with it: from its arrival if another unit was on its way with its row then, else from when it left
//! the line. Time in which it waits for a connection only does not count before that. What a group has taken that was undone for
//! another reason than a lock counts for nobody.

use super::{Entry, Line, Ticket};
use std::time::{Duration, Instant};

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeOut {
    /// `lock_timeout`
    Lock,
    /// `statement_timeout`
    Statement,
    /// `query_timeout`
    Query,
}

/// Since when a unit's time-outs count, at the earliest: whether its row was in flight meanwhile is found out when one of them
/// seems to be over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clocks {
    /// PostgreSQL would have begun with it.
    begun: Option<Instant>,
    /// That is certain.
    has_begun: bool,
    /// It began to wait for a row.
    blocked: Option<Instant>,
}

impl Clocks {
    /// The unit waits for a row with which others have been on their way since then, at least now; `None`: for none.
    fn correct(&mut self, now: Instant, busy: Option<Instant>) {
        let since = busy.unwrap_or(now);
        self.blocked = self.blocked.map(|blocked| blocked.max(since));
        if !self.has_begun {
            self.begun = self.begun.map(|begun| begun.max(since));
            self.has_begun = busy.is_some();
        }
    }
}

impl<T> Entry<T> {
    /// Its group was undone for a reason that is none of a lock's: its time-outs count anew.
    pub fn restart(&mut self) {
        self.clocks = Clocks::default();
    }

    /// A time-out of its client's is over.
    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline(Duration::ZERO)
            .is_some_and(|(at, _)| at <= now)
    }

    pub(super) fn waits_for_row(&mut self, now: Instant) {
        self.clocks.begun.get_or_insert(now);
        self.clocks.blocked.get_or_insert(now);
    }

    /// It leaves for a connection, and may wait for its row there.
    pub(super) fn begins(&mut self, now: Instant) {
        self.waits_for_row(now);
        self.clocks.has_begun = true;
    }

    /// It waits for a connection only. Others have been on their way with its row since then, if at all.
    pub(super) fn has_its_row(&mut self, busy: Option<Instant>) {
        if let Some(busy) = busy {
            self.clocks.correct(busy, Some(busy));
        }
        self.clocks.blocked = None;
    }

    /// The time-out that ends its wait, and when.
    fn deadline(&self, query: Duration) -> Option<(Instant, TimeOut)> {
        let Clocks { begun, blocked, .. } = self.clocks;
        let query = Some(query).filter(|limit| !limit.is_zero());
        let limits = [
            (blocked, self.slip.timeouts.lock, TimeOut::Lock),
            (begun, self.slip.timeouts.statement, TimeOut::Statement),
            (begun, query, TimeOut::Query),
        ];
        let ends = limits.into_iter();
        let ends = ends.filter_map(|(since, limit, what)| Some((since? + limit?, what)));
        ends.min()
    }
}

impl<T> Line<T> {
    /// Whether and when a unit's wait ends by a time-out has changed.
    pub(super) fn note_deadline(&mut self, ticket: Ticket) {
        let Some(entry) = self.waiting.get_mut(&ticket) else {
            return;
        };
        let deadline = entry.deadline(self.limits.query_timeout).map(|(at, _)| at);
        let before = std::mem::replace(&mut entry.deadline, deadline);
        if before != deadline {
            self.forget_deadline(ticket, before);
            self.deadlines.extend(deadline.map(|at| (at, ticket)));
        }
    }

    pub(super) fn forget_deadline(&mut self, ticket: Ticket, deadline: Option<Instant>) {
        if let Some(at) = deadline {
            self.deadlines.remove(&(at, ticket));
        }
    }

    /// Takes out every unit whose time is up.
    pub fn time_out(&mut self, now: Instant) -> Vec<(Entry<T>, TimeOut)> {
        let mut late = Vec::new();
        while let Some((_, ticket)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            let why = self.correct_deadline(now, ticket);
            if let Some((_, why)) = why.filter(|(at, _)| *at <= now)
                && let Some(entry) = self.withdraw(now, ticket)
            {
                late.push((entry, why));
            }
        }
        late
    }

    /// The time-out that ends a unit's wait, now that it seems to be over.
    fn correct_deadline(&mut self, now: Instant, ticket: Ticket) -> Option<(Instant, TimeOut)> {
        let busy = self.busy_since(ticket);
        let limit = self.limits.query_timeout;
        let entry = self.waiting.get_mut(&ticket)?;
        entry.clocks.correct(now, busy);
        let end = entry.deadline(limit);
        self.note_deadline(ticket);
        end
    }

    /// Since when others have been on their way, one after the other, with a row that a unit waits for. `None`: nobody is.
    fn busy_since(&self, ticket: Ticket) -> Option<Instant> {
        let entry = self.waiting.get(&ticket)?;
        let rows = entry.slip.keys.as_slice().iter();
        let rows = rows.filter_map(|key| self.rows.get(key));
        let busy = rows.filter(|row| row.in_flight || row.is_contended());
        busy.filter_map(|row| row.busy_since).min()
    }
}
