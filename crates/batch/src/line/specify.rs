//! A waiting request gets another spec, because more is known of it than when it entered the line.

use super::{Line, LineKey, LineKeys, WaitSpec, WaiterId};
use std::time::Instant;

impl<T> Line<T> {
    /// Gives another spec to a request that waits for no row. The request keeps its place: on each of its rows it waits in front of
    /// the requests that arrived later, also if one of them could have left. If it waits for a row from now on, its time-outs begin
    /// now, as it has waited only for a server connection before.
    ///
    /// Returns the request. `None`: it has left the line, or waits for rows.
    pub fn specify(&mut self, now: Instant, waiter: WaiterId, spec: WaitSpec) -> Option<&mut T> {
        let entry = self.waiting.get(&waiter)?;
        if entry.spec.keys != LineKeys::Unknown {
            return None;
        }
        let since = self.ready.get(&waiter).map(|ready| ready.since);
        self.unready(waiter);
        if spec.barrier {
            self.barriers.insert(waiter);
        }
        let keys = spec.keys.clone();
        if let Some(entry) = self.waiting.get_mut(&waiter) {
            entry.spec = spec;
            entry.probed = None;
        }
        self.note_multi_row(now, waiter, &keys);
        for key in keys.as_slice() {
            self.enter_row(now, *key, waiter);
        }
        match self.rows_are_free(waiter, &keys) {
            true => {
                // The row may have kept others waiting that arrived later, for a lock.
                self.await_rows(now, waiter, &keys);
                self.make_ready(now, waiter);
            }
            false => self.wait_behind(now, waiter),
        }
        if let Some((ready, since)) = self.ready.get_mut(&waiter).zip(since) {
            ready.since = since;
        }
        let entry = self.waiting.get_mut(&waiter);
        entry.map(|entry| &mut entry.request)
    }

    /// Adds a request to a row's queue. If it becomes the first, the request that was the first waits for it.
    fn enter_row(&mut self, now: Instant, key: LineKey, waiter: WaiterId) {
        let first = self.first_on(key).filter(|first| *first > waiter);
        self.rows.entry(key).or_default().enqueue(waiter);
        if let Some(first) = first
            && (self.ready.contains_key(&first) || self.is_held(first))
        {
            self.keep_waiting(first);
            self.wait_behind(now, first);
        }
    }
}
