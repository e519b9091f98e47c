//! The orders that consumers got, compared with the tables after the run. Compares each order, so that a lost order and one
//! taken twice do not cancel each other out. Has no access to the database.

use crate::record::CheckResult;
use crate::workload::interface::Outcome;
use fixedbitset::FixedBitSet;

/// A set of orders, numbered from 1. Counts what does not belong to the set. It needs the same memory for a run of any length.
#[derive(Debug)]
pub(super) struct OrderSet {
    /// By number; the first bit is not used.
    orders: FixedBitSet,
    /// The number of additions of an order that was already in the set.
    duplicates: u64,
    /// The number of additions of an order that was never in the queue.
    unknown: u64,
}

impl OrderSet {
    /// An empty set for this number of orders.
    pub(super) fn new(orders: u64) -> Self {
        let bits = usize::try_from(orders).map_or(usize::MAX, |orders| orders + 1);
        Self {
            orders: FixedBitSet::with_capacity(bits),
            duplicates: 0,
            unknown: 0,
        }
    }

    /// Adds an order; `None` is one that was never in the queue.
    pub(super) fn add(&mut self, order: Option<u64>) {
        let order = order.and_then(|order| usize::try_from(order).ok());
        match order.filter(|order| (1..self.orders.len()).contains(order)) {
            None => self.unknown += 1,
            Some(order) => self.duplicates += u64::from(self.orders.put(order)),
        }
    }

    /// Number of distinct orders in the set.
    fn len(&self) -> u64 {
        self.orders.count_ones(..) as u64
    }

    /// Number of orders in both sets.
    fn shared_with(&self, other: &Self) -> u64 {
        self.orders.intersection_count(&other.orders) as u64
    }
}

/// Records the answers to all consumers of a run.
#[derive(Debug)]
pub(super) struct Verifier {
    /// The orders that takes returned.
    pub(super) returned: OrderSet,
    /// Number of takes that returned an order older than an earlier one of the same consumer.
    pub(super) out_of_order: u64,
    /// Whether a take failed: then consumers may get orders out of sequence.
    pub(super) failed: bool,
}

impl Verifier {
    /// An empty verifier for this number of orders.
    pub(super) fn new(orders: u64) -> Self {
        Self {
            returned: OrderSet::new(orders),
            out_of_order: 0,
            failed: false,
        }
    }

    /// Records the orders that a take returned. `newest` is the highest number of an order that the consumer took.
    pub(super) fn took(&mut self, orders: &[Option<u64>], newest: &mut u64) {
        let is_older = |order: &u64| *order <= *newest;
        self.out_of_order += u64::from(orders.iter().flatten().any(is_older));
        for order in orders {
            self.returned.add(*order);
            *newest = order.map_or(*newest, |order| order.max(*newest));
        }
    }

    /// Checks that every order either waits or was taken, once, and that every taken order was returned to one consumer,
    /// except for takes in doubt. A take returns at most `limit` orders.
    pub(super) fn check(
        &self,
        waiting: &OrderSet,
        taken: &OrderSet,
        limit: u64,
        outcome: Outcome,
    ) -> CheckResult {
        let faults = self.faults(waiting, taken, limit, outcome);
        let faults = faults.iter().filter(|(count, _)| *count > 0);
        let faults: Vec<String> = faults
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let end = match faults.as_slice() {
            [] if self.failed => ", each once".to_owned(),
            [] => ", each once, the oldest first".to_owned(),
            faults => format!(": {}", faults.join(", ")),
        };
        let orders = taken.orders.len() - 1;
        CheckResult {
            holds: faults.is_empty(),
            says: format!(
                "of {orders} orders {} were taken and {} wait; consumers received {} in {} takes{}{end}",
                taken.len(),
                waiting.len(),
                self.returned.len(),
                outcome.acknowledged,
                outcome.in_doubt(),
            ),
        }
    }

    /// The number of orders or takes with each fault.
    fn faults(
        &self,
        waiting: &OrderSet,
        taken: &OrderSet,
        limit: u64,
        outcome: Outcome,
    ) -> [(u64, &'static str); 11] {
        let returned = &self.returned;
        let both = waiting.shared_with(taken);
        let there = waiting.len() + taken.len() - both;
        let known = returned.shared_with(taken);
        let answers = returned.len() + returned.duplicates + returned.unknown;
        let most = |takes: u64| takes.saturating_mul(limit);
        let unreturned = (taken.len() - known).saturating_sub(most(outcome.unknown));
        let unacknowledged = answers.saturating_sub(most(outcome.acknowledged));
        let out_of_order = if self.failed { 0 } else { self.out_of_order };
        let orders = taken.orders.len() as u64 - 1;
        [
            (orders - there, "are lost"),
            (both, "were taken and still wait"),
            (waiting.duplicates + taken.duplicates, "are duplicates"),
            (
                waiting.unknown + taken.unknown,
                "differ from what was inserted",
            ),
            (
                returned.len() - known,
                "were returned to a consumer but not taken",
            ),
            (unreturned, "were taken but returned to no consumer"),
            (returned.duplicates, "were returned to a second consumer"),
            (returned.unknown, "were returned but never inserted"),
            (
                outcome.acknowledged.saturating_sub(answers),
                "takes were acknowledged without an order",
            ),
            (unacknowledged, "were returned by no acknowledged take"),
            (out_of_order, "takes got an order older than the one before"),
        ]
    }
}
