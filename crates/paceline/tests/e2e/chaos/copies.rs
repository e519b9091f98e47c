//! The answers to clients that copy rows, and their comparison with the rows of the database.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::ledger::Findings;
use crate::harness::raw::RawClient;

/// The end of a COPY FROM STDIN that the client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Commit,
    Rollback,
    /// The client sends CopyFail.
    CopyFail,
    /// The last row cannot be read.
    BadRow,
}

/// The answer to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer that the ending demands.
    AsAsked,
    /// Another error.
    Refused(String),
    /// An answer that is no error and not the one that the ending demands.
    Wrong(String),
    /// The connection was lost first.
    Unknown,
}

/// A COPY FROM STDIN of the rows `(tag, 1)` to `(tag, rows)`.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) tag: i32,
    pub(crate) rows: i32,
    pub(crate) ending: Ending,
    /// Whether the message that commits may have been sent.
    pub(crate) asked: bool,
    pub(crate) ended: u64,
    pub(crate) outcome: Outcome,
}

/// The second columns of the rows by their tags.
pub(crate) type Rows = BTreeMap<i32, Vec<i32>>;

/// A COPY TO STDOUT that was answered to its end.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) rows: Rows,
}

/// All COPY of a run.
#[derive(Default)]
pub(crate) struct Copies {
    loads: Mutex<Vec<Load>>,
    readings: Mutex<Vec<Reading>>,
}

impl Copies {
    pub(crate) fn add(&self, load: Load) {
        self.loads.lock().unwrap().push(load);
    }

    pub(crate) fn add_reading(&self, reading: Reading) {
        self.readings.lock().unwrap().push(reading);
    }

    /// The number of COPY FROM STDIN that are committed, and of COPY TO STDOUT.
    pub(crate) fn done(&self) -> (usize, usize) {
        let loads = self.loads.lock().unwrap();
        let committed = loads.iter().filter(|load| load.is_committed()).count();
        (committed, self.readings.lock().unwrap().len())
    }

    pub(crate) fn compare(&self, found: &Rows, findings: &mut Findings) {
        let (loads, readings) = (self.loads.lock().unwrap(), self.readings.lock().unwrap());
        compare(&loads, &readings, found, findings);
    }
}

impl Load {
    fn is_committed(&self) -> bool {
        self.ending == Ending::Commit && self.outcome == Outcome::AsAsked
    }

    /// Whether its rows may be in the database.
    fn may_be_there(&self) -> bool {
        let is_open = matches!(self.outcome, Outcome::AsAsked | Outcome::Unknown);
        self.ending == Ending::Commit && self.asked && is_open
    }
}

/// The rows in the database.
pub(crate) fn read(direct: &mut RawClient) -> Rows {
    let reply = direct.ok("SELECT tag, part FROM loaded");
    let numbers = |row: &Vec<Option<String>>| match &row[..] {
        [Some(tag), Some(part)] => (tag.parse().unwrap(), part.parse().unwrap()),
        _ => panic!("{row:?}"),
    };
    by_tag(reply.rows().iter().map(numbers))
}

pub(crate) fn by_tag(pairs: impl Iterator<Item = (i32, i32)>) -> Rows {
    let mut rows = Rows::new();
    for (tag, part) in pairs {
        rows.entry(tag).or_default().push(part);
    }
    rows.values_mut().for_each(|parts| parts.sort_unstable());
    rows
}

fn compare(loads: &[Load], readings: &[Reading], found: &Rows, findings: &mut Findings) {
    for load in loads {
        match &load.outcome {
            Outcome::AsAsked if load.ending == Ending::Commit => findings.copies.done += 1,
            Outcome::AsAsked => findings.copies.undone += 1,
            Outcome::Refused(state) => findings.refuse(state),
            Outcome::Wrong(_) => findings.wrong.push(format!("the answer to {load:?}")),
            Outcome::Unknown => findings.copies.unknown += 1,
        }
        if load.is_committed() && !found.contains_key(&load.tag) {
            findings.lost.push(format!("the rows of {load:?}"));
        }
    }
    let known: BTreeMap<i32, &Load> = loads.iter().map(|load| (load.tag, load)).collect();
    check_rows("the database", found, &known, findings);
    check_readings(readings, found, &known, findings);
}

/// The rows of each COPY are there whole, once, and only if it may have been committed.
fn check_rows(place: &str, rows: &Rows, known: &BTreeMap<i32, &Load>, findings: &mut Findings) {
    for (tag, parts) in rows {
        let Some(load) = known.get(tag) else {
            let said = format!("{place} has rows that no client has loaded: {tag}");
            findings.wrong.push(said);
            continue;
        };
        if !load.may_be_there() {
            let said = format!("{place} has {} rows of {load:?}", parts.len());
            findings.wrong.push(said);
        }
        let mut once = parts.clone();
        once.dedup();
        if once.len() < parts.len() {
            findings
                .twice
                .push(format!("{place} has {parts:?} of {load:?}"));
        }
        if !once.iter().copied().eq(1..=load.rows) {
            let said = format!("{place} has a part of {load:?}: {once:?}");
            findings.wrong.push(said);
        }
    }
}

/// A COPY TO STDOUT finds whole COPYs, and each one that was acknowledged, or found by another one, before it began.
fn check_readings(
    readings: &[Reading],
    found: &Rows,
    known: &BTreeMap<i32, &Load>,
    findings: &mut Findings,
) {
    let committed = known.values().filter(|load| load.is_committed());
    let mut visible: BTreeMap<i32, u64> = committed.map(|load| (load.tag, load.ended)).collect();
    for reading in readings {
        findings.copies.read += 1;
        check_rows("COPY TO STDOUT", &reading.rows, known, findings);
        for tag in reading.rows.keys() {
            let since = visible.entry(*tag).or_insert(reading.ended);
            *since = reading.ended.min(*since);
            if !found.contains_key(tag) {
                let said = format!("{:?}, which COPY TO STDOUT has found", known.get(tag));
                findings.lost.push(said);
            }
        }
    }
    for reading in readings {
        let earlier = visible.iter().filter(|(_, since)| **since < reading.begun);
        for (tag, _) in earlier.filter(|(tag, _)| !reading.rows.contains_key(tag)) {
            let said = format!(
                "COPY TO STDOUT at {} misses {:?}",
                reading.begun,
                known.get(tag)
            );
            findings.wrong.push(said);
        }
    }
}

/// The comparison finds each fault for which it exists.
#[test]
fn the_comparison_of_copies_finds_each_fault() {
    let load = |tag, ending, asked, outcome| Load {
        tag,
        rows: 2,
        ending,
        asked,
        ended: 10,
        outcome,
    };
    let loads = [
        load(1, Ending::Commit, true, Outcome::AsAsked),
        load(2, Ending::Commit, true, Outcome::Unknown),
        load(3, Ending::Commit, false, Outcome::Unknown),
        load(4, Ending::CopyFail, true, Outcome::AsAsked),
        load(5, Ending::Rollback, true, Outcome::Unknown),
        load(
            6,
            Ending::Commit,
            true,
            Outcome::Refused("XX000".to_owned()),
        ),
    ];
    let check = |reading: &[(i32, i32)], begun, found: &[(i32, i32)]| {
        let rows = by_tag(reading.iter().copied());
        let reading = Reading {
            begun,
            ended: begun + 1,
            rows,
        };
        let mut findings = Findings::default();
        let found = by_tag(found.iter().copied());
        compare(&loads, &[reading], &found, &mut findings);
        findings.lists().map(|list| !list.is_empty())
    };
    let (one, two) = ([(1, 1), (1, 2)], [(1, 1), (1, 2), (2, 1), (2, 2)]);
    let (right, lost, twice, wrong) = (
        [false; 4],
        [true, false, false, false],
        [false, true, false, false],
        [false, false, true, false],
    );
    for (reading, found) in [(&[][..], &one[..]), (&one, &one), (&[], &two), (&two, &two)] {
        assert_eq!(check(reading, 0, found), right);
    }
    assert_eq!(check(&[], 0, &[]), lost);
    assert_eq!(check(&[], 0, &[(1, 1), (1, 2), (1, 2)]), twice);
    assert_eq!(check(&[], 0, &[(1, 1)]), wrong);
    for tag in 3..=7 {
        assert_eq!(check(&[], 0, &[(1, 1), (1, 2), (tag, 1), (tag, 2)]), wrong);
    }
    // A COPY TO STDOUT that finds a part, misses one, or finds one that is not there afterwards.
    assert_eq!(check(&[(1, 1)], 0, &one), wrong);
    assert_eq!(check(&[], 11, &one), wrong);
    assert_eq!(check(&two, 0, &one), lost);
}
