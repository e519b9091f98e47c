//! Compares the tables after a run with what consumers were told: order by order, so that one that was lost and one that
//! was taken twice do not make up for each other.

use super::verifier::{OrderSet, Verifier};
use crate::workload::scenario::{Check, Outcome};

/// What is there after a run.
pub(super) struct QueueState<'a> {
    /// Orders of the original queue.
    pub(super) orders: u64,
    /// Those that wait.
    pub(super) waiting: &'a OrderSet,
    /// Those that were taken.
    pub(super) taken: &'a OrderSet,
    /// What consumers were told.
    pub(super) verifier: &'a Verifier,
    /// Orders that one take may get.
    pub(super) limit: u64,
}

impl QueueState<'_> {
    /// Every order waits or was taken, once; what was taken was told to one consumer, but for takes of which nobody knows
    /// whether they were done.
    pub(super) fn check(&self, outcome: Outcome) -> Check {
        let (waiting, taken) = (self.waiting.len(), self.taken.len());
        let told = &self.verifier.told;
        let faults = self.faults(outcome);
        let faults = faults.iter().filter(|(count, _)| *count > 0);
        let faults: Vec<String> = faults
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let end = match (faults.as_slice(), self.verifier.promises_order()) {
            ([], true) => ", each once, the oldest first".to_owned(),
            ([], false) => ", each once".to_owned(),
            (faults, _) => format!(": {}", faults.join(", ")),
        };
        Check {
            holds: faults.is_empty(),
            says: format!(
                "of {} orders {taken} were taken and {waiting} wait; consumers were told of {} in {} takes{}{end}",
                self.orders,
                told.len(),
                outcome.acknowledged,
                outcome.besides(),
            ),
        }
    }

    /// How often what is wrong.
    fn faults(&self, outcome: Outcome) -> [(u64, &'static str); 11] {
        let (waiting, taken, told) = (self.waiting, self.taken, &self.verifier.told);
        let both = waiting.shared_with(taken);
        let there = waiting.len() + taken.len() - both;
        let known = told.shared_with(taken);
        let answers = told.len() + told.doubled() + told.strangers();
        let most = |takes: u64| takes.saturating_mul(self.limit);
        [
            (self.orders - there, "are lost"),
            (both, "were taken and wait still"),
            (waiting.doubled() + taken.doubled(), "are there once more"),
            (
                waiting.strangers() + taken.strangers(),
                "are not as they were put in",
            ),
            (told.len() - known, "were told to a consumer but not taken"),
            (
                (taken.len() - known).saturating_sub(most(outcome.unknown)),
                "were taken but told to nobody",
            ),
            (told.doubled(), "were told to a second consumer"),
            (told.strangers(), "were told but never put in"),
            (
                outcome.acknowledged.saturating_sub(answers),
                "takes were acknowledged without an order",
            ),
            (
                answers.saturating_sub(most(outcome.acknowledged)),
                "were told by no take that was acknowledged",
            ),
            (
                self.verifier.out_of_order(),
                "takes got an order older than the one before",
            ),
        ]
    }
}
