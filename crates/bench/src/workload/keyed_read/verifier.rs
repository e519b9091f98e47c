//! Verifies the answers to reads.

use crate::show;
use crate::workload::scenario::{Check, Outcome};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The expected answers.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// Number of rows for any key.
    pub(super) rows: u64,
    /// The sum over the rows (see [`add`]) of each key, from key 1; `None` if rows change during the run.
    pub(super) sums: Option<Vec<u64>>,
}

/// Adds a row to the sum over an answer. The sum does not depend on the order of rows. It costs a few instructions per
/// eight bytes, because the client is part of the measurement.
pub(super) fn add(sum: &mut u64, row: &[u8]) {
    let mut hasher = FxHasher::default();
    hasher.write(row);
    *sum = sum.wrapping_add(hasher.finish());
}

/// Records the answers to all clients of a run.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    expected: Expected,
    /// Number of changes in the table before the run.
    pub(super) changes_before: i64,
    /// Number of changes acknowledged in the run.
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

    /// Compares the answer to a read of `key` with the expected one.
    pub(super) fn compare(&self, key: i64, rows: u64, sum: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if let Some(mismatch) = self.mismatch(key, rows, sum) {
            self.wrong.fetch_add(1, Ordering::Relaxed);
            self.first_wrong.get_or_init(|| mismatch);
        }
    }

    fn mismatch(&self, key: i64, rows: u64, sum: u64) -> Option<String> {
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

    /// The result for all reads.
    pub(super) fn check(&self, outcome: Outcome) -> Check {
        let (reads, wrong) = (&self.reads, &self.wrong);
        let (reads, wrong) = (reads.load(Ordering::Relaxed), wrong.load(Ordering::Relaxed));
        let says = match self.first_wrong.get() {
            Some(first) => format!(
                "{} of {} reads were wrong; the first: {first}",
                show::count(wrong),
                show::count(reads)
            ),
            None => self.success(reads),
        };
        Check {
            // Every read that counts must have been compared.
            holds: wrong == 0 && reads == outcome.acknowledged,
            says,
        }
    }

    fn success(&self, reads: u64) -> String {
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
