//! The line: requests that wait for a server connection, and the rules by which they leave.
//!
//! A plain data structure without sockets, SQL or clock: `now` is an argument, and the request is an opaque `T`. The rules:
//! - Requests leave in order of arrival. A request whose row (key) is in flight waits for it, and holds up no other request.
//! - A request that leaves takes along every waiting request of the same [`GroupId`] whose row is free, up to a limit.
//! - Requests on one key leave in order of arrival, whatever their groups.
//! - While the maximum number of groups is in flight ([`crate::group_limit`]), only requests that are never grouped leave.
//!
//! The rules for requests on several rows are in `multi_row`; those for rows that keep requests waiting are in `row`,
//! `probe` and `timeouts`. `start` lets a request start that does not have to wait.

mod dispatch;
mod entry;
mod multi_row;
mod probe;
mod probe_schedule;
mod queue;
mod row;
mod row_state;
mod spec;
mod specify;
mod start;
#[cfg(test)]
mod tests;
mod timeouts;

pub use entry::{Dispatch, Limits, NextStep, WaitEntry, WaiterId};
pub use multi_row::ROW_AWAITED_MAX;
pub use queue::Line;
pub use row_state::{LockOutcome, WAIT_UNCHECKED_MAX};
pub use spec::{ClientTimeouts, GroupId, LineKey, LineKeys, TableId, WaitSpec};
pub use timeouts::ExpiredLimit;

use crate::group_limit::{FlightId, GroupLimit, ServerLoad};
use entry::TimeoutStarts;
use queue::Ready;
use row_state::Contention;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

/// Whether the limit of groups in flight applies to requests of this group. It does not to those that only duplicates join: others
/// gain nothing from their wait.
fn is_limited(group: Option<GroupId>) -> bool {
    group.is_some_and(|id| !id.strategy.properties().only_duplicates)
}

/// Distinguishes groups that may take longer than others.
fn kind_of(group: GroupId) -> u64 {
    // The factor distributes strategies and the templates, which are numbered, over the kinds.
    group
        .template
        .wrapping_mul(11)
        .wrapping_add(group.strategy as u64)
}

impl<T> Line<T> {
    /// From now on the connections lead to another server.
    pub fn set_server(&mut self, now: Instant, server: Arc<ServerLoad>) {
        self.group_limit.set_server(server, now);
    }

    /// Replaces the limits, also for requests that already wait.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.group_limit
            .apply(limits.groups_max, limits.connections_max);
        let held = std::mem::take(&mut self.held);
        self.held = held
            .into_iter()
            .filter_map(|(_, waiter)| {
                let entry = self.waiting.get(&waiter)?;
                Some((entry.arrived + limits.max_wait, waiter))
            })
            .collect();
        let waiting: Vec<WaiterId> = self.waiting.keys().copied().collect();
        waiting.into_iter().for_each(|t| self.note_deadline(t));
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Time at which a waiting request arrived. `None` if it no longer waits.
    pub fn arrived(&self, waiter: WaiterId) -> Option<Instant> {
        self.waiting.get(&waiter).map(|entry| entry.arrived)
    }

    /// A waiting request.
    pub fn get(&self, waiter: WaiterId) -> Option<(&WaitSpec, &T)> {
        let entry = self.waiting.get(&waiter);
        entry.map(|entry| (&entry.spec, &entry.request))
    }

    /// The waiting requests that arrived after this one, or all, in order of arrival.
    pub fn waiting_after(&self, waiter: Option<WaiterId>) -> impl Iterator<Item = (WaiterId, &T)> {
        let after = waiter.map_or(Bound::Unbounded, Bound::Excluded);
        let waiting = self.waiting.range((after, Bound::Unbounded));
        waiting.map(|(waiter, entry)| (*waiter, &entry.request))
    }

    /// Time at which the first waiting request arrived.
    pub fn oldest(&self) -> Option<Instant> {
        let first = self.waiting.first_key_value();
        first.map(|(_, entry)| entry.arrived)
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a free server connection would have something to do if any number of groups might be in flight.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.probes.len() > 0
    }

    /// Whether a free server connection has something to do.
    pub fn has_next(&mut self, now: Instant) -> bool {
        !self.ready_alone.is_empty()
            || self.probes.len() > 0
            || !self.ready.is_empty() && self.group_limit.may_start(now)
    }

    /// The limit of groups in flight.
    pub fn group_limit(&self) -> &GroupLimit {
        &self.group_limit
    }

    /// Number of free server connections that would have something to do.
    pub fn ready_len(&self) -> usize {
        let alone = self
            .ready
            .values()
            .filter(|ready| ready.group.is_none())
            .count();
        alone + self.group_members.len() + self.probes.len()
    }

    /// Time since which the first request that would leave alone is ready. Only the first `most` ready requests are examined.
    pub fn oldest_ready_alone(&self, most: usize) -> Option<Instant> {
        let mut front = self.ready.values().take(most);
        front
            .find(|ready| self.is_alone(ready.group))
            .map(|ready| ready.since)
    }

    /// Whether a request of this group leaves alone: it has no group, or no other request duplicates it.
    fn is_alone(&self, group: Option<GroupId>) -> bool {
        group.is_none_or(|id| {
            id.strategy.properties().only_duplicates
                && self
                    .group_members
                    .get(&id)
                    .is_none_or(|group_members| group_members.len() < 2)
        })
    }

    /// Time since which a free server connection would have had something to do.
    pub fn oldest_ready(&self) -> Option<Instant> {
        let ready = self.ready.first_key_value().map(|(_, ready)| ready.since);
        let probe = self.probes.first().map(|(_, since)| since);
        ready.into_iter().chain(probe).min()
    }

    /// Adds a request at the end of the line.
    pub fn submit(&mut self, now: Instant, spec: WaitSpec, request: T) -> WaiterId {
        let waiter = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        if spec.barrier {
            self.barriers.insert(waiter);
        }
        self.note_multi_row(now, waiter, &spec.keys);
        for key in spec.keys.as_slice() {
            self.rows.entry(*key).or_default().queue.push_back(waiter);
        }
        let free = self.rows_are_free(waiter, &spec.keys);
        let entry = WaitEntry {
            waiter,
            spec,
            arrived: now,
            request,
            timeout_starts: TimeoutStarts::default(),
            deadline: None,
            probed: None,
        };
        self.waiting.insert(waiter, Box::new(entry));
        self.note_present(now);
        match free {
            true => self.make_ready(now, waiter),
            false => self.wait_behind(now, waiter),
        }
        waiter
    }

    /// The request waits behind another one on its rows.
    fn wait_behind(&mut self, now: Instant, waiter: WaiterId) {
        let Some(entry) = self.waiting.get_mut(&waiter) else {
            return;
        };
        entry.waits_for_row(now);
        let keys = entry.spec.keys.clone();
        self.await_rows(now, waiter, &keys);
        self.note_deadline(waiter);
    }

    /// Whether the request is the first on each of its rows, and none of these rows is in flight.
    fn rows_are_free(&self, waiter: WaiterId, keys: &LineKeys) -> bool {
        let mut rows = keys.as_slice().iter().map(|key| self.rows.get(key));
        rows.all(|row| row.is_some_and(|r| !r.in_flight && r.queue.front() == Some(&waiter)))
    }

    /// Counts a group that leaves, if the limit applies to it.
    fn begin_group(&mut self, now: Instant, group: Option<GroupId>, requests: usize) -> FlightId {
        let Some(group) = group.filter(|group| is_limited(Some(*group))) else {
            return FlightId::UNCOUNTED;
        };
        let flight = self.group_limit.started(now, kind_of(group), requests);
        self.note_present(now);
        flight
    }

    /// Takes out what a free server connection does next. `free` is the number of free connections, this one included: if several
    /// groups may start, the requests are divided among them.
    pub fn next(&mut self, now: Instant, free: usize) -> Option<NextStep<T>> {
        self.release_held(now);
        let ready = self.first_ready(now);
        if let Some((probe, _)) = self.probes.first()
            && ready.is_none_or(|(waiter, _)| probe <= waiter)
        {
            return Some(self.next_probe(now));
        }
        match ready? {
            (first, Ready { locks: true, .. }) => self.wait_for_lock(now, first),
            (first, Ready { group, .. }) => {
                Some(NextStep::Group(self.dispatch(now, first, group, free)))
            }
        }
    }

    /// The first request that may leave.
    fn first_ready(&mut self, now: Instant) -> Option<(WaiterId, Ready)> {
        let first = self.ready.first_key_value();
        let (waiter, ready) = first.map(|(waiter, ready)| (*waiter, *ready))?;
        if !is_limited(ready.group) || ready.locks || self.group_limit.may_start(now) {
            return Some((waiter, ready));
        }
        let alone = *self.ready_alone.first()?;
        self.ready.get(&alone).map(|ready| (alone, *ready))
    }

    /// The connection of a group, or of a request that left at once, is free.
    pub fn flight_ended(&mut self, now: Instant, flight: FlightId) {
        self.note_present(now);
        self.group_limit.ended(now, flight);
    }

    fn note_present(&mut self, now: Instant) {
        self.group_limit.waiting(now, self.waiting.len());
    }

    /// Makes the first request on a row ready, if the row is not in flight.
    fn promote(&mut self, now: Instant, key: LineKey) {
        let Some(row) = self.rows.get_mut(&key) else {
            return;
        };
        while let Some(front) = row.queue.front().copied() {
            if let Some(entry) = self.waiting.get(&front) {
                if self.rows_are_free(front, &entry.spec.keys) {
                    self.make_ready(now, front);
                }
                return;
            }
            row.queue.pop_front();
        }
        if !row.in_flight {
            self.rows.remove(&key);
        }
    }

    /// Returns requests that have left to their places, and releases the rows in `released`, which may also belong to other members
    /// of their group. The specs may differ from those that left; the keys must be the same.
    pub fn put_back(
        &mut self,
        now: Instant,
        mut entries: Vec<WaitEntry<T>>,
        released: impl IntoIterator<Item = (LineKey, LockOutcome)>,
    ) {
        entries.sort_by_key(|e| e.waiter);
        let waiters: Vec<WaiterId> = entries.iter().map(|entry| entry.waiter).collect();
        for entry in entries.into_iter().rev() {
            self.return_to_place(now, entry);
        }
        for (key, outcome) in released {
            self.release_rows(now, key, outcome);
        }
        for waiter in waiters {
            match self.ready.contains_key(&waiter) || self.is_held(waiter) {
                true => self.note_deadline(waiter),
                false => self.wait_behind(now, waiter),
            }
        }
    }

    fn return_to_place(&mut self, now: Instant, mut entry: WaitEntry<T>) {
        let (waiter, keys) = (entry.waiter, entry.spec.keys.clone());
        if entry.spec.barrier {
            self.barriers.insert(waiter);
        }
        entry.probed = None;
        self.waiting.insert(waiter, Box::new(entry));
        self.note_multi_row(now, waiter, &keys);
        for key in keys.as_slice() {
            self.rows.entry(*key).or_default().enqueue(waiter);
        }
        if keys == LineKeys::Unknown {
            self.make_ready(now, waiter);
        }
    }

    /// Whether the request waits for others to join it (`hotspot_update_max_wait_time`).
    fn is_held(&self, waiter: WaiterId) -> bool {
        let entry = self.waiting.get(&waiter);
        entry.is_some_and(|e| {
            self.held
                .contains(&(e.arrived + self.limits.max_wait, waiter))
        })
    }

    /// A number that no other cohort has.
    pub fn new_cohort(&mut self) -> u64 {
        self.next_cohort += 1;
        self.next_cohort
    }

    /// Takes a request out of the line because its client has cancelled it or disconnected. `None` if it has left.
    pub fn withdraw(&mut self, now: Instant, waiter: WaiterId) -> Option<WaitEntry<T>> {
        self.unready(waiter);
        let mut entry = self.waiting.remove(&waiter)?;
        self.forget_deadline(waiter, entry.deadline.take());
        self.forget_multi_row(waiter, &entry.spec.keys);
        for key in entry.spec.keys.as_slice() {
            self.promote(now, *key);
        }
        Some(*entry)
    }

    /// Takes out every request that has been ready since `deadline` or longer. A request that waits for a row is not ready;
    /// alone, it would wait for the row, too.
    pub fn expire(&mut self, now: Instant, deadline: Instant) -> Vec<WaitEntry<T>> {
        let late = self
            .ready
            .iter()
            .filter(|(_, ready)| ready.since <= deadline);
        let late: Vec<WaiterId> = late.map(|(waiter, _)| *waiter).collect();
        late.into_iter()
            .filter_map(|waiter| self.withdraw(now, waiter))
            .collect()
    }

    /// Ready requests that arrived at `deadline` or earlier, in order of arrival.
    pub fn late_mut(&mut self, deadline: Instant) -> impl Iterator<Item = &mut T> {
        let ready = &self.ready;
        let old = self.waiting.iter_mut();
        old.take_while(move |(_, entry)| entry.arrived <= deadline)
            .filter(|(waiter, _)| ready.contains_key(waiter))
            .map(|(_, entry)| &mut entry.request)
    }

    /// Takes out all requests.
    pub fn drain(&mut self, now: Instant) -> Vec<WaitEntry<T>> {
        let mut all: Vec<WaiterId> = self.waiting.keys().copied().collect();
        all.sort_unstable();
        all.into_iter()
            .filter_map(|waiter| self.withdraw(now, waiter))
            .collect()
    }

    /// Time at which [`Line::tick`] must be called next.
    pub fn due(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let due = [
            self.group_limit.due().filter(|_| !self.ready.is_empty()),
            self.held_until(),
            self.multi_row_check_at(),
            self.next_check(),
            deadline,
        ];
        due.into_iter().flatten().min()
    }

    /// Time at which the first request that waits for group members may leave.
    fn held_until(&self) -> Option<Instant> {
        self.held.first().map(|(until, _)| *until)
    }

    /// Does everything that is due at `now`. Returns the requests of which a limit has expired.
    pub fn tick(&mut self, now: Instant) -> Vec<(WaitEntry<T>, ExpiredLimit)> {
        let late = self.time_out(now);
        self.release_held(now);
        self.expire_multi_row(now);
        self.check_rows(now);
        // While no connection is free, the pool does not ask whether a group may start.
        self.group_limit.tick(now);
        late
    }

    fn make_ready(&mut self, now: Instant, waiter: WaiterId) {
        let Some(entry) = self.waiting.get_mut(&waiter) else {
            return;
        };
        let row = match entry.spec.keys {
            LineKeys::One(key) => self.rows.get(&key),
            LineKeys::Unknown | LineKeys::MultiRow(_) => None,
        };
        let contention = row.map(|row| row.contention).unwrap_or_default();
        if contention == Contention::None {
            entry.has_its_row(row.and_then(|row| row.busy_since));
        }
        let (spec, until) = (&entry.spec, entry.arrived + self.limits.max_wait);
        let waits = spec
            .group
            .is_some_and(|id| !id.strategy.reads() && id.cohort == 0);
        let locks = contention == Contention::Lock && spec.locks && spec.group.is_some();
        let group = spec.group.filter(|_| contention == Contention::None);
        if contention == Contention::None && self.probes.remove(waiter) {
            entry.probed = None;
        }
        if group.is_some() && waits && until > now {
            self.held.insert((until, waiter));
        } else {
            self.set_ready(now, waiter, group, locks);
        }
        self.note_deadline(waiter);
    }

    fn set_ready(&mut self, now: Instant, waiter: WaiterId, group: Option<GroupId>, locks: bool) {
        let since = self.ready.get(&waiter).map_or(now, |ready| ready.since);
        let ready = Ready {
            group,
            locks,
            since,
        };
        self.ready.insert(waiter, ready);
        match locks || !is_limited(group) {
            true => self.ready_alone.insert(waiter),
            false => self.ready_alone.remove(&waiter),
        };
        if let Some(id) = group {
            self.group_members.entry(id).or_default().insert(waiter);
        }
    }

    /// Makes requests ready that have waited for group members long enough.
    pub fn release_held(&mut self, now: Instant) {
        while let Some(&(until, waiter)) = self.held.first() {
            if until > now {
                return;
            }
            self.held.pop_first();
            let group = self.waiting.get(&waiter).and_then(|e| e.spec.group);
            self.set_ready(now, waiter, group, false);
        }
    }

    fn unready(&mut self, waiter: WaiterId) {
        self.barriers.remove(&waiter);
        self.probes.remove(waiter);
        self.keep_waiting(waiter);
    }

    /// The request may not leave now.
    fn keep_waiting(&mut self, waiter: WaiterId) {
        self.ready_alone.remove(&waiter);
        if let Some(Ready {
            group: Some(id), ..
        }) = self.ready.remove(&waiter)
            && let Some(group_members) = self.group_members.get_mut(&id)
        {
            group_members.remove(&waiter);
            if group_members.is_empty() {
                self.group_members.remove(&id);
            }
        }
        if let Some(entry) = self.waiting.get(&waiter).filter(|_| !self.held.is_empty()) {
            self.held
                .remove(&(entry.arrived + self.limits.max_wait, waiter));
        }
    }
}
