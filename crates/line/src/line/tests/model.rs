//! A line as anybody would write it first: a list, searched from the front. It judges what the real one does.

use crate::line::{Departure, Entry, GroupId, Key, Keys, Limits, Slip, Strategy, Ticket};
use std::collections::BTreeSet;
use std::time::Instant;

/// A unit that waits, as the model knows it.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) slip: Slip,
    pub(super) arrived: Instant,
    pub(super) unit: u64,
    /// Since when its row is free.
    pub(super) since: Option<Instant>,
}

/// Units on their way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) entries: Vec<Entry<u64>>,
    pub(super) keys: Vec<Key>,
}

/// Does the unit change this row?
pub(super) fn on(slip: &Slip, key: Key) -> bool {
    slip.keys.as_slice().contains(&key)
}

/// Who is on several rows leaves with nobody else on one of them.
fn nobody_is_met_on_several_rows(entries: &[Entry<u64>]) {
    for one in entries {
        let Keys::Several(keys) = &one.slip.keys else {
            continue;
        };
        let others = entries.iter().filter(|other| other.ticket != one.ticket);
        let met = others
            .flat_map(|other| other.slip.keys.as_slice())
            .find(|key| keys.contains(key));
        assert!(met.is_none(), "{one:?} meets somebody on {met:?}");
    }
}

/// Everything that should be true of a line.
#[derive(Debug)]
pub(super) struct Model {
    limits: Limits,
    /// In order of arrival.
    pub(super) waiting: Vec<Waiting>,
    pub(super) flights: Vec<Flight>,
    /// Units that are done with: served, withdrawn, expired or drained.
    gone: BTreeSet<u64>,
}

impl Model {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: Vec::new(),
            flights: Vec::new(),
            gone: BTreeSet::new(),
        }
    }

    pub(super) fn submit(&mut self, waiting: Waiting) {
        let last = self.waiting.iter().map(|w| w.ticket).max();
        assert!(
            last.is_none_or(|last| last < waiting.ticket),
            "tickets are in order of arrival"
        );
        self.waiting.push(waiting);
    }

    /// A unit is done with, and was not before.
    pub(super) fn gone(&mut self, unit: u64) {
        assert!(self.gone.insert(unit), "unit {unit} is done with twice");
    }

    pub(super) fn gone_len(&self) -> usize {
        self.gone.len()
    }

    /// Takes a unit out of the line for good.
    pub(super) fn remove(&mut self, entry: &Entry<u64>) {
        let place = self.waiting.iter().position(|w| w.ticket == entry.ticket);
        let waiting = self
            .waiting
            .remove(place.expect("who leaves the line has waited in it"));
        assert_eq!((waiting.unit, &waiting.slip), (entry.unit, &entry.slip));
        assert_eq!(waiting.arrived, entry.arrived);
    }

    /// Units of a flight come back.
    pub(super) fn put_back(&mut self, entries: &[Entry<u64>]) {
        self.waiting.extend(entries.iter().map(|e| Waiting {
            ticket: e.ticket,
            slip: e.slip.clone(),
            arrived: e.arrived,
            unit: e.unit,
            since: None,
        }));
        self.waiting.sort_by_key(|w| w.ticket);
    }

    pub(super) fn in_flight(&self, key: Key) -> bool {
        self.flights.iter().any(|flight| flight.keys.contains(&key))
    }

    pub(super) fn awaited(&self, key: Key) -> bool {
        self.waiting.iter().any(|w| on(&w.slip, key))
    }

    /// It waits for others to come along.
    pub(super) fn held(&self, waiting: &Waiting, now: Instant) -> bool {
        let waits = |id: GroupId| {
            let reads = matches!(id.strategy, Strategy::Pipeline | Strategy::Share);
            !reads && id.cohort == 0
        };
        waiting.slip.group.is_some_and(waits) && waiting.arrived + self.limits.max_wait > now
    }

    /// Nobody in flight or in front of it changes one of its rows.
    pub(super) fn row_is_free(&self, waiting: &Waiting) -> bool {
        waiting.slip.keys.as_slice().iter().all(|key| {
            let first = self.waiting.iter().find(|w| on(&w.slip, *key));
            !self.in_flight(*key) && first.is_some_and(|w| w.ticket == waiting.ticket)
        })
    }

    /// Rows may have become free in this step.
    pub(super) fn note_free_rows(&mut self, now: Instant) {
        let free: Vec<bool> = self.waiting.iter().map(|w| self.row_is_free(w)).collect();
        for (waiting, _) in self.waiting.iter_mut().zip(free).filter(|(_, free)| *free) {
            waiting.since.get_or_insert(now);
        }
    }

    /// Those who may leave now, in order of arrival.
    pub(super) fn ready(&self, now: Instant) -> Vec<Waiting> {
        let may_leave = |w: &&Waiting| self.row_is_free(w) && !self.held(w, now);
        self.waiting.iter().filter(may_leave).cloned().collect()
    }

    /// How many departures those who may leave could make up.
    pub(super) fn ready_len(&self, now: Instant) -> usize {
        let ready = self.ready(now);
        let alone = ready.iter().filter(|w| w.slip.group.is_none()).count();
        let groups: Vec<GroupId> = ready.iter().filter_map(|w| w.slip.group).collect();
        let distinct = groups
            .iter()
            .enumerate()
            .filter(|(n, id)| !groups[..*n].contains(id));
        alone + distinct.count()
    }

    /// Judges who leaves, and lets them.
    pub(super) fn depart(&mut self, now: Instant, departure: Departure<u64>) {
        let entries = departure.entries;
        let ready = self.ready(now);
        let head = entries.first().expect("a departure is never empty");
        assert_eq!(
            Some(head.ticket),
            ready.first().map(|w| w.ticket),
            "the oldest of those who may leave goes first"
        );
        let most = self.most(head.slip.group);
        assert!(
            entries.len() <= most,
            "{} units left, at most {most} may",
            entries.len()
        );
        let rows = |entries: &[Entry<u64>]| -> usize {
            let rows = entries.iter().map(|e| e.slip.keys.as_slice().len().max(1));
            rows.sum()
        };
        let before = entries.split_last().map_or(0, |(_, before)| rows(before));
        assert!(before < most, "{before} rows were enough");
        assert!(
            entries.is_sorted_by(|a, b| a.ticket < b.ticket),
            "in order of arrival, nobody twice"
        );
        assert!(
            entries.iter().all(|e| e.slip.group == head.slip.group),
            "one group"
        );
        let barrier = self.barrier(head);
        let across = |e: &&Entry<u64>| barrier.is_some_and(|barrier| e.ticket >= barrier);
        assert!(
            !entries.iter().any(|e| across(&e)),
            "nobody leaves across {barrier:?}"
        );
        let keys = entries.iter().flat_map(|e| e.slip.keys.as_slice());
        let keys: BTreeSet<Key> = keys.copied().collect();
        nobody_is_met_on_several_rows(&entries);
        assert!(
            !keys.iter().any(|key| self.in_flight(*key)),
            "one flight per row"
        );
        // Followers on a row stop at a barrier of their own group: there might have been no room for it.
        let fence = entries.iter().find(|e| e.slip.barrier).map(|e| e.ticket);
        let room = rows(&entries) < most;
        entries.iter().for_each(|e| self.remove(e));
        self.nobody_was_passed(&entries);
        if head.slip.group.is_some() && room {
            let one = |e: &&Entry<u64>| matches!(e.slip.keys, Keys::One(_));
            let single = entries.iter().filter(one);
            let single: BTreeSet<Key> = single
                .flat_map(|e| e.slip.keys.as_slice())
                .copied()
                .collect();
            self.nobody_was_forgotten(now, head.slip.group, barrier, fence, (&keys, &single));
        }
        self.flights.push(Flight {
            entries,
            keys: keys.into_iter().collect(),
        });
    }

    /// The first barrier behind a unit that is not of its group, or that would leave a write in front of it behind.
    fn barrier(&self, head: &Entry<u64>) -> Option<Ticket> {
        let group = head.slip.group;
        let behind: Vec<_> = self
            .waiting
            .iter()
            .filter(|w| w.ticket > head.ticket)
            .collect();
        let stays = |w: &&&Waiting| {
            let writes = w.slip.barrier || w.slip.keys != Keys::Unknown;
            writes && (w.slip.group != group || self.may_stay(&w.slip.keys))
        };
        let first_to_stay = behind.iter().find(stays).map(|w| w.ticket);
        let stops = |w: &&&Waiting| {
            let overtakes = first_to_stay.is_some_and(|first| first < w.ticket);
            w.slip.barrier && (w.slip.group != group || overtakes)
        };
        behind.iter().find(stops).map(|w| w.ticket)
    }

    /// Units on these rows perhaps do not leave with their group.
    fn may_stay(&self, keys: &Keys) -> bool {
        let several = |w: &Waiting| matches!(w.slip.keys, Keys::Several(_));
        match keys {
            Keys::Unknown => false,
            Keys::One(key) => {
                let mut behind = self.waiting.iter().filter(|w| several(w));
                self.in_flight(*key) || behind.any(|w| on(&w.slip, *key))
            }
            Keys::Several(_) => true,
        }
    }

    fn most(&self, group: Option<GroupId>) -> usize {
        match group {
            None => 1,
            Some(id) if id.strategy == Strategy::Pipeline => self.limits.pipeline_depth_max,
            Some(_) => self.limits.group_size_max,
        }
    }

    /// Units on one row leave strictly in order of arrival.
    fn nobody_was_passed(&self, entries: &[Entry<u64>]) {
        for entry in entries {
            let shares = |w: &&Waiting| {
                let mut keys = entry.slip.keys.as_slice().iter();
                w.ticket < entry.ticket && keys.any(|key| on(&w.slip, *key))
            };
            let passed = self.waiting.iter().find(shares);
            assert!(
                passed.is_none(),
                "{entry:?} has passed {passed:?} on its row"
            );
        }
    }

    /// There was room: everybody of the group who could come did.
    fn nobody_was_forgotten(
        &self,
        now: Instant,
        group: Option<GroupId>,
        barrier: Option<Ticket>,
        fence: Option<Ticket>,
        (keys, single): (&BTreeSet<Key>, &BTreeSet<Key>),
    ) {
        let could = |w: &Waiting| w.slip.group == group && barrier.is_none_or(|b| w.ticket < b);
        let mates = self.ready(now).into_iter().filter(could);
        let other_rows: Vec<_> = mates
            .filter(|w| !w.slip.keys.as_slice().iter().any(|key| keys.contains(key)))
            .collect();
        assert!(other_rows.is_empty(), "left behind: {other_rows:?}");
        for key in single {
            let next = self.waiting.iter().find(|w| on(&w.slip, *key));
            let next = next.filter(|w| matches!(w.slip.keys, Keys::One(_)));
            let fenced = next.is_some_and(|w| fence.is_some_and(|fence| fence < w.ticket));
            assert!(
                fenced || !next.is_some_and(&could),
                "left behind on its row: {next:?}"
            );
        }
    }
}
