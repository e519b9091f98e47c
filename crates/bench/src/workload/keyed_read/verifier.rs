//! What reads must bring, and what they brought.

use crate::show;
use crate::workload::scenario::{Check, Outcome};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a read must bring.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Rows, of any key.
    pub(super) rows: u64,
    /// The sum over the rows (see [`add`]) of each key, from key 1; `None` where rows change meanwhile.
    pub(super) sums: Option<Vec<u64>>,
}

/// Adds a row to the sum over an answer, which is the same in whatever order rows come. Cheap, as the client is measured, too: a
/// few instructions for eight bytes.
pub(super) fn add(sum: &mut u64, row: &[u8]) {
    let mut hasher = FxHasher::default();
    hasher.write(row);
    *sum = sum.wrapping_add(hasher.finish());
}

/// Shared by all clients of a run.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    expected: Expected,
    /// Changes that the table held before the run.
    pub(super) changes_before: i64,
    /// Changes acknowledged in the run.
    pub(super) changes: AtomicU64,
    reads: AtomicU64,
    wrong: AtomicU64,
    first_wrong: OnceLock<String>,
}

impl Verifier {
    pub(super) fn new(expected: Expected, changes_before: i64) -> Self {
        Self {
            expected,
            changes_before,
            ..Self::default()
        }
    }

    /// Compares the answer to a read of `key` with what it must be.
    pub(super) fn enter(&self, key: i64, rows: u64, sum: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if let Some(complaint) = self.complaint(key, rows, sum) {
            self.wrong.fetch_add(1, Ordering::Relaxed);
            self.first_wrong.get_or_init(|| complaint);
        }
    }

    fn complaint(&self, key: i64, rows: u64, sum: u64) -> Option<String> {
        let wanted = self.expected.rows;
        if rows != wanted {
            return Some(format!(
                "key {key} had {} rows instead of {}",
                show::count(rows),
                show::count(wanted)
            ));
        }
        let sums = self.expected.sums.as_ref()?;
        let place = usize::try_from(key - 1).ok();
        let right = place.and_then(|place| sums.get(place)) == Some(&sum);
        (!right).then(|| format!("key {key} had other bytes than its rows have"))
    }

    /// What is to be said of the reads.
    pub(super) fn check(&self, outcome: Outcome) -> Check {
        let (reads, wrong) = (&self.reads, &self.wrong);
        let (reads, wrong) = (reads.load(Ordering::Relaxed), wrong.load(Ordering::Relaxed));
        let says = match self.first_wrong.get() {
            Some(first) => format!(
                "{} of {} reads were wrong; the first: {first}",
                show::count(wrong),
                show::count(reads)
            ),
            None => self.praise(reads),
        };
        Check {
            // Every read that counts has been compared.
            holds: wrong == 0 && reads == outcome.acknowledged,
            says,
        }
    }

    fn praise(&self, reads: u64) -> String {
        let (reads, rows) = (show::count(reads), show::count(self.expected.rows));
        let noun = if self.expected.rows == 1 {
            "row"
        } else {
            "rows"
        };
        let bytes = match self.expected.sums {
            Some(_) => ", byte for byte those of its key",
            None => "",
        };
        format!("each of {reads} reads had {rows} {noun}{bytes}")
    }
}
