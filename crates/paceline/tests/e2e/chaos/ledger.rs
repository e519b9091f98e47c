//! The answers to each client, and their comparison with the content of the database.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::harness::raw::RawClient;

/// The number of rows that updates and upserts change.
pub(crate) const KEYS: i32 = 3;

/// An operation of a client; every write leaves its tag in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Adds 1 to a row of `hot`, and the tag to its `seen`.
    Update,
    /// The same in `counts`, where the row may be missing.
    Upsert,
    /// Takes a row of `queue`.
    Take,
    /// Adds a row to `journal`.
    Insert,
    /// The same by a statement that fits no other strategy than a chain.
    InsertSelect,
    /// An `Update` and an `Insert` in a transaction.
    Transaction,
    /// Reads a row of `hot`.
    Read,
    /// The same by a statement that takes longer.
    LongRead,
}

/// The answer to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done; of updates, upserts and takes the number that was returned.
    Acknowledged(i32),
    /// `seen` of the row.
    Found(Vec<i32>),
    /// The transaction was rolled back.
    Refused(String),
    /// The connection was lost first.
    Unknown,
    Hung,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) tag: i32,
    pub(crate) key: i32,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) outcome: Outcome,
}

/// The entries of all clients of a run.
#[derive(Default)]
pub(crate) struct Ledger {
    entries: Mutex<Vec<Entry>>,
    tags: AtomicI32,
    ticks: AtomicU64,
    acknowledged: AtomicU64,
}

/// The numbers of clients' operations of one kind.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    /// Committed.
    pub(crate) done: usize,
    /// Rolled back, or failed, as the client wanted.
    pub(crate) undone: usize,
    pub(crate) unknown: usize,
    /// Tables that were read, or notifications that have arrived.
    pub(crate) read: usize,
}

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acknowledged: usize,
    pub(crate) refused: BTreeMap<String, usize>,
    pub(crate) unknown: usize,
    pub(crate) copies: Tally,
    pub(crate) notices: Tally,
    pub(crate) lost: Vec<String>,
    pub(crate) twice: Vec<String>,
    pub(crate) wrong: Vec<String>,
    pub(crate) hung: Vec<String>,
}

/// The content of the database: the tags by row, in the order of the writes.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) hot: BTreeMap<i32, Vec<i32>>,
    pub(crate) counts: BTreeMap<i32, Vec<i32>>,
    /// Row of the queue and tag.
    pub(crate) taken: Vec<(i32, i32)>,
    pub(crate) journal: Vec<i32>,
    /// Rows whose counter does not agree with their tags.
    pub(crate) torn: i64,
}

impl Ledger {
    pub(crate) fn tag(&self) -> i32 {
        self.tags(1)
    }

    /// The first of `count` tags.
    pub(crate) fn tags(&self, count: i32) -> i32 {
        self.tags.fetch_add(count, Ordering::SeqCst) + 1
    }

    pub(crate) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn add(&self, entry: Entry) {
        if matches!(entry.outcome, Outcome::Acknowledged(_) | Outcome::Found(_)) {
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        self.entries.lock().unwrap().push(entry);
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.undone += other.undone;
        self.unknown += other.unknown;
        self.read += other.read;
    }
}

impl Findings {
    pub(crate) fn refuse(&mut self, state: &str) {
        *self.refused.entry(state.to_owned()).or_default() += 1;
    }

    /// The lists that must be empty: lost, twice, wrong, hung.
    pub(crate) fn lists(&self) -> [&[String]; 4] {
        [&self.lost, &self.twice, &self.wrong, &self.hung].map(Vec::as_slice)
    }
}

impl Found {
    pub(crate) fn read(direct: &mut RawClient) -> Self {
        let rows = |direct: &mut RawClient, sql: &str| -> Vec<Vec<i32>> {
            let numbers = |row: Vec<Option<String>>| {
                let texts = row.into_iter().flatten();
                texts.flat_map(|text| parse_tags(&text)).collect()
            };
            direct.ok(sql).rows().into_iter().map(numbers).collect()
        };
        let by_key = |rows: Vec<Vec<i32>>| {
            let pairs = rows.into_iter().map(|row| (row[0], row[1..].to_vec()));
            pairs.collect()
        };
        Self {
            hot: by_key(rows(direct, "SELECT id, seen FROM hot")),
            counts: by_key(rows(direct, "SELECT id, seen FROM counts")),
            taken: rows(
                direct,
                "SELECT id, taken_by FROM queue WHERE taken_by IS NOT NULL",
            )
            .into_iter()
            .map(|row| (row[0], row[1]))
            .collect(),
            journal: rows(direct, "SELECT tag FROM journal")
                .into_iter()
                .flatten()
                .collect(),
            torn: direct.number(
                "SELECT (SELECT count(*) FROM hot WHERE n <> cardinality(seen)) \
                 + (SELECT count(*) FROM counts WHERE n <> cardinality(seen))",
            ),
        }
    }
}

/// The numbers of an array of PostgreSQL, or the only number.
pub(crate) fn parse_tags(text: &str) -> Vec<i32> {
    let inner = text.trim_matches(['{', '}']);
    let numbers = inner.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// Compares the ledger with the database.
pub(crate) fn compare(entries: &[Entry], found: &Found) -> Findings {
    let mut findings = Findings::default();
    if found.torn > 0 {
        let said = format!("{} rows do not agree with themselves", found.torn);
        findings.wrong.push(said);
    }
    for entry in entries {
        match &entry.outcome {
            Outcome::Acknowledged(_) | Outcome::Found(_) => findings.acknowledged += 1,
            Outcome::Refused(state) => findings.refuse(state),
            Outcome::Unknown => findings.unknown += 1,
            Outcome::Hung => findings.hung.push(format!("{entry:?}")),
        }
        check(entry, found, &mut findings);
    }
    let known: BTreeMap<i32, &Entry> = entries.iter().map(|entry| (entry.tag, entry)).collect();
    for (key, tags) in found.hot.iter().chain(&found.counts) {
        check_order(*key, tags, &known, &mut findings);
    }
    let journal = found.journal.iter();
    let taken = found.taken.iter().map(|(_, tag)| tag);
    for tag in journal.chain(taken) {
        if !known.contains_key(tag) {
            findings.wrong.push(format!("no client has written {tag}"));
        }
    }
    findings
}

/// Checks one entry: the number and the places of its tags.
fn check(entry: &Entry, found: &Found, findings: &mut Findings) {
    let nothing = Vec::new();
    let hot = found.hot.get(&entry.key).unwrap_or(&nothing);
    let counts = found.counts.get(&entry.key).unwrap_or(&nothing);
    let tag = entry.tag;
    let in_row = |row: &[i32]| row.iter().filter(|seen| **seen == tag).count();
    let places: &[usize] = &match entry.kind {
        Kind::Update => vec![in_row(hot)],
        Kind::Upsert => vec![in_row(counts)],
        Kind::Take => vec![found.taken.iter().filter(|(_, by)| *by == tag).count()],
        Kind::Insert | Kind::InsertSelect => vec![in_row(&found.journal)],
        Kind::Transaction => vec![in_row(hot), in_row(&found.journal)],
        Kind::Read | Kind::LongRead => {
            if let Outcome::Found(tags) = &entry.outcome
                && !hot.starts_with(tags)
            {
                findings
                    .wrong
                    .push(format!("{entry:?} is no past of {hot:?}"));
            }
            return;
        }
    };
    if places.iter().any(|count| *count > 1) {
        findings.twice.push(format!("{entry:?}"));
    }
    if places.iter().any(|count| *count != places[0]) {
        findings.wrong.push(format!("a half of {entry:?} is there"));
    }
    match &entry.outcome {
        Outcome::Acknowledged(number) => {
            if places.contains(&0) {
                findings.lost.push(format!("{entry:?}"));
            }
            let place = usize::try_from(*number - 1).unwrap_or(usize::MAX);
            let right = match entry.kind {
                Kind::Update | Kind::Transaction => hot.get(place) == Some(&tag),
                Kind::Upsert => counts.get(place) == Some(&tag),
                Kind::Take => found.taken.contains(&(*number, tag)),
                _ => true,
            };
            if !right {
                findings.wrong.push(format!("{entry:?} is elsewhere"));
            }
        }
        Outcome::Refused(_) if places.iter().any(|count| *count > 0) => {
            findings.wrong.push(format!("{entry:?} was made"));
        }
        _ => {}
    }
}

/// The order of a row's tags is a serial order: no write follows one that began after the write was acknowledged.
fn check_order(key: i32, tags: &[i32], known: &BTreeMap<i32, &Entry>, findings: &mut Findings) {
    let mut latest_begin = 0;
    let mut seen = BTreeSet::new();
    for tag in tags {
        let Some(entry) = known.get(tag).filter(|entry| entry.key == key) else {
            let said = format!("no client has written {tag} to row {key}");
            findings.wrong.push(said);
            continue;
        };
        if seen.insert(*tag)
            && matches!(entry.outcome, Outcome::Acknowledged(_))
            && entry.ended < latest_begin
        {
            findings.wrong.push(format!("{entry:?} is out of order"));
        }
        latest_begin = latest_begin.max(entry.begun);
    }
    // A read that begins after a write was acknowledged finds it.
    for read in known.values().filter(|entry| entry.key == key) {
        if let Outcome::Found(past) = &read.outcome {
            let missed = tags
                .iter()
                .skip(past.len())
                .filter_map(|tag| known.get(tag));
            let stale = missed.into_iter().find(|write| {
                matches!(write.kind, Kind::Update | Kind::Transaction)
                    && matches!(write.outcome, Outcome::Acknowledged(_))
                    && write.ended < read.begun
            });
            if let Some(write) = stale {
                findings.wrong.push(format!("{read:?} misses {write:?}"));
            }
        }
    }
}
