//! Probes: requests that have waited for a row for [`WAIT_UNCHECKED_MAX`] are checked with a read of the committed rows, which
//! shows whether PostgreSQL would answer them without the row lock.
//!
//! A probe removes no request from the line. Each request is probed once per wait for its row.

use super::{Line, LineKey, LineKeys, NextStep, WAIT_UNCHECKED_MAX, WaiterId};
use std::cmp::Reverse;
use std::time::Instant;

impl<T> Line<T> {
    /// Schedules probes for requests whose row has kept them waiting for [`WAIT_UNCHECKED_MAX`].
    pub(super) fn check_rows(&mut self, now: Instant) {
        if self.probes.next_check().is_none_or(|at| at > now) {
            return;
        }
        self.probes.checked = Some(now);
        while let Some(Reverse((at, key))) = self.probes.checks.peek().copied()
            && at <= now
        {
            self.probes.checks.pop();
            if let Some(row) = self.rows.get_mut(&key) {
                row.is_checked = false;
            }
            self.probe_row(now, key);
            self.check_later(key);
        }
    }

    /// Schedules a check of the row for when its requests will have waited for [`WAIT_UNCHECKED_MAX`].
    pub(super) fn check_later(&mut self, key: LineKey) {
        let Some(row) = self.rows.get_mut(&key) else {
            return;
        };
        if let Some(since) = row
            .since
            .filter(|_| !row.queue.is_empty() && !row.is_checked)
        {
            let at = since + WAIT_UNCHECKED_MAX;
            // Later requests are probed when they arrive.
            if self.probes.checked.is_none_or(|checked| at > checked) {
                row.is_checked = true;
                self.probes.checks.push(Reverse((at, key)));
            }
        }
    }

    /// Time of the next check.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.probes.next_check()
    }

    /// Schedules probes for all requests that wait for the row, if it has kept them waiting for [`WAIT_UNCHECKED_MAX`].
    pub(super) fn probe_row(&mut self, now: Instant, key: LineKey) {
        let Some(row) = self.rows.get(&key) else {
            return;
        };
        if row.has_kept_waiting(now, WAIT_UNCHECKED_MAX) {
            let waiting: Vec<WaiterId> = row.queue.iter().copied().collect();
            waiting.into_iter().for_each(|t| self.probe(now, t, key));
        }
    }

    fn probe(&mut self, now: Instant, waiter: WaiterId, key: LineKey) {
        let since = self.rows.get(&key).and_then(|row| row.since);
        let Some(entry) = self.waiting.get_mut(&waiter) else {
            return;
        };
        let asked = entry
            .probed
            .zip(since)
            .is_some_and(|(at, since)| at >= since);
        if let Some(id) = entry.spec.probe_group.filter(|_| !asked) {
            entry.probed = Some(now);
            self.probes.insert(now, waiter, id);
        }
    }

    /// Schedules a probe for a request that begins to wait, or a check of its rows.
    pub(super) fn await_rows(&mut self, now: Instant, waiter: WaiterId, keys: &LineKeys) {
        for key in keys.as_slice() {
            let Some(row) = self.rows.get(key) else {
                continue;
            };
            match row.has_kept_waiting(now, WAIT_UNCHECKED_MAX) {
                true => self.probe(now, waiter, *key),
                false => self.check_later(*key),
            }
        }
    }

    pub(super) fn next_probe(&mut self, now: Instant) -> NextStep<T> {
        let waiters = self.probes.take(self.limits.group_size_max);
        for waiter in &waiters {
            if let Some(entry) = self.waiting.get_mut(waiter) {
                entry.probed = Some(now);
            }
        }
        NextStep::Probe(waiters)
    }

    /// Allows another probe of these requests after [`WAIT_UNCHECKED_MAX`], because theirs failed.
    pub fn probe_failed(&mut self, now: Instant, waiters: &[WaiterId]) {
        for waiter in waiters {
            let Some(entry) = self.waiting.get_mut(waiter) else {
                continue;
            };
            entry.probed = None;
            let keys = entry.spec.keys.as_slice().iter();
            let at = now + WAIT_UNCHECKED_MAX;
            self.probes
                .checks
                .extend(keys.map(|key| Reverse((at, *key))));
        }
    }
}
