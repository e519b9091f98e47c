//! Requests on several rows: they wait for all of their rows at once, in each row's order of arrival.
//!
//! A request that waits for one row would wait for it in PostgreSQL, too. A request behind one on several rows also waits for
//! that one's other rows, for which it might not wait alone. Therefore a request on several rows waits for no row that has been
//! in flight for long.

use super::{Line, LineKey, LineKeys, LockOutcome, WaiterId};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Maximum time for which a row that is in flight is awaited by a request that also waits for other rows; the line may take up to
/// twice as long to notice. Longer than a commit on a slow disk.
pub const ROW_AWAITED_MAX: Duration = Duration::from_millis(100);

impl<T> Line<T> {
    /// Detaches requests on several rows if a row has been in flight for longer than [`ROW_AWAITED_MAX`].
    pub(super) fn expire_multi_row(&mut self, now: Instant) {
        if self.multi_row.next_check.is_none_or(|at| at > now) {
            return;
        }
        let waiting: Vec<WaiterId> = self.multi_row.waiting.iter().copied().collect();
        let (late, patient): (Vec<WaiterId>, Vec<WaiterId>) =
            waiting.into_iter().partition(|t| self.waits_long(now, *t));
        self.detach_all(now, &late.into_iter().collect());
        self.multi_row.next_check = (!patient.is_empty()).then(|| now + ROW_AWAITED_MAX);
    }

    /// Releases rows although the request on them is still in flight, because it has taken long. Requests on several rows that
    /// wait for them are detached: each would only take long in its turn.
    pub fn release_rows_early(&mut self, now: Instant, keys: &[LineKey]) {
        let rows = keys.iter().filter_map(|key| self.rows.get(key));
        let waiting = rows.flat_map(|row| &row.queue).copied();
        let late = waiting.filter(|waiter| self.multi_row.waiting.contains(waiter));
        self.detach_all(now, &late.collect());
        for key in keys {
            self.release_rows(now, *key, LockOutcome::Free);
        }
    }

    /// Time at which [`Line::expire_multi_row`] must check again.
    pub(super) fn multi_row_check_at(&self) -> Option<Instant> {
        self.multi_row.next_check
    }

    /// Registers a request that begins to wait.
    pub(super) fn note_multi_row(&mut self, now: Instant, waiter: WaiterId, keys: &LineKeys) {
        let LineKeys::MultiRow(keys) = keys else {
            return;
        };
        self.multi_row.waiting.insert(waiter);
        self.multi_row
            .next_check
            .get_or_insert(now + ROW_AWAITED_MAX);
        for key in keys.iter() {
            self.rows.entry(*key).or_default().multi_row += 1;
        }
    }

    /// Reverses [`Line::note_multi_row`].
    pub(super) fn forget_multi_row(&mut self, waiter: WaiterId, keys: &LineKeys) {
        let LineKeys::MultiRow(keys) = keys else {
            return;
        };
        self.multi_row.waiting.remove(&waiter);
        for key in keys.iter() {
            if let Some(row) = self.rows.get_mut(key) {
                row.multi_row -= 1;
            }
        }
    }

    fn waits_long(&self, now: Instant, waiter: WaiterId) -> bool {
        let entry = self.waiting.get(&waiter);
        let mut keys = entry.into_iter().flat_map(|e| e.spec.keys.as_slice());
        !self.ready.contains_key(&waiter)
            && keys.any(|key| {
                let row = self.rows.get(key);
                row.is_some_and(|row| row.has_kept_waiting(now, ROW_AWAITED_MAX))
            })
    }

    /// Detaches a request from its rows: it waits for none of them and leaves alone.
    pub fn detach(&mut self, now: Instant, waiter: WaiterId) {
        if self.waiting.contains_key(&waiter) && !self.ready.contains_key(&waiter) {
            self.detach_all(now, &BTreeSet::from([waiter]));
        }
    }

    /// Detaches these requests from their rows. They become barriers, like all writes whose rows are not known.
    fn detach_all(&mut self, now: Instant, late: &BTreeSet<WaiterId>) {
        let mut rows = BTreeSet::new();
        for waiter in late {
            let Some(entry) = self.waiting.get_mut(waiter) else {
                continue;
            };
            let keys = std::mem::take(&mut entry.spec.keys);
            entry.spec.group = None;
            entry.spec.probe_group = None;
            entry.spec.barrier = true;
            self.barriers.insert(*waiter);
            self.forget_multi_row(*waiter, &keys);
            rows.extend(keys.as_slice().iter().copied());
            self.make_ready(now, *waiter);
        }
        for key in rows {
            if let Some(row) = self.rows.get_mut(&key) {
                row.queue.retain(|other| !late.contains(other));
            }
            self.promote(now, key);
        }
    }
}
