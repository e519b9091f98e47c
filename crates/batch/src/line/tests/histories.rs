//! Generated histories: thousands of lines, each used for a short time. The model checks each step.

use super::model::{Contended, Flight, LineModel, ModelWaiter};
use super::{group, limits};
use crate::line::{
    ClientTimeouts, Limits, Line, LineKey, LineKeys, LockOutcome, NextStep, WaitEntry, WaitSpec,
    WaiterId,
};
use crate::strategy::Strategy as GroupStrategy;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A step of a history. Numbers select among what exists at that moment.
#[derive(Debug, Clone)]
enum HistoryStep {
    Submit(WaitSpec),
    /// A request that waits for no row gets another spec.
    Specify(usize, WaitSpec),
    StartAtOnce(WaitSpec),
    /// Requests on several rows that have waited for long are detached.
    ExpireMultiRow,
    /// Rows of a flight are released although it continues.
    ReleaseEarly(usize),
    Next,
    /// A flight ends, and all of its requests are answered.
    Release(usize),
    /// A flight ends. Requests whose bits are set return.
    PutBack(usize, u64, How),
    /// A flight ends, and all of its requests return because their row locks were not granted.
    Blocked(usize),
    Withdraw(usize),
    /// Requests that were ready this many microseconds ago or earlier.
    Expire(u64),
    Drain,
    /// This many microseconds pass.
    Pass(u64),
}

/// The ways in which requests return to the line, as in the pool.
#[derive(Debug, Clone, Copy)]
enum How {
    AsTheyWere,
    Alone,
    Halves,
    OnTheirRows,
}

/// A line and its model.
struct Life {
    line: Line<u64>,
    model: LineModel,
    max_wait: Duration,
    now: Instant,
    /// Number of requests so far, and number of the next one.
    requests: u64,
    withdrawn: Vec<WaiterId>,
}

impl Life {
    fn new(limits: Limits) -> Self {
        Self {
            line: Line::new(limits, Arc::default(), Instant::now()),
            model: LineModel::new(limits),
            max_wait: limits.max_wait,
            // Late enough that deadlines in the past can be represented.
            now: Instant::now() + Duration::from_secs(3_600),
            requests: 0,
            withdrawn: Vec::new(),
        }
    }

    fn take(&mut self, step: &HistoryStep) {
        match step {
            HistoryStep::Submit(spec) => self.submit(spec.clone()),
            HistoryStep::Specify(which, spec) => self.specify(*which, spec),
            HistoryStep::StartAtOnce(spec) => self.start_at_once(spec),
            HistoryStep::ExpireMultiRow => self.expire_multi_row(),
            HistoryStep::ReleaseEarly(which) => self.release_rows_early(*which),
            HistoryStep::Next => drop(self.next()),
            HistoryStep::Release(which) => self.release_rows(*which),
            HistoryStep::PutBack(which, members, how) => self.put_back(*which, *members, *how),
            HistoryStep::Blocked(which) => self.blocked(*which),
            HistoryStep::Withdraw(which) => self.withdraw(*which),
            HistoryStep::Expire(micros) => self.expire(*micros),
            HistoryStep::Drain => self.drain(),
            HistoryStep::Pass(micros) => self.now += Duration::from_micros(*micros),
        }
        self.model.forget_rows();
        self.model.note_free_rows(self.now);
        self.compare();
    }

    fn submit(&mut self, spec: WaitSpec) {
        let request = self.new_request();
        let waiter = self.line.submit(self.now, spec.clone(), request);
        self.model.submit(ModelWaiter {
            waiter,
            spec,
            arrived: self.now,
            request,
            since: None,
            blocked: None,
            probed: None,
            long: false,
        });
    }

    /// A request that has left, or waits for rows, keeps its spec.
    fn specify(&mut self, which: usize, spec: &WaitSpec) {
        let flights = self.model.flights.iter().flat_map(|f| &f.entries);
        let waiting = self.model.waiting.iter();
        let on_rows = waiting.filter(|w| w.spec.keys != LineKeys::Unknown);
        let fixed = flights.map(|e| e.waiter).chain(on_rows.map(|w| w.waiter));
        for waiter in fixed {
            let specified = self.line.specify(self.now, waiter, spec.clone());
            assert!(specified.is_none());
        }
        let waiting = self.model.waiting.iter_mut();
        let mut open: Vec<_> = waiting
            .filter(|w| w.spec.keys == LineKeys::Unknown)
            .collect();
        let count = open.len();
        if let Some(place) = which.checked_rem(count) {
            let waiting = &mut open[place];
            let specified = self.line.specify(self.now, waiting.waiter, spec.clone());
            assert_eq!(specified, Some(&mut waiting.request));
            waiting.spec = spec.clone();
            (waiting.probed, waiting.long) = (None, false);
        }
    }

    fn new_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Detached requests were behind one in flight, and leave alone in their places.
    fn expire_multi_row(&mut self) {
        let late = self.line.tick(self.now);
        for (entry, why) in late {
            self.model.timed_out(self.now, entry.waiter, why);
            self.withdrawn.push(entry.waiter);
            self.model.remove(&entry);
            self.model.finished(entry.request);
        }
        self.model.note_free_rows(self.now);
        self.model.assert_no_limit_expired(self.now);
        let loose = self.note_loose();
        let behind = |spec: &WaitSpec| {
            let mut keys = spec.keys.as_slice().iter();
            keys.any(|key| self.model.in_flight(*key) || self.model.contended.contains_key(key))
        };
        assert!(loose.iter().all(behind));
    }

    /// No request on several rows waits for the rows that were released.
    fn release_rows_early(&mut self, which: usize) {
        let Some(flight) = self.take_flight(which) else {
            return;
        };
        flight
            .entries
            .iter()
            .for_each(|e| self.model.finished(e.request));
        let concerned = |w: &&ModelWaiter| {
            let multi_row = matches!(w.spec.keys, LineKeys::MultiRow(_));
            multi_row
                && w.spec
                    .keys
                    .as_slice()
                    .iter()
                    .any(|key| flight.keys.contains(key))
        };
        let waiting = self.model.waiting.iter();
        let expected: Vec<WaitSpec> = waiting.filter(concerned).map(|w| w.spec.clone()).collect();
        self.line.release_rows_early(self.now, &flight.keys);
        assert_eq!(self.note_loose(), expected);
        flight
            .keys
            .iter()
            .for_each(|key| self.model.release_rows(*key, None, false));
    }

    /// Detached requests leave alone; returns the specs that they had before.
    fn note_loose(&mut self) -> Vec<WaitSpec> {
        let mut loose = Vec::new();
        for place in 0..self.model.waiting.len() {
            let waiting = &self.model.waiting[place];
            let spec = &self.line.waiting[&waiting.waiter].spec;
            if waiting.spec == *spec {
                continue;
            }
            assert!(matches!(waiting.spec.keys, LineKeys::MultiRow(_)));
            let expected = WaitSpec {
                group: None,
                keys: LineKeys::Unknown,
                barrier: true,
                probe_group: None,
                ..waiting.spec.clone()
            };
            assert_eq!(*spec, expected);
            let before = std::mem::replace(&mut self.model.waiting[place].spec, expected);
            loose.push(before);
        }
        loose
    }

    fn start_at_once(&mut self, spec: &WaitSpec) {
        let row_is_free = |key: &LineKey| !self.model.in_flight(*key) && !self.model.awaited(*key);
        let free = spec.keys.as_slice().iter().all(row_is_free);
        let may = free && !self.line.has_ready();
        let started = self.line.start_at_once(self.now, spec).is_some();
        assert!(!started || free, "started on a row that is taken: {spec:?}");
        assert!(!self.max_wait.is_zero() || started == may, "{spec:?}");
        if started {
            let request = self.new_request();
            self.model.finished(request);
            let keys = spec.keys.as_slice().to_vec();
            keys.iter().for_each(|key| self.model.begin(self.now, *key));
            self.model.flights.push(Flight {
                entries: Vec::new(),
                keys,
                lock: None,
            });
        }
    }

    /// Whether a connection had something to do.
    fn next(&mut self) -> bool {
        // With two free connections, the requests are divided between them.
        let divides = self.requests % 2 == 1;
        let next = self.line.next(self.now, 1 + usize::from(divides));
        let left = next.is_some();
        match next {
            Some(NextStep::Group(dispatch)) => self.model.dispatch(self.now, dispatch, divides),
            Some(NextStep::Probe(waiters)) => self.model.probe(self.now, &waiters),
            Some(NextStep::Lock(waiter)) => self.model.wait_for_lock(self.now, waiter),
            None => assert!(
                self.model.ready(self.now).is_empty(),
                "a request could have left"
            ),
        }
        assert!(self.line.held_until().is_none_or(|until| until > self.now));
        left
    }

    fn take_flight(&mut self, which: usize) -> Option<Flight> {
        let flights = &mut self.model.flights;
        (!flights.is_empty()).then(|| flights.remove(which % flights.len()))
    }

    fn release_rows(&mut self, which: usize) {
        let Some(flight) = self.take_flight(which) else {
            return;
        };
        flight
            .entries
            .iter()
            .for_each(|e| self.model.finished(e.request));
        let outcome = match (flight.lock, flight.entries.is_empty()) {
            (Some(lock), true) => return self.granted(flight.keys[0], lock),
            (Some(_), false) => LockOutcome::Contended,
            (None, _) => LockOutcome::Free,
        };
        self.release_as(&flight.keys, outcome);
    }

    fn release_as(&mut self, keys: &[LineKey], outcome: LockOutcome) {
        for key in keys {
            self.line.release_rows(self.now, *key, outcome);
            self.note_release(*key, outcome);
        }
    }

    fn note_release(&mut self, key: LineKey, outcome: LockOutcome) {
        let before = self.model.contended.get(&key);
        let contended = match (outcome, before) {
            (LockOutcome::Free, _) => None,
            (LockOutcome::Contended, _) | (LockOutcome::Blocked, None) => Some(Contended::Lock),
            (LockOutcome::Blocked, Some(_)) => Some(Contended::Alone),
        };
        self.model
            .release_rows(key, contended, outcome == LockOutcome::Blocked);
    }

    /// A lock is granted: all requests leave that can leave with it.
    fn granted(&mut self, key: LineKey, lock: WaitSpec) {
        let entries = self.line.take_locked(self.now, key, &lock);
        self.model.take_locked(key, &lock, &entries);
        if entries.is_empty() {
            return self.release_as(&[key], LockOutcome::Contended);
        }
        self.model.flights.push(Flight {
            entries,
            keys: vec![key],
            lock: Some(lock),
        });
    }

    fn blocked(&mut self, which: usize) {
        let Some(mut flight) = self.take_flight(which) else {
            return;
        };
        self.change_specs(&mut flight.entries, How::OnTheirRows);
        self.model.put_back(&flight.entries);
        let released: Vec<_> = flight
            .keys
            .iter()
            .map(|key| (*key, LockOutcome::Blocked))
            .collect();
        self.line.put_back(self.now, flight.entries, released);
        flight
            .keys
            .iter()
            .for_each(|key| self.note_release(*key, LockOutcome::Blocked));
    }

    fn put_back(&mut self, which: usize, members: u64, how: How) {
        let Some(flight) = self.take_flight(which) else {
            return;
        };
        let returns = |n: usize| members >> (n % 64) & 1 == 1;
        let (mut returned, mut served) = (Vec::new(), Vec::new());
        for (n, entry) in flight.entries.into_iter().enumerate() {
            if returns(n) {
                &mut returned
            } else {
                &mut served
            }
            .push(entry);
        }
        served
            .iter()
            .for_each(|e: &WaitEntry<u64>| self.model.finished(e.request));
        self.change_specs(&mut returned, how);
        self.model.put_back(&returned);
        // The answers may have arrived in any order.
        returned.reverse();
        let released: Vec<_> = flight
            .keys
            .iter()
            .map(|key| (*key, LockOutcome::Free))
            .collect();
        self.line.put_back(self.now, returned, released);
        flight
            .keys
            .iter()
            .for_each(|key| self.note_release(*key, LockOutcome::Free));
    }

    fn change_specs(&mut self, returned: &mut [WaitEntry<u64>], how: How) {
        let middle = returned.len().div_ceil(2);
        let (first, second) = returned.split_at_mut(middle);
        for half in [first, second] {
            let cohort = self.line.new_cohort();
            for spec in half.iter_mut().map(|e| &mut e.spec) {
                spec.group = match how {
                    How::OnTheirRows => spec.group.map(|mut id| {
                        id.cohort = match spec.keys {
                            LineKeys::One(key) => key.cohort(),
                            _ => id.cohort,
                        };
                        id
                    }),
                    How::AsTheyWere => spec.group,
                    How::Alone => None,
                    How::Halves => spec.group.map(|mut id| {
                        id.cohort = cohort;
                        id
                    }),
                };
            }
        }
    }

    /// A request that has left cannot be withdrawn, and no request can be withdrawn twice.
    fn withdraw(&mut self, which: usize) {
        let left = self
            .model
            .flights
            .iter()
            .flat_map(|f| &f.entries)
            .map(|e| e.waiter);
        let withdrawn = self.withdrawn.iter().rev().take(3).copied();
        let out_of_reach: Vec<WaiterId> = left.chain(withdrawn).collect();
        for waiter in out_of_reach {
            assert!(self.line.withdraw(self.now, waiter).is_none());
        }
        let Some(waiter) = pick(&self.model.waiting, which).map(|w| w.waiter) else {
            return;
        };
        let entry = self
            .line
            .withdraw(self.now, waiter)
            .expect("a waiting request can be withdrawn");
        self.withdrawn.push(waiter);
        self.model.remove(&entry);
        self.model.finished(entry.request);
    }

    fn expire(&mut self, micros: u64) {
        let deadline = self.now - Duration::from_micros(micros);
        let late = |w: &&ModelWaiter| w.since.is_some_and(|since| since <= deadline);
        let late: Vec<u64> = self
            .model
            .waiting
            .iter()
            .filter(late)
            .map(|w| w.request)
            .collect();
        let entries = self.line.expire(self.now, deadline);
        // A request that waits for group members is not late, so there may be fewer.
        let requests: Vec<u64> = entries.iter().map(|e| e.request).collect();
        assert!(
            requests.iter().all(|request| late.contains(request)),
            "{requests:?} of {late:?}"
        );
        let expected = match self.max_wait.is_zero() {
            true => late,
            false => requests,
        };
        self.taken_out(entries, &expected);
    }

    fn drain(&mut self) {
        let expected: Vec<u64> = self.model.waiting.iter().map(|w| w.request).collect();
        let entries = self.line.drain(self.now);
        self.taken_out(entries, &expected);
        assert!(self.line.is_empty() && !self.line.has_ready());
    }

    fn taken_out(&mut self, entries: Vec<WaitEntry<u64>>, expected: &[u64]) {
        let requests: Vec<u64> = entries.iter().map(|e| e.request).collect();
        assert_eq!(requests, expected);
        for entry in entries {
            self.withdrawn.push(entry.waiter);
            self.model.remove(&entry);
            self.model.finished(entry.request);
        }
    }

    fn compare(&self) {
        assert_eq!(self.line.len(), self.model.waiting.len());
        if self.max_wait.is_zero() {
            let ready = self.model.ready(self.now);
            let waiters = |w: &ModelWaiter| w.waiter;
            let known: Vec<WaiterId> = self.line.ready.keys().copied().collect();
            assert_eq!(known, ready.iter().map(waiters).collect::<Vec<_>>());
            if self.line.probes.len() == 0 {
                assert_eq!(self.line.has_ready(), !ready.is_empty());
                assert_eq!(
                    self.line.oldest_ready(),
                    ready.first().and_then(|w| w.since)
                );
                assert_eq!(self.line.ready_len(), self.model.ready_len(self.now));
            }
            assert_eq!(self.line.held_until(), None);
        }
        let held = |w: &&ModelWaiter| {
            self.model.row_is_free(w) && self.model.waits_for_members(w, self.now)
        };
        if let Some(first) = self.model.waiting.iter().find(held) {
            let until = self
                .line
                .held_until()
                .expect("a request waits for group members");
            assert!(
                until <= first.arrived + self.max_wait,
                "it would leave too late"
            );
        }
    }

    /// No starvation: all flights end, and the line becomes empty.
    fn end(mut self) {
        self.now += Duration::from_millis(60);
        self.model.note_free_rows(self.now);
        self.expire_multi_row();
        while self.line.probes.len() > 0 {
            self.next();
        }
        self.model.assert_all_probed(self.now);
        while !self.model.flights.is_empty() {
            self.release_rows(0);
            self.model.forget_rows();
        }
        self.now += self.max_wait;
        while self.next() {
            while !self.model.flights.is_empty() {
                self.release_rows(0);
            }
            self.model.forget_rows();
            self.model.note_free_rows(self.now);
            self.compare();
        }
        assert!(
            self.line.is_empty(),
            "still waiting: {:?}",
            self.model.waiting
        );
        assert_eq!(
            self.model.finished_len() as u64,
            self.requests,
            "no request is lost"
        );
    }
}

fn pick<T>(from: &[T], which: usize) -> Option<&T> {
    from.get(which.checked_rem(from.len())?)
}

fn specs() -> impl Strategy<Value = WaitSpec> {
    let grouped = prop::option::weighted(
        0.85,
        (
            prop::sample::select(vec![
                GroupStrategy::Pipeline,
                GroupStrategy::Share,
                GroupStrategy::Chain,
                GroupStrategy::Fold,
            ]),
            0..2_u64,
        ),
    );
    let multi_row = prop::collection::btree_set((0..4_u64).prop_map(LineKey), 1..4);
    let keys = prop_oneof![
        3 => Just(LineKeys::Unknown),
        5 => (0..4_u64).prop_map(|key| LineKeys::One(LineKey(key))),
        3 => multi_row.prop_map(|keys| LineKeys::MultiRow(keys.into_iter().collect())),
    ];
    let waits = (
        prop::bool::weighted(0.5),
        prop::bool::weighted(0.7),
        prop::option::weighted(0.2, 1..200_u64),
        prop::option::weighted(0.2, 1..200_u64),
    );
    let spec = (grouped, keys, prop::bool::weighted(0.3), waits);
    spec.prop_map(
        |(grouped, keys, barrier, (probed, locks, lock, statement))| {
            let id = grouped.map(|(strategy, template)| group(strategy, template));
            WaitSpec {
                table: None,
                group: id,
                barrier: barrier && keys == LineKeys::Unknown,
                probe_group: Some(group(GroupStrategy::Fold, 1))
                    .filter(|_| probed && keys != LineKeys::Unknown),
                locks,
                timeouts: ClientTimeouts {
                    lock: lock.map(Duration::from_millis),
                    statement: statement.map(Duration::from_millis),
                    transaction: None,
                },
                size_max: None,
                keys,
            }
        },
    )
}

fn steps() -> impl Strategy<Value = HistoryStep> {
    let how = prop::sample::select(vec![How::AsTheyWere, How::Alone, How::Halves]);
    prop_oneof![
        20 => specs().prop_map(HistoryStep::Submit),
        6 => (any::<usize>(), specs()).prop_map(|(which, spec)| HistoryStep::Specify(which, spec)),
        4 => specs().prop_map(HistoryStep::StartAtOnce),
        4 => Just(HistoryStep::ExpireMultiRow),
        2 => any::<usize>().prop_map(HistoryStep::ReleaseEarly),
        12 => Just(HistoryStep::Next),
        6 => any::<usize>().prop_map(HistoryStep::Release),
        5 => (any::<usize>(), any::<u64>(), how).prop_map(|(which, members, how)| HistoryStep::PutBack(which, members, how)),
        3 => any::<usize>().prop_map(HistoryStep::Blocked),
        4 => any::<usize>().prop_map(HistoryStep::Withdraw),
        2 => (0..60_u64).prop_map(HistoryStep::Expire),
        1 => Just(HistoryStep::Drain),
        6 => (1..20_u64).prop_map(HistoryStep::Pass),
        3 => Just(HistoryStep::Pass(21_000)),
        2 => Just(HistoryStep::Pass(100_000)),
    ]
}

fn some_limits() -> impl Strategy<Value = Limits> {
    let max_wait = prop_oneof![Just(0), 1..40_u64];
    (1..6_usize, 1..4_usize, max_wait).prop_map(|(group, depth, wait)| limits(group, depth, wait))
}

proptest! {
    #![proptest_config(paceline_testing::cases(2_500))]

    #[test]
    fn a_line_keeps_its_rules_whatever_happens(
        limits in some_limits(),
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        let mut life = Life::new(limits);
        steps.iter().for_each(|step| life.take(step));
        life.end();
    }
}
