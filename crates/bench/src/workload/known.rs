//! The versions of rows that a client knows, for rows whose version only grows. A read that returns an older version is stale, whichever
//! server has answered it: a client sees its own writes, and never an older version than before.

use crate::record::ReadsResult;
use crate::show;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of rows that a client knows, so that a long run needs no more memory than a short one.
const ROWS_MAX: usize = 2_048;

/// The newest version of each row that one client has written or read.
#[derive(Debug)]
pub(super) struct Known<K, V>(FxHashMap<K, V>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Eq + Hash, V: Ord> Known<K, V> {
    /// The newest known version of a row.
    pub(super) fn get(&self, row: &K) -> Option<&V> {
        self.0.get(row)
    }

    /// Records that a row has had this version, which the client has read, or written and got acknowledged. Forgets all other
    /// rows if there are too many.
    pub(super) fn learn(&mut self, row: K, version: V) {
        if self.0.len() >= ROWS_MAX && !self.0.contains_key(&row) {
            self.0.clear();
        }
        let is_newer = self.0.get(&row).is_none_or(|known| version > *known);
        if is_newer {
            self.0.insert(row, version);
        }
    }

    /// Compares a read of a row, which has found this version, or no row; learns the version. Returns whether the read is
    /// stale.
    pub(super) fn is_stale(&mut self, row: K, found: Option<V>) -> bool {
        let known = self.0.get(&row);
        let is_stale = known.is_some_and(|known| found.as_ref().is_none_or(|found| found < known));
        if let Some(found) = found {
            self.learn(row, found);
        }
        is_stale
    }

    /// Forgets a row, as after a failover that has lost its newest versions.
    pub(super) fn forget(&mut self, row: &K) {
        self.0.remove(row);
    }
}

/// The reads of all clients of a run that were compared with what their clients know.
#[derive(Debug, Default)]
pub(crate) struct CheckedReads {
    checked: AtomicU64,
    stale: AtomicU64,
}

impl CheckedReads {
    /// Counts a read.
    pub(super) fn count(&self, is_stale: bool) {
        self.checked.fetch_add(1, Ordering::Relaxed);
        self.stale.fetch_add(u64::from(is_stale), Ordering::Relaxed);
    }

    /// Number of reads so far.
    pub(crate) fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// Number of stale reads so far.
    pub(super) fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// The numbers, without those that the servers report on these reads.
    pub(crate) fn result(&self) -> ReadsResult {
        ReadsResult {
            checked: self.checked(),
            stale: self.stale(),
            on_replicas: None,
            primary_cpu_micros: None,
        }
    }

    /// A clause for the result of a check.
    pub(super) fn says(&self) -> String {
        let [checked, stale] = [self.checked(), self.stale()].map(show::count);
        match self.stale() {
            0 => format!("none of {checked} reads was older than what its client knew"),
            _ => format!("{stale} of {checked} reads were older than what their client knew"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sees_its_own_writes() {
        let mut known = Known::default();
        assert!(!known.is_stale("row", None), "nothing is known of it");
        known.learn("row", 7);
        for (found, is_stale) in [
            (None, true),
            (Some(6), true),
            (Some(7), false),
            (Some(9), false),
        ] {
            let mut known = Known::default();
            known.learn("row", 7);
            assert_eq!(known.is_stale("row", found), is_stale, "{found:?}");
        }
        assert!(!known.is_stale("other", None));
    }

    #[test]
    fn reads_never_go_back_in_time() {
        let mut known = Known::default();
        for (found, is_stale) in [(5, false), (5, false), (8, false), (7, true), (8, false)] {
            assert_eq!(known.is_stale("row", Some(found)), is_stale, "{found}");
        }
        assert!(known.is_stale("row", None), "the row has gone");
        known.forget(&"row");
        assert!(!known.is_stale("row", Some(1)));
    }

    #[test]
    fn the_number_of_known_rows_is_limited() {
        let mut known = Known::default();
        for row in 0..10 * ROWS_MAX {
            known.learn(row, 1);
            known.learn(row, 0);
            assert_eq!(known.get(&row), Some(&1));
        }
        assert!(known.0.len() <= ROWS_MAX);
    }

    #[test]
    fn reads_are_counted() {
        let reads = CheckedReads::default();
        reads.count(false);
        assert_eq!(
            reads.says(),
            "none of 1 reads was older than what its client knew"
        );
        reads.count(true);
        assert_eq!((reads.result().checked, reads.result().stale), (2, 1));
        assert_eq!(
            reads.says(),
            "1 of 2 reads were older than what their client knew"
        );
    }
}
