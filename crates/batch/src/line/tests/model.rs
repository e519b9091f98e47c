//! The simplest line: a list that is searched from the front. It checks the steps of the real line.

use crate::line::{
    Dispatch, ExpiredLimit, GroupId, Limits, LineKey, LineKeys, WAIT_UNCHECKED_MAX, WaitEntry,
    WaitSpec, WaiterId,
};
use crate::strategy::Strategy;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// A waiting request.
#[derive(Debug, Clone)]
pub(super) struct ModelWaiter {
    pub(super) waiter: WaiterId,
    pub(super) spec: WaitSpec,
    pub(super) arrived: Instant,
    pub(super) request: u64,
    /// Time since which its rows are free.
    pub(super) since: Option<Instant>,
    /// Time since which it has waited for a row.
    pub(super) blocked: Option<Instant>,
    /// Time of its last probe.
    pub(super) probed: Option<Instant>,
    /// Whether a row has kept it waiting for long, in a wait that began after its last probe.
    pub(super) long: bool,
}

/// Requests in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) entries: Vec<WaitEntry<u64>>,
    pub(super) keys: Vec<LineKey>,
    /// Set while the lock of its row is requested: the spec of the request for which it is.
    pub(super) lock: Option<WaitSpec>,
}

/// A row whose lock was not granted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contended {
    /// The lock is requested first.
    Lock,
    /// Requests leave alone.
    Alone,
}

/// Whether the request changes this row.
pub(super) fn on(spec: &WaitSpec, key: LineKey) -> bool {
    spec.keys.as_slice().contains(&key)
}

/// A request on several rows shares none of them with another request of its group.
fn assert_no_shared_rows(entries: &[WaitEntry<u64>]) {
    for one in entries {
        let LineKeys::MultiRow(keys) = &one.spec.keys else {
            continue;
        };
        let others = entries.iter().filter(|other| other.waiter != one.waiter);
        let met = others
            .flat_map(|other| other.spec.keys.as_slice())
            .find(|key| keys.contains(key));
        assert!(met.is_none(), "{one:?} shares a row: {met:?}");
    }
}

/// All invariants of a line.
#[derive(Debug)]
pub(super) struct LineModel {
    limits: Limits,
    /// In order of arrival.
    pub(super) waiting: Vec<ModelWaiter>,
    pub(super) flights: Vec<Flight>,
    /// Requests that were answered, withdrawn, expired or drained.
    finished: BTreeSet<u64>,
    pub(super) contended: BTreeMap<LineKey, Contended>,
    /// Time since which rows have kept requests waiting.
    kept_waiting: BTreeMap<LineKey, Instant>,
}

impl LineModel {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: Vec::new(),
            flights: Vec::new(),
            finished: BTreeSet::new(),
            contended: BTreeMap::new(),
            kept_waiting: BTreeMap::new(),
        }
    }

    pub(super) fn submit(&mut self, waiting: ModelWaiter) {
        let last = self.waiting.iter().map(|w| w.waiter).max();
        assert!(
            last.is_none_or(|last| last < waiting.waiter),
            "waiters are in order of arrival"
        );
        self.waiting.push(waiting);
    }

    /// A request is finished, and was not before.
    pub(super) fn finished(&mut self, request: u64) {
        assert!(
            self.finished.insert(request),
            "request {request} finished twice"
        );
    }

    pub(super) fn finished_len(&self) -> usize {
        self.finished.len()
    }

    /// Removes a request from the line.
    pub(super) fn remove(&mut self, entry: &WaitEntry<u64>) {
        let place = self.waiting.iter().position(|w| w.waiter == entry.waiter);
        let waiting = self
            .waiting
            .remove(place.expect("a request that leaves has waited"));
        assert_eq!(
            (waiting.request, &waiting.spec),
            (entry.request, &entry.spec)
        );
        assert_eq!(waiting.arrived, entry.arrived);
    }

    /// Requests of a flight return.
    pub(super) fn put_back(&mut self, entries: &[WaitEntry<u64>]) {
        self.waiting.extend(entries.iter().map(|e| ModelWaiter {
            waiter: e.waiter,
            spec: e.spec.clone(),
            arrived: e.arrived,
            request: e.request,
            since: None,
            blocked: None,
            probed: None,
            long: false,
        }));
        self.waiting.sort_by_key(|w| w.waiter);
    }

    pub(super) fn in_flight(&self, key: LineKey) -> bool {
        self.flights.iter().any(|flight| flight.keys.contains(&key))
    }

    pub(super) fn awaited(&self, key: LineKey) -> bool {
        self.waiting.iter().any(|w| on(&w.spec, key))
    }

    /// Whether it waits for others to join it.
    pub(super) fn waits_for_members(&self, waiting: &ModelWaiter, now: Instant) -> bool {
        let waits = |id: GroupId| {
            let reads = matches!(id.strategy, Strategy::Pipeline | Strategy::Share);
            !reads && id.cohort == 0
        };
        let waits = waiting.spec.group.is_some_and(waits) && !self.is_contended(waiting);
        waits && waiting.arrived + self.limits.max_wait > now
    }

    /// Whether no request in flight or in front of it changes one of its rows.
    pub(super) fn row_is_free(&self, waiting: &ModelWaiter) -> bool {
        waiting.spec.keys.as_slice().iter().all(|key| {
            let first = self.waiting.iter().find(|w| on(&w.spec, *key));
            !self.in_flight(*key) && first.is_some_and(|w| w.waiter == waiting.waiter)
        })
    }

    /// Notes rows that may have become free in this step.
    pub(super) fn note_free_rows(&mut self, now: Instant) {
        let free: Vec<bool> = self.waiting.iter().map(|w| self.row_is_free(w)).collect();
        let seen: Vec<[bool; 3]> = self
            .waiting
            .iter()
            .map(|w| [self.is_long(now, w), self.is_contended(w), self.is_busy(w)])
            .collect();
        for ((waiting, free), seen) in self.waiting.iter_mut().zip(free).zip(seen) {
            let [long, contended, busy] = seen;
            waiting.long |= long;
            match free {
                true => {
                    waiting.since.get_or_insert(now);
                    waiting.blocked = waiting.blocked.filter(|_| contended);
                }
                false => {
                    waiting.since = None;
                    waiting.blocked = busy.then(|| waiting.blocked.unwrap_or(now));
                }
            }
        }
    }

    /// A row is in flight from now on.
    pub(super) fn begin(&mut self, now: Instant, key: LineKey) {
        self.kept_waiting.entry(key).or_insert(now);
    }

    /// A row is no longer in flight. Its lock was not granted, or only after a wait.
    pub(super) fn release_rows(
        &mut self,
        key: LineKey,
        contended: Option<Contended>,
        blocked: bool,
    ) {
        // A row for which no request waits is forgotten.
        match contended.filter(|_| self.awaited(key)) {
            Some(how) => self.contended.insert(key, how),
            None => self.contended.remove(&key),
        };
        if !blocked || !self.awaited(key) {
            self.kept_waiting.remove(&key);
        }
    }

    /// Forgets unused rows.
    pub(super) fn forget_rows(&mut self) {
        let used = |key: &LineKey| self.in_flight(*key) || self.awaited(*key);
        let known = self.kept_waiting.keys().chain(self.contended.keys());
        let unused: Vec<LineKey> = known.filter(|key| !used(key)).copied().collect();
        for key in unused {
            self.kept_waiting.remove(&key);
            self.contended.remove(&key);
        }
    }

    fn is_long(&self, now: Instant, waiting: &ModelWaiter) -> bool {
        let long = |key: &LineKey| {
            let kept_waiting = self.kept_waiting.get(key);
            let unprobed = |since: Instant| waiting.probed.is_none_or(|at| since > at);
            let kept_waiting = kept_waiting
                .is_some_and(|since| now - *since >= WAIT_UNCHECKED_MAX && unprobed(*since));
            kept_waiting && (self.in_flight(*key) || self.contended.contains_key(key))
        };
        waiting.spec.keys.as_slice().iter().any(long)
    }

    /// Whether a row for which it waits is in flight.
    fn is_busy(&self, waiting: &ModelWaiter) -> bool {
        let mut keys = waiting.spec.keys.as_slice().iter();
        keys.any(|key| self.in_flight(*key) || self.contended.contains_key(key))
    }

    fn is_contended(&self, waiting: &ModelWaiter) -> bool {
        match waiting.spec.keys {
            LineKeys::One(key) => self.contended.contains_key(&key),
            _ => false,
        }
    }

    /// Checks which requests a probe is for.
    pub(super) fn probe(&mut self, now: Instant, waiters: &[WaiterId]) {
        assert!(
            !waiters.is_empty()
                && waiters.is_sorted()
                && waiters.len() <= self.limits.group_size_max
        );
        let first_ready = self.ready(now).first().map(|w| w.waiter);
        assert!(first_ready.is_none_or(|ready| waiters[0] <= ready));
        let mut ids = BTreeSet::new();
        for waiter in waiters {
            let place = self.waiting.iter().position(|w| w.waiter == *waiter);
            let waiting = self.waiting[place.expect("a probed request waits")].clone();
            let id = waiting.spec.probe_group.expect("it has a probe");
            ids.insert((id.template, id.settings));
            assert!(
                waiting.long,
                "no row has kept it waiting since its last probe: {waiting:?}"
            );
            let waiting = &mut self.waiting[place.expect("it waits")];
            (waiting.probed, waiting.long) = (Some(now), false);
        }
        assert_eq!(ids.len(), 1, "of one kind");
    }

    /// Checks that every request that a row has kept waiting for long was probed.
    pub(super) fn assert_all_probed(&self, now: Instant) {
        for waiting in &self.waiting {
            let long = |key: &&LineKey| {
                let kept_waiting = self
                    .kept_waiting
                    .get(key)
                    .is_some_and(|since| now - *since >= WAIT_UNCHECKED_MAX * 2);
                self.in_flight(**key) && kept_waiting
            };
            if waiting.spec.probe_group.is_some()
                && waiting.spec.keys.as_slice().iter().any(|key| long(&key))
            {
                assert!(waiting.probed.is_some(), "not probed: {waiting:?}");
            }
        }
    }

    /// Checks for which request a row lock is requested, and notes it.
    pub(super) fn wait_for_lock(&mut self, now: Instant, waiter: WaiterId) {
        let ready = self.ready(now);
        let first = ready.first().expect("a request could leave");
        assert_eq!(first.waiter, waiter);
        let LineKeys::One(key) = first.spec.keys else {
            panic!("no single row: {first:?}");
        };
        assert_eq!(self.contended.get(&key), Some(&Contended::Lock));
        assert!(first.spec.locks && first.spec.group.is_some());
        self.begin(now, key);
        self.flights.push(Flight {
            entries: Vec::new(),
            keys: vec![key],
            lock: Some(first.spec.clone()),
        });
    }

    /// Checks which requests leave with a granted lock.
    pub(super) fn take_locked(
        &mut self,
        key: LineKey,
        lock: &WaitSpec,
        entries: &[WaitEntry<u64>],
    ) {
        let ours = |id: Option<GroupId>| {
            let plain = |id: GroupId| GroupId {
                cohort: if id.cohort == key.cohort() {
                    0
                } else {
                    id.cohort
                },
                ..id
            };
            id.map(plain) == lock.group.map(plain)
        };
        let first = self.waiting.iter().find(|w| on(&w.spec, key));
        let fits =
            first.is_some_and(|w| ours(w.spec.group) && matches!(w.spec.keys, LineKeys::One(_)));
        assert_eq!(!entries.is_empty(), fits, "{first:?}");
        assert!(entries.len() <= self.group_size_max(lock.group));
        assert!(
            entries
                .iter()
                .all(|e| ours(e.spec.group) && e.spec.keys == LineKeys::One(key))
        );
        entries.iter().for_each(|e| self.remove(e));
        self.assert_none_overtaken(entries);
    }

    /// Checks a request with an expired limit.
    pub(super) fn timed_out(&self, now: Instant, waiter: WaiterId, why: ExpiredLimit) {
        let waiting = self.waiting.iter().find(|w| w.waiter == waiter);
        let waiting = waiting.expect("a request with an expired limit has waited");
        let limit = match why {
            ExpiredLimit::Lock => waiting.spec.timeouts.lock,
            ExpiredLimit::Statement => waiting.spec.timeouts.statement,
            ExpiredLimit::Query => None,
        };
        let limit = limit.expect("it has such a limit");
        assert!(waiting.arrived + limit <= now);
        if why == ExpiredLimit::Lock {
            let waits = waiting.blocked.is_some() || self.is_contended(waiting);
            assert!(waits, "it has its row: {waiting:?}");
        }
    }

    /// Checks that no request waits for its only row beyond its `lock_timeout`. For several rows the limit counts for each row.
    pub(super) fn assert_no_limit_expired(&self, now: Instant) {
        let single = |w: &&ModelWaiter| matches!(w.spec.keys, LineKeys::One(_));
        for waiting in self.waiting.iter().filter(single) {
            let end = waiting.blocked.zip(waiting.spec.timeouts.lock);
            assert!(
                end.is_none_or(|(since, limit)| since + limit > now),
                "{waiting:?}"
            );
        }
    }

    /// Requests that may leave now, in order of arrival.
    pub(super) fn ready(&self, now: Instant) -> Vec<ModelWaiter> {
        let may_leave = |w: &&ModelWaiter| self.row_is_free(w) && !self.waits_for_members(w, now);
        self.waiting.iter().filter(may_leave).cloned().collect()
    }

    /// Number of groups that the ready requests would form.
    pub(super) fn ready_len(&self, now: Instant) -> usize {
        let ready = self.ready(now);
        let by_itself = |w: &&ModelWaiter| w.spec.group.is_none() || self.is_contended(w);
        let alone = ready.iter().filter(by_itself).count();
        let groups = ready.iter().filter(|w| !by_itself(w));
        let groups: Vec<GroupId> = groups.filter_map(|w| w.spec.group).collect();
        let distinct = groups
            .iter()
            .enumerate()
            .filter(|(n, id)| !groups[..*n].contains(id));
        alone + distinct.count()
    }

    /// Checks which requests leave, and removes them. If the line divides them, others of the group may stay.
    pub(super) fn dispatch(&mut self, now: Instant, dispatch: Dispatch<u64>, divides: bool) {
        let entries = dispatch.entries;
        let ready = self.ready(now);
        let head = entries.first().expect("a dispatch is never empty");
        assert_eq!(
            Some(head.waiter),
            ready.first().map(|w| w.waiter),
            "the oldest ready request leaves first"
        );
        let contended = self.is_contended(&ready[0]);
        if contended {
            let locks = ready[0].spec.locks && ready[0].spec.group.is_some();
            let LineKeys::One(key) = head.spec.keys else {
                panic!("only single rows are contended: {head:?}");
            };
            let alone = self.contended.get(&key) == Some(&Contended::Alone);
            assert!(entries.len() == 1 && (alone || !locks), "{entries:?}");
        }
        let group = head.spec.group.filter(|_| !contended);
        let most = self.group_size_max(group);
        assert!(
            entries.len() <= most,
            "{} requests left, at most {most} may",
            entries.len()
        );
        let rows = |entries: &[WaitEntry<u64>]| -> usize {
            let rows = entries.iter().map(|e| e.spec.keys.as_slice().len().max(1));
            rows.sum()
        };
        // In any order of taking, there was room before the last request.
        let largest = entries.iter().map(|e| e.spec.keys.as_slice().len().max(1));
        let before = rows(&entries) - largest.max().unwrap_or_default();
        assert!(before < most, "{before} rows were enough");
        assert!(
            entries.is_sorted_by(|a, b| a.waiter < b.waiter),
            "in order of arrival, without duplicates"
        );
        assert!(
            entries.iter().all(|e| e.spec.group == head.spec.group),
            "one group"
        );
        let barrier = self.barrier(head);
        let across = |e: &&WaitEntry<u64>| barrier.is_some_and(|barrier| e.waiter >= barrier);
        assert!(
            !entries.iter().any(|e| across(&e)),
            "no request leaves across {barrier:?}"
        );
        let keys = entries.iter().flat_map(|e| e.spec.keys.as_slice());
        let keys: BTreeSet<LineKey> = keys.copied().collect();
        assert_no_shared_rows(&entries);
        assert!(
            !keys.iter().any(|key| self.in_flight(*key)),
            "one flight per row"
        );
        // Requests on a row stop at a barrier of their own group, because the group might have been full.
        let own = |spec: &WaitSpec| spec.barrier && spec.group == head.spec.group;
        let left = entries.iter().filter(|e| own(&e.spec)).map(|e| e.waiter);
        let held = self
            .waiting
            .iter()
            .filter(|w| own(&w.spec))
            .map(|w| w.waiter);
        let own_barrier = left
            .chain(held)
            .filter(|t| *t > head.waiter || head.spec.barrier)
            .min();
        let room = rows(&entries) < most && !divides;
        entries.iter().for_each(|e| self.remove(e));
        self.assert_none_overtaken(&entries);
        keys.iter().for_each(|key| self.begin(now, *key));
        if group.is_some() && room {
            let one = |e: &&WaitEntry<u64>| matches!(e.spec.keys, LineKeys::One(_));
            let single = entries.iter().filter(one);
            let single: BTreeSet<LineKey> = single
                .flat_map(|e| e.spec.keys.as_slice())
                .copied()
                .collect();
            self.assert_none_left_behind(
                now,
                head.spec.group,
                barrier,
                own_barrier,
                (&keys, &single),
            );
        }
        self.flights.push(Flight {
            entries,
            keys: keys.into_iter().collect(),
            lock: None,
        });
    }

    /// The first barrier that ends a group: it belongs to another group, or would overtake a write that stays.
    fn barrier(&self, head: &WaitEntry<u64>) -> Option<WaiterId> {
        let group = head.spec.group;
        let behind: Vec<_> = self
            .waiting
            .iter()
            .filter(|w| w.waiter > head.waiter)
            .collect();
        let stays = |w: &&&ModelWaiter| {
            let writes = w.spec.barrier || w.spec.keys != LineKeys::Unknown;
            writes && (w.spec.group != group || self.may_stay(&w.spec.keys))
        };
        let first_to_stay = behind.iter().find(stays).map(|w| w.waiter);
        let stops = |w: &&&ModelWaiter| {
            let overtakes = first_to_stay.is_some_and(|first| first < w.waiter);
            w.spec.barrier && (w.spec.group != group || overtakes)
        };
        behind.iter().find(stops).map(|w| w.waiter)
    }

    /// Whether requests on these rows may not leave with their group.
    fn may_stay(&self, keys: &LineKeys) -> bool {
        let multi_row = |w: &ModelWaiter| matches!(w.spec.keys, LineKeys::MultiRow(_));
        match keys {
            LineKeys::Unknown => false,
            LineKeys::One(key) => {
                let mut behind = self.waiting.iter().filter(|w| multi_row(w));
                let taken = self.in_flight(*key) || self.contended.contains_key(key);
                taken || behind.any(|w| on(&w.spec, *key))
            }
            LineKeys::MultiRow(_) => true,
        }
    }

    fn group_size_max(&self, group: Option<GroupId>) -> usize {
        match group {
            None => 1,
            Some(id) if id.strategy == Strategy::Pipeline => self.limits.pipeline_depth_max,
            Some(_) => self.limits.group_size_max,
        }
    }

    /// Checks that requests on one row leave in order of arrival.
    fn assert_none_overtaken(&self, entries: &[WaitEntry<u64>]) {
        for entry in entries {
            let shares = |w: &&ModelWaiter| {
                let mut keys = entry.spec.keys.as_slice().iter();
                w.waiter < entry.waiter && keys.any(|key| on(&w.spec, *key))
            };
            let passed = self.waiting.iter().find(shares);
            assert!(
                passed.is_none(),
                "{entry:?} has overtaken {passed:?} on its row"
            );
        }
    }

    /// Checks that every request of the group that could leave did, because there was room.
    fn assert_none_left_behind(
        &self,
        now: Instant,
        group: Option<GroupId>,
        barrier: Option<WaiterId>,
        own_barrier: Option<WaiterId>,
        (keys, single): (&BTreeSet<LineKey>, &BTreeSet<LineKey>),
    ) {
        let could = |w: &ModelWaiter| w.spec.group == group && barrier.is_none_or(|b| w.waiter < b);
        let group_members = self.ready(now).into_iter();
        let group_members = group_members.filter(|w| could(w) && !self.is_contended(w));
        let other_rows: Vec<_> = group_members
            .filter(|w| !w.spec.keys.as_slice().iter().any(|key| keys.contains(key)))
            .collect();
        assert!(other_rows.is_empty(), "left behind: {other_rows:?}");
        for key in single {
            let next = self.waiting.iter().find(|w| on(&w.spec, *key));
            let next = next.filter(|w| matches!(w.spec.keys, LineKeys::One(_)));
            let behind_barrier =
                next.is_some_and(|w| own_barrier.is_some_and(|own_barrier| own_barrier < w.waiter));
            assert!(
                behind_barrier || !next.is_some_and(&could),
                "left behind on its row: {next:?}"
            );
        }
    }
}
