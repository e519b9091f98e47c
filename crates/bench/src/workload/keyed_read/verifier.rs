//! Verifies the answers to reads.

use crate::record::CheckResult;
use crate::show;
use crate::workload::interface::Outcome;
use rustc_hash::FxHasher;
use std::hash::Hasher;

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
    pub(super) changes: u64,
    reads: u64,
    wrong: u64,
    first_wrong: Option<String>,
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
    pub(super) fn compare(&mut self, key: i64, rows: u64, sum: u64) {
        self.reads += 1;
        if let Some(mismatch) = self.mismatch(key, rows, sum) {
            self.wrong += 1;
            self.first_wrong.get_or_insert(mismatch);
        }
    }

    fn mismatch(&self, key: i64, rows: u64, sum: u64) -> Option<String> {
        let wanted = self.expected.rows;
        if rows != wanted {
            let (rows, wanted) = (show::count(rows), show::count(wanted));
            return Some(format!("key {key} had {rows} rows instead of {wanted}"));
        }
        let sums = self.expected.sums.as_ref()?;
        let place = usize::try_from(key - 1).ok();
        let right = place.and_then(|place| sums.get(place)) == Some(&sum);
        (!right).then(|| format!("key {key} had other bytes than its rows have"))
    }

    /// The result for all reads.
    pub(super) fn check(&self, outcome: Outcome) -> CheckResult {
        let (reads, wrong) = (show::count(self.reads), show::count(self.wrong));
        let rows = match self.expected.rows {
            1 => "1 row".to_owned(),
            rows => format!("{} rows", show::count(rows)),
        };
        CheckResult {
            // Every read that counts must have been compared.
            holds: self.wrong == 0 && self.reads == outcome.acknowledged,
            says: match (&self.first_wrong, &self.expected.sums) {
                (Some(first), _) => {
                    format!("{wrong} of {reads} reads were wrong; the first: {first}")
                }
                (None, Some(_)) => {
                    format!("each of {reads} reads had {rows}, byte for byte those of its key")
                }
                (None, None) => format!("each of {reads} reads had {rows}"),
            },
        }
    }
}
