//! Verifies the sum of the counters. Has no access to the database.

use crate::connection::Result;
use crate::record::CheckResult;
use crate::show;

/// Records the increments of all clients of a run.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    /// The sum of increments that clients sent. Each may have been executed until it is [answered](Self::answered).
    pub(super) sent: u64,
    acknowledged: u64,
    refused: u64,
}

impl Verifier {
    /// Records the answer to an increment. If the result is in doubt, the increment may have been executed.
    pub(super) fn answered(&mut self, added: u64, answer: &Result<()>) {
        match answer {
            Ok(()) => self.acknowledged += added,
            Err(failure) if failure.is_in_doubt() => {}
            Err(_) => self.refused += added,
        }
    }

    /// The sum of increments in doubt.
    pub(super) fn open(&self) -> u64 {
        self.sent.saturating_sub(self.acknowledged + self.refused)
    }

    /// Compares the answers with the sum of the counters in the table.
    pub(super) fn compare(&self, added: i64) -> CheckResult {
        let (acknowledged, open) = (self.acknowledged, self.open());
        let possible = acknowledged..=acknowledged + open;
        let in_doubt = match open {
            0 => String::new(),
            open => format!(
                ", {} more may have been added when connections were lost",
                show::count(open)
            ),
        };
        CheckResult {
            holds: u64::try_from(added).is_ok_and(|added| possible.contains(&added)),
            says: format!(
                "the counters went up by {}, {} were acknowledged{in_doubt}",
                show::number(added as f64),
                show::count(acknowledged)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Failure;

    #[test]
    fn the_sum_equals_the_acknowledged_increments() {
        let mut verifier = Verifier::default();
        for added in [1, 2] {
            verifier.sent += added;
            verifier.answered(added, &Ok(()));
        }
        assert!(verifier.compare(3).holds);
        for other in [-3, 0, 2, 4] {
            assert!(!verifier.compare(other).holds, "{other}");
        }
    }

    #[test]
    fn increments_in_doubt_may_apply_and_refused_ones_may_not() {
        let mut verifier = Verifier::default();
        verifier.sent += 1;
        verifier.answered(1, &Ok(()));
        verifier.sent += 2;
        verifier.answered(2, &Err(Failure::Lost("it broke".to_owned())));
        assert!(verifier.compare(1).holds && verifier.compare(3).holds);
        verifier.sent += 4;
        let message = "no".to_owned();
        let sqlstate = "55P03".to_owned();
        verifier.answered(4, &Err(Failure::Refused { sqlstate, message }));
        assert!(!verifier.compare(5).holds && !verifier.compare(7).holds);
        // No answer arrives.
        verifier.sent += 8;
        assert!(verifier.compare(9).holds && !verifier.compare(12).holds);
    }
}
