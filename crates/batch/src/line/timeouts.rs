//! Client time-outs that count while a request waits for a row. When one expires, the line removes the request, as PostgreSQL
//! would cancel its statement.
//!
//! `lock_timeout` counts from the start of the wait for the row. `statement_timeout` and `query_timeout` count from the time at
//! which PostgreSQL alone would have started the statement: from arrival if a request on its row was in flight then, else from
//! the time at which it left the line. Time spent waiting for a server connection before that does not count. Neither does the
//! time of a group that was undone for another reason than a lock.

use super::entry::TimeoutStarts;
use super::{Line, WaitEntry, WaiterId};
use std::time::{Duration, Instant};

/// A limit that expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpiredLimit {
    /// `lock_timeout`
    Lock,
    /// `statement_timeout`
    Statement,
    /// `query_timeout`
    Query,
}

impl<T> WaitEntry<T> {
    /// Restarts the time-outs, because the request's group was undone for another reason than a lock.
    pub fn restart(&mut self) {
        self.timeout_starts = TimeoutStarts::default();
    }

    /// Whether a time-out of its client has expired.
    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline(Duration::ZERO)
            .is_some_and(|(at, _)| at <= now)
    }

    pub(super) fn waits_for_row(&mut self, now: Instant) {
        self.timeout_starts.begun.get_or_insert(now);
        self.timeout_starts.blocked.get_or_insert(now);
    }

    /// It leaves the line, and may wait for its row in PostgreSQL.
    pub(super) fn begins(&mut self, now: Instant) {
        self.waits_for_row(now);
        self.timeout_starts.has_begun = true;
    }

    /// It waits only for a server connection. `busy` is the start of the last flights of its row.
    pub(super) fn has_its_row(&mut self, busy: Option<Instant>) {
        if let Some(busy) = busy {
            self.timeout_starts.correct(busy, Some(busy));
        }
        self.timeout_starts.blocked = None;
    }

    /// The time-out that expires first, and when.
    fn deadline(&self, query: Duration) -> Option<(Instant, ExpiredLimit)> {
        let TimeoutStarts { begun, blocked, .. } = self.timeout_starts;
        let query = Some(query).filter(|limit| !limit.is_zero());
        let limits = [
            (blocked, self.spec.timeouts.lock, ExpiredLimit::Lock),
            (begun, self.spec.timeouts.statement, ExpiredLimit::Statement),
            (begun, query, ExpiredLimit::Query),
        ];
        let ends = limits.into_iter();
        let ends = ends.filter_map(|(since, limit, what)| Some((since? + limit?, what)));
        ends.min()
    }
}

impl<T> Line<T> {
    /// Files the request under its deadline.
    pub(super) fn note_deadline(&mut self, waiter: WaiterId) {
        let Some(entry) = self.waiting.get_mut(&waiter) else {
            return;
        };
        let deadline = entry.deadline(self.limits.query_timeout).map(|(at, _)| at);
        let before = std::mem::replace(&mut entry.deadline, deadline);
        if before != deadline {
            self.forget_deadline(waiter, before);
            self.deadlines.extend(deadline.map(|at| (at, waiter)));
        }
    }

    pub(super) fn forget_deadline(&mut self, waiter: WaiterId, deadline: Option<Instant>) {
        if let Some(at) = deadline {
            self.deadlines.remove(&(at, waiter));
        }
    }

    /// Removes every request of which a time-out has expired.
    pub fn time_out(&mut self, now: Instant) -> Vec<(WaitEntry<T>, ExpiredLimit)> {
        let mut late = Vec::new();
        while let Some((_, waiter)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            let why = self.correct_deadline(now, waiter);
            if let Some((_, why)) = why.filter(|(at, _)| *at <= now)
                && let Some(entry) = self.withdraw(now, waiter)
            {
                late.push((entry, why));
            }
        }
        late
    }

    /// The first deadline of a request, corrected by when its row was in flight.
    fn correct_deadline(
        &mut self,
        now: Instant,
        waiter: WaiterId,
    ) -> Option<(Instant, ExpiredLimit)> {
        let busy = self.busy_since(waiter);
        let limit = self.limits.query_timeout;
        let entry = self.waiting.get_mut(&waiter)?;
        entry.timeout_starts.correct(now, busy);
        let end = entry.deadline(limit);
        self.note_deadline(waiter);
        end
    }

    /// Start of the flights of a row that the request waits for. `None`: none is in flight.
    fn busy_since(&self, waiter: WaiterId) -> Option<Instant> {
        let entry = self.waiting.get(&waiter)?;
        let rows = entry.spec.keys.as_slice().iter();
        let rows = rows.filter_map(|key| self.rows.get(key));
        let busy = rows.filter(|row| row.in_flight || row.is_contended());
        busy.filter_map(|row| row.busy_since).min()
    }
}
