//! The orders that consumers got. A bit set needs the same memory for a run of any length and detects duplicates
//! immediately.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits in a word.
const WORD: u64 = 64;

/// A set of orders, numbered from 1. Counts what does not belong to the set.
#[derive(Debug)]
pub(super) struct OrderSet {
    orders: u64,
    words: Vec<AtomicU64>,
    duplicates: AtomicU64,
    unknown: AtomicU64,
}

impl OrderSet {
    /// An empty set for this number of orders.
    pub(super) fn new(orders: u64) -> Self {
        let words = (0..orders.div_ceil(WORD)).map(|_| AtomicU64::new(0));
        Self {
            orders,
            words: words.collect(),
            duplicates: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }
    }

    /// Adds an order; `None` is one that was never in the queue.
    pub(super) fn add(&self, order: Option<u64>) {
        let place = order.and_then(|order| order.checked_sub(1));
        let place = place.filter(|place| *place < self.orders);
        let word = place.and_then(|place| {
            let index = usize::try_from(place / WORD).ok()?;
            Some((self.words.get(index)?, 1 << (place % WORD)))
        });
        match word {
            None => count(&self.unknown),
            Some((word, bit)) if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 => {
                count(&self.duplicates);
            }
            Some(_) => {}
        }
    }

    /// Number of distinct orders in the set.
    pub(super) fn len(&self) -> u64 {
        self.words().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How often an order was added that was already in the set.
    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::Relaxed)
    }

    /// How often an order was added that was never in the queue.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    /// Number of orders in both sets.
    pub(super) fn shared_with(&self, other: &Self) -> u64 {
        let both = self.words().zip(other.words()).map(|(a, b)| a & b);
        both.map(|word| u64::from(word.count_ones())).sum()
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed))
    }
}

/// Records the answers to all consumers of a run.
#[derive(Debug)]
pub(super) struct Verifier {
    /// The orders that takes returned.
    pub(super) returned: OrderSet,
    backwards: AtomicU64,
    failed: AtomicU64,
}

impl Verifier {
    /// An empty verifier for this number of orders.
    pub(super) fn new(orders: u64) -> Self {
        Self {
            returned: OrderSet::new(orders),
            backwards: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Records that a consumer got an order that is older than an earlier one.
    pub(super) fn record_out_of_order(&self) {
        count(&self.backwards);
    }

    /// Records that a take failed. The order that it had picked returns to the head of the queue.
    pub(super) fn record_failure(&self) {
        count(&self.failed);
    }

    /// Whether consumers get orders in sequence: no take has failed.
    pub(super) fn guarantees_order(&self) -> bool {
        self.failed.load(Ordering::Relaxed) == 0
    }

    /// Number of takes that returned orders out of sequence although none failed.
    pub(super) fn out_of_order(&self) -> u64 {
        if self.guarantees_order() {
            self.backwards.load(Ordering::Relaxed)
        } else {
            0
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
