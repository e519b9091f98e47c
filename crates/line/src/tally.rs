//! What became of the units of each template in a pool, counted: how they travelled, what that saved, and why some
//! came back. A unit carries its template's tally along, so counting takes no lock and looks nothing up; only a
//! template that is new to the pool is looked up in [`Tallies`].

mod census;
mod names;
mod sizes;
mod table;
#[cfg(test)]
mod tests;

pub use census::Census;
pub use names::{NAMED_AFTER_UNITS, NAMES_MAX, Names};
pub use sizes::{GroupSizes, SIZE_BOUNDS, Sizes};
pub use table::{Called, Seen, table};

use crate::line::Strategy;
use crate::template::Template;
use names::Name;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Templates that are counted each by itself, per pool. Of more, the least used are counted together.
pub const TALLIES_MAX: usize = 1_000;

/// What metrics call the templates that have no name.
pub const OTHER: &str = "other";

/// Why a unit that left with a group came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fallback {
    /// A member's error undid the group, or stopped it before this one.
    Error,
    /// A lock, or a statement, took longer than a group waits.
    Timeout,
    /// DDL has changed the table since the catalog was asked.
    Ddl,
    /// Its row is missing, or an outsider has locked it.
    Busy,
    /// There was no row for it, and PostgreSQL may raise an error all the same.
    NoRow,
    /// PostgreSQL refuses the group's statement, not a member.
    Refused,
    /// One at a time would have come out otherwise.
    Uncertain,
    /// A read in front of it took too long.
    Stalled,
    /// The answer that it would have shared is too long to be kept.
    TooLong,
    /// The group could not be put together: its settings are refused, or its queues differ after all.
    Unfit,
    /// The connection was lost under a read.
    Lost,
}

impl Fallback {
    /// Each, and what users call it.
    const NAMES: [(Self, &str); 11] = [
        (Self::Error, "error"),
        (Self::Timeout, "timeout"),
        (Self::Ddl, "ddl"),
        (Self::Busy, "busy"),
        (Self::NoRow, "no_row"),
        (Self::Refused, "refused"),
        (Self::Uncertain, "uncertain"),
        (Self::Stalled, "stalled"),
        (Self::TooLong, "too_long"),
        (Self::Unfit, "unfit"),
        (Self::Lost, "lost"),
    ];
}

/// The units of a template that travelled by one strategy.
#[derive(Debug, Default)]
struct Trips {
    units: AtomicU64,
    groups: AtomicU64,
    largest_group: AtomicU64,
    rows_written: AtomicU64,
    commits_saved: AtomicU64,
    /// In the order of [`Fallback::NAMES`].
    fallbacks: [AtomicU64; Fallback::NAMES.len()],
}

/// What was counted of a template's units that travelled by one strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Answered this way.
    pub units: u64,
    /// That answered at least one of them.
    pub groups: u64,
    /// Most units in one group.
    pub largest_group: u64,
    /// `None`: each member's own statement ran.
    pub rows_written: Option<u64>,
    /// `None`: reads.
    pub commits_saved: Option<u64>,
    /// How many came back, by reason; only reasons that there were.
    pub fallbacks: Vec<(&'static str, u64)>,
}

/// Counts of one template in one pool.
#[derive(Debug, Default)]
pub struct Tally {
    /// `None`: of all templates that are not counted by themselves.
    template: Option<Arc<Template>>,
    /// Used so often since it was asked last that its template should have a name.
    earns_name: AtomicBool,
    /// Another one will count the template's next units.
    forgotten: AtomicBool,
    alone: AtomicU64,
    would_have_grouped: AtomicU64,
    pipeline: Trips,
    share: Trips,
    chain: Trips,
    fold: Trips,
    take: Trips,
    merge: Trips,
}

impl Tally {
    fn of(template: &Arc<Template>) -> Arc<Self> {
        Arc::new(Self {
            template: Some(Arc::clone(template)),
            ..Self::default()
        })
    }

    /// A unit travels alone.
    pub fn goes_alone(&self) {
        let before = self.alone.fetch_add(1, Ordering::Relaxed);
        if (before + 1).is_multiple_of(NAMED_AFTER_UNITS) {
            self.earns_name.store(true, Ordering::Relaxed);
        }
    }

    /// A unit must wait that could travel with others if it had a hint or the switch were on.
    pub fn would_have_grouped(&self) {
        self.would_have_grouped.fetch_add(1, Ordering::Relaxed);
    }

    /// A unit left with a group and came back.
    pub fn came_back(&self, strategy: Strategy, why: Fallback) {
        if let Some(count) = self.trips(strategy).fallbacks.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What its template is; `None`: it counts several.
    pub fn template(&self) -> Option<&Arc<Template>> {
        self.template.as_ref()
    }

    /// The template's next unit counts on it; else [`Tallies::of`] tells on which.
    pub fn is_current(&self) -> bool {
        !self.forgotten.load(Ordering::Relaxed) && !self.earns_name.load(Ordering::Relaxed)
    }

    fn trips(&self, strategy: Strategy) -> &Trips {
        match strategy {
            Strategy::Pipeline => &self.pipeline,
            Strategy::Share => &self.share,
            Strategy::Chain => &self.chain,
            Strategy::Fold => &self.fold,
            Strategy::Take => &self.take,
            Strategy::Merge => &self.merge,
        }
    }

    /// Units that travelled alone.
    pub fn alone(&self) -> u64 {
        load(&self.alone)
    }

    /// Units that had to wait and would have travelled with others.
    pub fn missed(&self) -> u64 {
        load(&self.would_have_grouped)
    }

    /// What was counted of one strategy; `None`: nothing.
    pub fn counted(&self, strategy: Strategy) -> Option<Counted> {
        let trips = self.trips(strategy);
        let fallbacks = trips.fallbacks();
        if load(&trips.units) == 0 && fallbacks.is_empty() {
            return None;
        }
        let one_statement = matches!(strategy, Strategy::Fold | Strategy::Take | Strategy::Merge);
        Some(Counted {
            units: load(&trips.units),
            groups: load(&trips.groups),
            largest_group: load(&trips.largest_group),
            rows_written: one_statement.then(|| load(&trips.rows_written)),
            commits_saved: (!strategy.reads()).then(|| load(&trips.commits_saved)),
            fallbacks,
        })
    }

    /// All its units.
    pub fn units(&self) -> u64 {
        let trips = Strategy::ALL.map(|strategy| load(&self.trips(strategy).units));
        load(&self.alone) + trips.iter().sum::<u64>()
    }

    /// Adds what another one has counted.
    fn add(&self, other: &Self) {
        add(&self.alone, load(&other.alone));
        add(&self.would_have_grouped, load(&other.would_have_grouped));
        for strategy in Strategy::ALL {
            self.trips(strategy).add(other.trips(strategy));
        }
    }
}

impl Trips {
    fn fallbacks(&self) -> Vec<(&'static str, u64)> {
        let counts = Fallback::NAMES.iter().zip(&self.fallbacks);
        let named = counts.map(|((_, name), count)| (*name, load(count)));
        named.filter(|(_, count)| *count > 0).collect()
    }

    fn add(&self, other: &Self) {
        add(&self.units, load(&other.units));
        add(&self.groups, load(&other.groups));
        let largest = load(&other.largest_group);
        self.largest_group.fetch_max(largest, Ordering::Relaxed);
        add(&self.rows_written, load(&other.rows_written));
        add(&self.commits_saved, load(&other.commits_saved));
        for (count, more) in self.fallbacks.iter().zip(&other.fallbacks) {
            add(count, load(more));
        }
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// The members of a group that were served, template by template; counted when it is over.
#[derive(Debug, Default)]
pub struct Served(Vec<(Arc<Tally>, u64)>);

impl Served {
    /// A member has its answer.
    pub fn one(&mut self, tally: &Arc<Tally>) {
        let mut parts = self.0.iter_mut();
        match parts.find(|(known, _)| Arc::ptr_eq(known, tally)) {
            Some((_, units)) => *units += 1,
            None => self.0.push((Arc::clone(tally), 1)),
        }
    }

    /// The group is over; says how many were served. `rows` is what its statement has written; `committed`: with one commit
    /// for all.
    pub fn count(&mut self, strategy: Strategy, rows: u64, committed: bool) -> u64 {
        let mut all = 0;
        // The one commit, and the rows of the one statement, are the first template's.
        let mut commits = 1;
        let mut rows = rows;
        for (tally, units) in self.0.drain(..) {
            all += units;
            let trips = tally.trips(strategy);
            tally.earns_name.store(true, Ordering::Relaxed);
            add(&trips.units, units);
            add(&trips.groups, 1);
            trips.largest_group.fetch_max(units, Ordering::Relaxed);
            if committed {
                add(&trips.commits_saved, units - std::mem::take(&mut commits));
                add(&trips.rows_written, std::mem::take(&mut rows));
            }
        }
        all
    }
}

/// The tallies of a pool. Nothing that was counted is ever lost, not even by who holds a tally that is forgotten.
#[derive(Debug, Default)]
pub struct Tallies {
    /// By template.
    known: HashMap<u64, Shown>,
    /// Forgotten ones on which units may still count: they are among the others until nobody holds them.
    leaving: Vec<Arc<Tally>>,
    others: Arc<Tally>,
    names: Arc<Names>,
    /// By what metrics call them: several templates may have one name.
    named: HashMap<String, Weak<Name>>,
}

/// A template that is shown by itself; in metrics only what was counted since it has a name.
#[derive(Debug)]
struct Shown {
    tally: Arc<Tally>,
    name: Option<Arc<Name>>,
    /// What it counted before it had a name.
    unnamed: Option<Arc<Tally>>,
    /// Its units when some were forgotten last.
    units_then: u64,
}

impl Shown {
    fn new(template: &Arc<Template>, name: Option<Arc<Name>>) -> Self {
        Self {
            tally: Tally::of(template),
            name,
            unnamed: None,
            units_then: 0,
        }
    }

    fn units(&self) -> u64 {
        let unnamed = self.unnamed.as_ref().map_or(0, |tally| tally.units());
        self.tally.units() + unnamed
    }
}

impl Tallies {
    /// None yet; their templates are named as long as there are names.
    pub fn new(names: Arc<Names>) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// The tally on which the template's next unit counts.
    pub fn of(&mut self, template: &Arc<Template>) -> Arc<Tally> {
        if let Some(shown) = self.known.get(&template.id) {
            let earns_name = shown.tally.earns_name.swap(false, Ordering::Relaxed);
            if !earns_name || shown.name.is_some() {
                return Arc::clone(&shown.tally);
            }
            return self.go_on_named(template);
        }
        if self.known.len() >= TALLIES_MAX {
            self.forget_half();
        }
        let named = self.named.get(template.name());
        let shown = Shown::new(template, named.and_then(Weak::upgrade));
        let tally = Arc::clone(&shown.tally);
        self.known.insert(template.id, shown);
        tally
    }

    /// Its template has earned a name: what it counts from now on is shown under that, if there is one left. What it has
    /// counted so far stays among the others, else their sum would fall.
    fn go_on_named(&mut self, template: &Arc<Template>) -> Arc<Tally> {
        let name = self.name(template.name());
        let shown = self.known.entry(template.id);
        let shown = shown.or_insert_with(|| Shown::new(template, None));
        if name.is_some() {
            let unnamed = std::mem::replace(&mut shown.tally, Tally::of(template));
            unnamed.forgotten.store(true, Ordering::Relaxed);
            (shown.name, shown.unnamed) = (name, Some(unnamed));
        }
        Arc::clone(&shown.tally)
    }

    fn name(&mut self, text: &str) -> Option<Arc<Name>> {
        if let Some(name) = self.named.get(text).and_then(Weak::upgrade) {
            return Some(name);
        }
        let name = Arc::new(self.names.take()?);
        self.named.insert(text.to_owned(), Arc::downgrade(&name));
        Some(name)
    }

    /// What the half has counted that was used less since the last time is the others' from now on. Templates of one name
    /// stay or go together, as the most used of them does: what is shown under it must not fall.
    fn forget_half(&mut self) {
        let mut by_name: HashMap<&str, (u64, Vec<u64>)> = HashMap::new();
        for (id, shown) in &mut self.known {
            let units = shown.units();
            let used = units - std::mem::replace(&mut shown.units_then, units);
            let (most, ids) = by_name.entry(shown.tally.name()).or_default();
            *most = used.max(*most);
            ids.push(*id);
        }
        let mut by_use: Vec<(u64, Option<u64>, Vec<u64>)> = Vec::with_capacity(by_name.len());
        by_use.extend(
            by_name
                .into_values()
                .map(|(used, ids)| (used, ids.iter().min().copied(), ids)),
        );
        by_use.sort_unstable();
        let mut ids = by_use.into_iter().map(|(.., ids)| ids);
        while self.known.len() > TALLIES_MAX / 2
            && let Some(ids) = ids.next()
        {
            ids.iter().for_each(|id| self.forget(*id));
        }
        self.named.retain(|_, name| name.strong_count() > 0);
        self.settle();
    }

    fn forget(&mut self, id: u64) {
        if let Some(Shown { tally, unnamed, .. }) = self.known.remove(&id) {
            tally.forgotten.store(true, Ordering::Relaxed);
            self.leaving.extend(unnamed.into_iter().chain([tally]));
        }
    }

    /// On what nobody holds nobody counts any more.
    fn settle(&mut self) {
        for tally in std::mem::take(&mut self.leaving) {
            match Arc::try_unwrap(tally) {
                Ok(tally) => self.others.add(&tally),
                Err(held) => self.leaving.push(held),
            }
        }
    }

    /// All of them, to be looked at at leisure: what is counted meanwhile is neither lost nor there twice.
    pub fn census(&self) -> Census {
        let others = self.leaving.iter().chain([&self.others]);
        Census::new(self.known.values(), others)
    }
}
