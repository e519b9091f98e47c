//! Compares the tables after a run with the answers to consumers. It compares each order, so that a lost order and one
//! taken twice do not cancel each other out.

use super::verifier::{OrderSet, Verifier};
use crate::workload::scenario::{Check, Outcome};

/// The tables and answers after a run.
pub(super) struct QueueState<'a> {
    /// Number of orders at the beginning.
    pub(super) orders: u64,
    /// The orders that wait.
    pub(super) waiting: &'a OrderSet,
    /// The orders that were taken.
    pub(super) taken: &'a OrderSet,
    /// The answers to consumers.
    pub(super) verifier: &'a Verifier,
    /// Maximum number of orders per take.
    pub(super) limit: u64,
}

impl QueueState<'_> {
    /// Checks that every order either waits or was taken, once, and that every taken order was returned to one consumer,
    /// except for takes in doubt.
    pub(super) fn check(&self, outcome: Outcome) -> Check {
        let (waiting, taken) = (self.waiting.len(), self.taken.len());
        let returned = &self.verifier.returned;
        let faults = self.faults(outcome);
        let faults = faults.iter().filter(|(count, _)| *count > 0);
        let faults: Vec<String> = faults
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let end = match (faults.as_slice(), self.verifier.guarantees_order()) {
            ([], true) => ", each once, the oldest first".to_owned(),
            ([], false) => ", each once".to_owned(),
            (faults, _) => format!(": {}", faults.join(", ")),
        };
        Check {
            holds: faults.is_empty(),
            says: format!(
                "of {} orders {taken} were taken and {waiting} wait; consumers received {} in {} takes{}{end}",
                self.orders,
                returned.len(),
                outcome.acknowledged,
                outcome.in_doubt(),
            ),
        }
    }

    /// The number of orders or takes with each fault.
    fn faults(&self, outcome: Outcome) -> [(u64, &'static str); 11] {
        let (waiting, taken, returned) = (self.waiting, self.taken, &self.verifier.returned);
        let both = waiting.shared_with(taken);
        let there = waiting.len() + taken.len() - both;
        let known = returned.shared_with(taken);
        let answers = returned.len() + returned.duplicates() + returned.unknown();
        let most = |takes: u64| takes.saturating_mul(self.limit);
        [
            (self.orders - there, "are lost"),
            (both, "were taken and still wait"),
            (waiting.duplicates() + taken.duplicates(), "are duplicates"),
            (
                waiting.unknown() + taken.unknown(),
                "differ from what was inserted",
            ),
            (
                returned.len() - known,
                "were returned to a consumer but not taken",
            ),
            (
                (taken.len() - known).saturating_sub(most(outcome.unknown)),
                "were taken but returned to no consumer",
            ),
            (returned.duplicates(), "were returned to a second consumer"),
            (returned.unknown(), "were returned but never inserted"),
            (
                outcome.acknowledged.saturating_sub(answers),
                "takes were acknowledged without an order",
            ),
            (
                answers.saturating_sub(most(outcome.acknowledged)),
                "were returned by no acknowledged take",
            ),
            (
                self.verifier.out_of_order(),
                "takes got an order older than the one before",
            ),
        ]
    }
}
