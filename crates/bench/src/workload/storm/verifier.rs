//! What clients have added to counters, and what they were told. Pure; it asks no database.

use crate::connection::Failure;
use crate::show;
use crate::workload::scenario::Check;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared by all clients of a run.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    sent: AtomicU64,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

impl Verifier {
    /// A client is about to add so much. Whatever becomes of it, it may have been done until it is [answered](Self::answered).
    pub(super) fn sends(&self, added: u64) {
        self.sent.fetch_add(added, Ordering::Relaxed);
    }

    /// The client was told; if not even that is certain, it may have been done for ever.
    pub(super) fn answered(&self, added: u64, failure: Option<&Failure>) {
        match failure {
            None => self.acknowledged.fetch_add(added, Ordering::Relaxed),
            Some(failure) if failure.is_in_doubt() => 0,
            Some(_) => self.refused.fetch_add(added, Ordering::Relaxed),
        };
    }

    /// So much may have been done.
    pub(super) fn open(&self) -> u64 {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let answered = read(&self.acknowledged) + read(&self.refused);
        read(&self.sent).saturating_sub(answered)
    }

    /// Compares it with what was added to the table's counters.
    pub(super) fn compare(&self, added: i64) -> Check {
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        let open = self.open();
        let possible = acknowledged..=acknowledged + open;
        let besides = match open {
            0 => String::new(),
            open => format!(
                ", {} more may have been added when connections were lost",
                show::count(open)
            ),
        };
        Check {
            holds: u64::try_from(added).is_ok_and(|added| possible.contains(&added)),
            says: format!(
                "the counters went up by {}, {} were acknowledged{besides}",
                show::number(added as f64),
                show::count(acknowledged)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_is_there_and_nothing_else() {
        let verifier = Verifier::default();
        for added in [1, 2] {
            verifier.sends(added);
            verifier.answered(added, None);
        }
        assert!(verifier.compare(3).holds);
        for other in [-3, 0, 2, 4] {
            assert!(!verifier.compare(other).holds, "{other}");
        }
    }

    #[test]
    fn what_is_in_doubt_may_be_there_and_what_was_refused_may_not() {
        let verifier = Verifier::default();
        verifier.sends(1);
        verifier.answered(1, None);
        verifier.sends(2);
        verifier.answered(2, Some(&Failure::Lost("it broke".to_owned())));
        assert!(verifier.compare(1).holds && verifier.compare(3).holds);
        verifier.sends(4);
        let message = "no".to_owned();
        let sqlstate = "55P03".to_owned();
        verifier.answered(4, Some(&Failure::Refused { sqlstate, message }));
        assert!(!verifier.compare(5).holds && !verifier.compare(7).holds);
        // Who never came back.
        verifier.sends(8);
        assert!(verifier.compare(9).holds && !verifier.compare(12).holds);
    }
}
