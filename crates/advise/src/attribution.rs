//! Attributes each sample of a session that executes a statement to at most one pattern.

use crate::finding::Pattern;
use crate::observation::{Observation, Session, TableCounters};
use crate::statements::{Kind, Known, Statements};
use paceline_sql::Name;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// The samples of one statement that count for one pattern.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) statement: Rc<Known>,
    /// The table, if the pattern has one and it is known.
    pub(crate) table: Option<u32>,
    pub(crate) samples: usize,
    /// Those in which the session waited for a row.
    pub(crate) row_waits: usize,
}

/// All samples, by pattern.
#[derive(Debug, Default)]
pub(crate) struct Attribution {
    /// Number of moments at which sessions were sampled.
    pub(crate) moments: usize,
    /// Sessions that executed a statement, over all moments.
    pub(crate) active: usize,
    /// Sessions that were idle in a transaction, over all moments.
    pub(crate) idle_in_transaction: usize,
    /// Sessions of which the role may see nothing, over all moments.
    pub(crate) hidden: usize,
    shares: BTreeMap<Pattern, Vec<Share>>,
    /// Samples that match no pattern, counted by the event that the sessions waited for.
    pub(crate) others: BTreeMap<String, usize>,
    /// Reads by statement, which [`Pattern::ScatteredRead`] may claim.
    pub(crate) reads: Vec<Share>,
}

impl Attribution {
    /// The statements of a pattern, that with most samples first.
    pub(crate) fn shares(&self, pattern: Pattern) -> &[Share] {
        self.shares.get(&pattern).map_or(&[], Vec::as_slice)
    }

    /// The part of all samples.
    pub(crate) fn part(&self, samples: usize) -> f64 {
        ratio(samples, self.active)
    }

    /// The mean number of sessions.
    pub(crate) fn mean(&self, samples: usize) -> f64 {
        ratio(samples, self.moments)
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    let as_float = |number: usize| u32::try_from(number).map_or(f64::MAX, f64::from);
    as_float(part) / as_float(whole.max(1))
}

/// The tables of an observation by name.
struct Tables<'a>(&'a [TableCounters]);

impl Tables<'_> {
    /// The table of this name; without a schema, the busiest one.
    fn find(&self, name: &Name) -> Option<u32> {
        let named = self.0.iter().filter(|table| {
            table.name == name.name
                && name
                    .schema
                    .as_ref()
                    .is_none_or(|schema| *schema == table.schema)
        });
        let work = |table: &&TableCounters| table.blocks + table.inserted + table.updated;
        named.max_by_key(work).map(|table| table.id)
    }
}

/// Attributes the samples of an observation.
pub(crate) fn attribute(observation: &Observation) -> Attribution {
    let tables = Tables(&observation.after.tables);
    let mut statements = Statements::default();
    let mut attribution = Attribution {
        moments: observation.samples.len(),
        ..Attribution::default()
    };
    let mut analyzed: Vec<(&Session, Rc<Known>)> = Vec::new();
    for session in observation.samples.iter().flatten() {
        match session.state.as_deref() {
            None => attribution.hidden += 1,
            Some("idle in transaction" | "idle in transaction (aborted)") => {
                attribution.idle_in_transaction += 1;
            }
            Some(_) => {}
        }
        if session.state.is_some() {
            let text = observation.statement_of(session);
            analyzed.push((session, statements.of(text)));
        }
    }
    let rules = Rules::of(&analyzed);
    let habits = rules.habits(&analyzed);
    let mut found = HashMap::<(Pattern, *const Known), Share>::new();
    let mut reads = HashMap::<*const Known, Share>::new();
    for (session, known) in analyzed.iter().filter(|(session, _)| session.is_active()) {
        attribution.active += 1;
        let habit = || habits.get(&session.pid).copied();
        let pattern = rules.pattern(session, known);
        let pattern = pattern.or_else(|| habit().filter(|_| known.kind == Kind::Other));
        let new = || {
            let table = first_table(&known.kind).and_then(|table| tables.find(table));
            new_share(known, table)
        };
        let share = match pattern {
            Some(pattern) => found
                .entry((pattern, Rc::as_ptr(known)))
                .or_insert_with(new),
            None if matches!(known.kind, Kind::Read { .. }) => {
                reads.entry(Rc::as_ptr(known)).or_insert_with(new)
            }
            None => {
                let wait = session.wait.clone().unwrap_or_else(|| "CPU".to_owned());
                *attribution.others.entry(wait).or_default() += 1;
                continue;
            }
        };
        share.samples += 1;
        let waits = session.waits_for_row() || session.waits_in_lock_manager();
        share.row_waits += usize::from(waits);
    }
    for ((pattern, _), share) in found {
        attribution.shares.entry(pattern).or_default().push(share);
    }
    attribution.reads = reads.into_values().collect();
    let all = attribution.shares.values_mut();
    for shares in all.chain([&mut attribution.reads]) {
        shares.sort_by(|one, other| {
            let samples = other.samples.cmp(&one.samples);
            samples.then_with(|| one.statement.text.cmp(&other.statement.text))
        });
    }
    attribution
}

fn new_share(known: &Rc<Known>, table: Option<u32>) -> Share {
    Share {
        statement: Rc::clone(known),
        table,
        samples: 0,
        row_waits: 0,
    }
}

fn first_table(kind: &Kind) -> Option<&Name> {
    match kind {
        Kind::Take(table) | Kind::Pick(table) | Kind::Upsert(table) | Kind::Write(table, _) => {
            Some(table)
        }
        Kind::Read { tables, .. } => tables.first(),
        Kind::Other => None,
    }
}

/// Facts that follow from all samples together.
struct Rules<'a> {
    behind_picks: BehindPicks<'a>,
    /// Statements of transactions that read and then write.
    sequences: HashSet<String>,
    /// Statements of which any session waited for a row.
    row_waits: HashSet<String>,
}

impl<'a> Rules<'a> {
    fn of(analyzed: &'a [(&'a Session, Rc<Known>)]) -> Self {
        Self {
            behind_picks: BehindPicks::of(analyzed),
            sequences: read_then_write(analyzed),
            row_waits: waiting_for_rows(analyzed),
        }
    }

    /// The pattern of a sample; `None` if it shows none by itself.
    fn pattern(&self, session: &Session, known: &Known) -> Option<Pattern> {
        let waits = || {
            // Those that wait for the list of waiting sessions (LockManager) wait for the row, too.
            session.waits_for_row()
                || (session.waits_in_lock_manager() && self.row_waits.contains(&known.text))
        };
        match &known.kind {
            Kind::Take(_) | Kind::Pick(_) => Some(Pattern::Queue),
            _ if self.behind_picks.contains(session, known) => Some(Pattern::Queue),
            Kind::Upsert(_) => Some(Pattern::UpsertStore),
            _ if self.sequences.contains(&known.text) => Some(Pattern::UpsertStore),
            _ if waits() => Some(Pattern::HotRow),
            _ => None,
        }
    }

    /// The pattern that each session shows most: that of its COMMITs, too.
    fn habits(&self, analyzed: &[(&Session, Rc<Known>)]) -> HashMap<i32, Pattern> {
        let mut counts = HashMap::<i32, BTreeMap<Pattern, usize>>::new();
        for (session, known) in analyzed {
            if let Some(pattern) = self.pattern(session, known) {
                let of_session = counts.entry(session.pid).or_default();
                *of_session.entry(pattern).or_default() += 1;
            }
        }
        let most = |(pid, patterns): (i32, BTreeMap<Pattern, usize>)| {
            let most = patterns.into_iter().max_by_key(|(_, samples)| *samples);
            most.map(|(pattern, _)| (pid, pattern))
        };
        counts.into_iter().filter_map(most).collect()
    }
}

/// Transactions with a pick, and the writes behind it: takes in two steps.
struct BehindPicks<'a> {
    transactions: HashSet<(i32, &'a str)>,
    /// Writes, which were seen in such a transaction at least once. Those of other transactions were seen without their pick.
    statements: HashSet<&'a str>,
}

impl<'a> BehindPicks<'a> {
    fn of(analyzed: &'a [(&'a Session, Rc<Known>)]) -> Self {
        let picks = analyzed
            .iter()
            .filter(|(_, known)| matches!(known.kind, Kind::Pick(_)));
        let transactions: HashSet<_> = picks
            .filter_map(|(session, _)| session.transaction_id())
            .collect();
        let behind = analyzed.iter().filter(|(session, known)| {
            let transaction = session.transaction_id();
            matches!(known.kind, Kind::Write(..))
                && transaction.is_some_and(|id| transactions.contains(&id))
        });
        Self {
            statements: behind.map(|(_, known)| known.text.as_str()).collect(),
            transactions,
        }
    }

    fn contains(&self, session: &Session, known: &Known) -> bool {
        let transaction = session.transaction_id();
        self.statements.contains(known.text.as_str())
            || transaction.is_some_and(|id| self.transactions.contains(&id))
    }
}

/// The statements of which any session waited for a row.
fn waiting_for_rows(analyzed: &[(&Session, Rc<Known>)]) -> HashSet<String> {
    let waiting = analyzed
        .iter()
        .filter(|(session, _)| session.waits_for_row());
    waiting.map(|(_, known)| known.text.clone()).collect()
}

/// The statements of transactions that read a table and write it afterwards, or lock rows of it and write any: what one upsert could
/// do. A transaction counts if it was seen at both. Queues are no such stores.
fn read_then_write(analyzed: &[(&Session, Rc<Known>)]) -> HashSet<String> {
    let mut transactions = HashMap::<(i32, &str), Vec<&Rc<Known>>>::new();
    for (session, known) in analyzed {
        if let Some(id) = session.transaction_id() {
            let seen = transactions.entry(id).or_default();
            seen.push(known);
        }
    }
    let mut found = HashSet::new();
    for seen in transactions.values() {
        for (place, write) in seen.iter().enumerate() {
            let (Kind::Write(table, _) | Kind::Upsert(table)) = &write.kind else {
                continue;
            };
            let read = seen.iter().take(place).find(|read| match &read.kind {
                Kind::Read { tables, locks } => {
                    matches!(tables.as_slice(), [only] if *locks || only == table)
                }
                _ => false,
            });
            if let Some(read) = read {
                found.extend([read.text.clone(), write.text.clone()]);
            }
        }
    }
    found
}
