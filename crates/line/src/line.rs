//! The line: units that wait for a server connection, and the rule that says who goes next and with whom.
//!
//! A plain data structure. It knows no sockets, no SQL and no clock (`now` is an argument); what waits is an
//! opaque `T`. The rules:
//! - units leave in order of arrival; a unit whose row (key) is in flight waits for it without holding up others;
//! - whoever leaves takes along every waiting unit of the same [`GroupId`] whose row is free, up to a limit;
//! - units on one key leave strictly in order of arrival, whatever their group.
//!
//! What is different for units on several rows is in [`several`].

mod several;
mod slip;
#[cfg(test)]
mod tests;

pub use several::ROW_AWAITED_MAX;
pub use slip::{GroupId, Key, Keys, Slip, Strategy, Table};

use rustc_hash::FxHashMap;
use several::Several;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// Place in the order of arrival; also names a waiting unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// A unit in the line or on its way.
#[derive(Debug)]
pub struct Entry<T> {
    /// Its place.
    pub ticket: Ticket,
    /// What the line knows of it.
    pub slip: Slip,
    /// When it came.
    pub arrived: Instant,
    /// The unit.
    pub unit: T,
}

/// Those who leave together: one entry travels as it is, several by the strategy of their group.
#[derive(Debug)]
pub struct Departure<T> {
    /// In order of arrival; never empty.
    pub entries: Vec<Entry<T>>,
}

/// Limits of a line.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most units in a group; of units on several rows, so many that they have as many rows.
    pub group_size_max: usize,
    /// Most units in a pipeline: a few, because each waits for those in front of it.
    pub pipeline_depth_max: usize,
    /// How long a unit that could leave with others waits for them (`hotspot_update_max_wait_time`).
    pub max_wait: Duration,
}

/// Units of one row.
#[derive(Debug, Default)]
struct Row {
    flight: Flight,
    /// In order of arrival; may name units that were withdrawn.
    queue: VecDeque<Ticket>,
    /// How many of the units that wait for it wait for other rows, too.
    several: usize,
}

/// Is a row in flight?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Flight {
    #[default]
    None,
    Begun,
    /// So long that units which also wait for other rows need not wait for it.
    Long,
}

impl Row {
    fn in_flight(&self) -> bool {
        self.flight != Flight::None
    }
}

/// A unit that may leave.
#[derive(Debug, Clone, Copy)]
struct Ready {
    group: Option<GroupId>,
    since: Instant,
}

/// Barriers behind the first of a group.
#[derive(Debug, Default)]
struct Fences {
    /// Those of the group itself, as far as they matter, in order of arrival.
    own: Vec<Ticket>,
    /// Nobody of the group leaves across this one.
    barrier: Option<Ticket>,
}

impl Fences {
    /// The first one that followers on a unit's row are not taken across: a barrier of the group may yet have to stay.
    fn behind(&self, ticket: Ticket) -> Option<Ticket> {
        let place = self.own.partition_point(|own| *own <= ticket);
        self.own.get(place).copied().or(self.barrier)
    }
}

/// The line of one pool.
#[derive(Debug)]
pub struct Line<T> {
    limits: Limits,
    next_ticket: u64,
    next_cohort: u64,
    waiting: BTreeMap<Ticket, Entry<T>>,
    /// Units that may leave now: not keyed, or the first of a row that is not in flight.
    ready: BTreeMap<Ticket, Ready>,
    mates: FxHashMap<GroupId, BTreeSet<Ticket>>,
    /// Units that would be ready but wait for mates until then.
    held: BTreeSet<(Instant, Ticket)>,
    /// By hashes of what clients say: so that nobody can make them collide, hashed with a secret once more.
    rows: HashMap<Key, Row>,
    barriers: BTreeSet<Ticket>,
    several: Several,
}

impl<T> Line<T> {
    /// An empty line.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            next_ticket: 0,
            next_cohort: 0,
            waiting: BTreeMap::new(),
            ready: BTreeMap::new(),
            mates: FxHashMap::default(),
            held: BTreeSet::new(),
            rows: HashMap::new(),
            barriers: BTreeSet::new(),
            several: Several::default(),
        }
    }

    /// Other limits hold from now on, for those who wait, too.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        let held = std::mem::take(&mut self.held);
        self.held = held
            .into_iter()
            .filter_map(|(_, ticket)| {
                let entry = self.waiting.get(&ticket)?;
                Some((entry.arrived + limits.max_wait, ticket))
            })
            .collect();
    }

    /// Units that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When a unit that waits came; `None`: it does not wait any more.
    pub fn arrived(&self, ticket: Ticket) -> Option<Instant> {
        self.waiting.get(&ticket).map(|entry| entry.arrived)
    }

    /// When the first of those who wait came.
    pub fn oldest(&self) -> Option<Instant> {
        let first = self.waiting.first_key_value();
        first.map(|(_, entry)| entry.arrived)
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Somebody could leave if a connection were free.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many could leave if connections were free, alone or at the head of a group.
    pub fn ready_len(&self) -> usize {
        let alone = self
            .ready
            .values()
            .filter(|ready| ready.group.is_none())
            .count();
        alone + self.mates.len()
    }

    /// Since when the first of those who could leave, and travel alone, could; looks no further than `most` places.
    pub fn oldest_ready_alone(&self, most: usize) -> Option<Instant> {
        let mut front = self.ready.values().take(most);
        front
            .find(|ready| self.travels_alone(ready.group))
            .map(|ready| ready.since)
    }

    /// Without a group, or with a question that nobody else asks.
    fn travels_alone(&self, group: Option<GroupId>) -> bool {
        group.is_none_or(|id| {
            id.strategy == Strategy::Share
                && self.mates.get(&id).is_none_or(|mates| mates.len() < 2)
        })
    }

    /// Since when the first of those who could leave could; `None` when nobody could.
    pub fn oldest_ready(&self) -> Option<Instant> {
        self.ready.first_key_value().map(|(_, ready)| ready.since)
    }

    /// A unit arrives and stands in the line.
    pub fn submit(&mut self, now: Instant, slip: Slip, unit: T) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        if slip.barrier {
            self.barriers.insert(ticket);
        }
        self.note_several(now, ticket, &slip.keys);
        for key in slip.keys.as_slice() {
            self.rows.entry(*key).or_default().queue.push_back(ticket);
        }
        let free = self.rows_are_free(ticket, &slip.keys);
        let entry = Entry {
            ticket,
            slip,
            arrived: now,
            unit,
        };
        self.waiting.insert(ticket, entry);
        if free {
            self.make_ready(now, ticket);
        }
        ticket
    }

    /// Is the unit the first of each of its rows, and none of them in flight?
    fn rows_are_free(&self, ticket: Ticket, keys: &Keys) -> bool {
        let mut rows = keys.as_slice().iter().map(|key| self.rows.get(key));
        rows.all(|row| row.is_some_and(|r| !r.in_flight() && r.queue.front() == Some(&ticket)))
    }

    /// A connection is free and a unit arrives: may it start without standing in the line? If so, its row is in
    /// flight until [`Line::land`].
    pub fn start_at_once(&mut self, slip: &Slip) -> bool {
        let waits = self.limits.max_wait > Duration::ZERO && slip.group.is_some();
        let keys = slip.keys.as_slice();
        if waits || self.has_ready() || keys.iter().any(|key| self.rows.contains_key(key)) {
            return false;
        }
        for key in keys {
            self.rows.entry(*key).or_default().flight = Flight::Begun;
        }
        true
    }

    /// A connection is free: who leaves? Their rows are in flight until [`Line::land`].
    pub fn next(&mut self, now: Instant) -> Option<Departure<T>> {
        self.release_held(now);
        let (&first, &Ready { group, .. }) = self.ready.first_key_value()?;
        let most = match group {
            None => 1,
            Some(id) if id.strategy == Strategy::Pipeline => self.limits.pipeline_depth_max,
            Some(_) => self.limits.group_size_max,
        };
        let mut entries = Vec::new();
        let fences = self.fences(first, group, most);
        let mates: Vec<Ticket> = match group.and_then(|id| self.mates.get(&id)) {
            Some(mates) => mates
                .iter()
                .take(most)
                .take_while(|m| fences.barrier.is_none_or(|b| **m < b))
                .copied()
                .collect(),
            None => vec![first],
        };
        let mut further_rows = 0;
        for ticket in mates {
            self.take_row(ticket, group, most, fences.behind(ticket), &mut entries);
            further_rows += entries.last().map_or(0, |e| e.slip.keys.further());
            if entries.len() + further_rows >= most {
                break;
            }
        }
        entries.sort_by_key(|e: &Entry<T>| e.ticket);
        Some(Departure { entries })
    }

    /// Where a group ends. A barrier of its own is none to it, as they leave in order on the same trip, unless it would
    /// overtake a write that stays. No look is taken behind so many of its own as fill the group.
    fn fences(&self, first: Ticket, group: Option<GroupId>, most: usize) -> Fences {
        let mut fences = Fences::default();
        let behind = (Bound::Excluded(first), Bound::Unbounded);
        let table = self.waiting.get(&first).and_then(|e| e.slip.table);
        // A chain may be made of writes to several tables.
        let table = table.filter(|_| group.is_none_or(|id| id.strategy != Strategy::Chain));
        let elsewhere =
            |slip: &Slip| slip.table.is_some() && table.is_some() && slip.table != table;
        let mut waiting = self.waiting.range(behind).peekable();
        let mut somebody_stays = group.is_none();
        for &barrier in self.barriers.range(behind) {
            let Some(entry) = self.waiting.get(&barrier) else {
                continue;
            };
            if elsewhere(&entry.slip) {
                continue;
            }
            while !somebody_stays
                && let Some((_, other)) = waiting.next_if(|(ticket, _)| **ticket < barrier)
            {
                somebody_stays = !elsewhere(&other.slip) && self.stays(&other.slip, group);
            }
            if somebody_stays || entry.slip.group != group {
                fences.barrier = Some(barrier);
                break;
            }
            fences.own.push(barrier);
            if fences.own.len() >= most {
                break;
            }
        }
        fences
    }

    /// A write that does not, or perhaps not, leave with the group.
    fn stays(&self, slip: &Slip, group: Option<GroupId>) -> bool {
        let may_leave = match &slip.keys {
            Keys::Unknown if !slip.barrier => return false,
            Keys::Unknown => true,
            Keys::One(key) => {
                let row = self.rows.get(key);
                row.is_none_or(|row| !row.in_flight() && row.several == 0)
            }
            Keys::Several(_) => false,
        };
        slip.group != group || !may_leave
    }

    /// Takes a ready unit and, if it is on one row, those right behind it there that belong to the same group.
    fn take_row(
        &mut self,
        ticket: Ticket,
        group: Option<GroupId>,
        most: usize,
        barrier: Option<Ticket>,
        entries: &mut Vec<Entry<T>>,
    ) {
        self.unready(ticket);
        let Some(entry) = self.waiting.remove(&ticket) else {
            return;
        };
        self.forget_several(ticket, &entry.slip.keys);
        for key in entry.slip.keys.as_slice() {
            if let Some(row) = self.rows.get_mut(key) {
                row.flight = Flight::Begun;
                row.queue.pop_front();
            }
        }
        let row = match &entry.slip.keys {
            Keys::One(key) => self.rows.get_mut(key),
            Keys::Unknown | Keys::Several(_) => None,
        };
        entries.push(entry);
        let Some(row) = row else {
            return;
        };
        while let Some(&next) = row.queue.front() {
            match self.waiting.get(&next) {
                Some(entry) if group.is_none() || entry.slip.group != group => break,
                Some(Entry { slip, .. }) if matches!(slip.keys, Keys::Several(_)) => break,
                Some(_) if entries.len() >= most || barrier.is_some_and(|b| next > b) => break,
                Some(_) => entries.extend(self.waiting.remove(&next)),
                None => {} // withdrawn
            }
            row.queue.pop_front();
        }
    }

    /// Rows that were in flight are free again; whoever waits for them may leave.
    pub fn land(&mut self, now: Instant, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            if let Some(row) = self.rows.get_mut(&key) {
                row.flight = Flight::None;
                self.promote(now, key);
            }
        }
    }

    /// The first unit of a row that is not in flight becomes ready.
    fn promote(&mut self, now: Instant, key: Key) {
        let Some(row) = self.rows.get_mut(&key) else {
            return;
        };
        while let Some(front) = row.queue.front().copied() {
            if let Some(entry) = self.waiting.get(&front) {
                if self.rows_are_free(front, &entry.slip.keys) {
                    self.make_ready(now, front);
                }
                return;
            }
            row.queue.pop_front();
        }
        if !row.in_flight() {
            self.rows.remove(&key);
        }
    }

    /// Units that left come back to their places, before [`Line::land`] frees their rows; their slips may have
    /// changed, their keys may not. Not yet counted as waiting by anyone but the line.
    pub fn put_back(&mut self, now: Instant, mut entries: Vec<Entry<T>>) {
        entries.sort_by_key(|e| e.ticket);
        for entry in entries.into_iter().rev() {
            let (ticket, keys) = (entry.ticket, entry.slip.keys.clone());
            if entry.slip.barrier {
                self.barriers.insert(ticket);
            }
            self.waiting.insert(ticket, entry);
            self.note_several(now, ticket, &keys);
            for key in keys.as_slice() {
                self.rows.entry(*key).or_default().queue.push_front(ticket);
            }
            if keys == Keys::Unknown {
                self.make_ready(now, ticket);
            }
        }
    }

    /// A cohort that no other unit belongs to.
    pub fn new_cohort(&mut self) -> u64 {
        self.next_cohort += 1;
        self.next_cohort
    }

    /// A unit leaves the line without being served: its client left or cancelled. `None`: it has departed.
    pub fn withdraw(&mut self, now: Instant, ticket: Ticket) -> Option<Entry<T>> {
        self.unready(ticket);
        let entry = self.waiting.remove(&ticket)?;
        self.forget_several(ticket, &entry.slip.keys);
        for key in entry.slip.keys.as_slice() {
            self.promote(now, *key);
        }
        Some(entry)
    }

    /// Takes out every unit that could have left since `deadline` or longer. Who waits for a row is not late: alone it
    /// would wait for the row, too.
    pub fn expire(&mut self, now: Instant, deadline: Instant) -> Vec<Entry<T>> {
        let late = self
            .ready
            .iter()
            .filter(|(_, ready)| ready.since <= deadline);
        let late: Vec<Ticket> = late.map(|(ticket, _)| *ticket).collect();
        late.into_iter()
            .filter_map(|ticket| self.withdraw(now, ticket))
            .collect()
    }

    /// Units that could leave and have been here since `deadline` or longer, in order of arrival.
    pub fn late_mut(&mut self, deadline: Instant) -> impl Iterator<Item = &mut T> {
        let ready = &self.ready;
        let old = self.waiting.iter_mut();
        old.take_while(move |(_, entry)| entry.arrived <= deadline)
            .filter(|(ticket, _)| ready.contains_key(ticket))
            .map(|(_, entry)| &mut entry.unit)
    }

    /// Takes out everybody.
    pub fn drain(&mut self, now: Instant) -> Vec<Entry<T>> {
        let mut all: Vec<Ticket> = self.waiting.keys().copied().collect();
        all.sort_unstable();
        all.into_iter()
            .filter_map(|ticket| self.withdraw(now, ticket))
            .collect()
    }

    /// When a unit that waits for mates may leave, if any does.
    pub fn held_until(&self) -> Option<Instant> {
        self.held.first().map(|(until, _)| *until)
    }

    fn make_ready(&mut self, now: Instant, ticket: Ticket) {
        let Some(entry) = self.waiting.get(&ticket) else {
            return;
        };
        let group = entry.slip.group;
        let waits = group.is_some_and(|id| !id.strategy.reads() && id.cohort == 0);
        let until = entry.arrived + self.limits.max_wait;
        if waits && until > now {
            self.held.insert((until, ticket));
        } else {
            self.set_ready(now, ticket, group);
        }
    }

    fn set_ready(&mut self, now: Instant, ticket: Ticket, group: Option<GroupId>) {
        let since = self.ready.get(&ticket).map_or(now, |ready| ready.since);
        self.ready.insert(ticket, Ready { group, since });
        if let Some(id) = group {
            self.mates.entry(id).or_default().insert(ticket);
        }
    }

    /// Units that have waited for mates long enough may leave.
    pub fn release_held(&mut self, now: Instant) {
        while let Some(&(until, ticket)) = self.held.first() {
            if until > now {
                return;
            }
            self.held.pop_first();
            let group = self.waiting.get(&ticket).and_then(|e| e.slip.group);
            self.set_ready(now, ticket, group);
        }
    }

    fn unready(&mut self, ticket: Ticket) {
        self.barriers.remove(&ticket);
        if let Some(Ready {
            group: Some(id), ..
        }) = self.ready.remove(&ticket)
            && let Some(mates) = self.mates.get_mut(&id)
        {
            mates.remove(&ticket);
            if mates.is_empty() {
                self.mates.remove(&id);
            }
        }
        if let Some(entry) = self.waiting.get(&ticket).filter(|_| !self.held.is_empty()) {
            self.held
                .remove(&(entry.arrived + self.limits.max_wait, ticket));
        }
    }
}
