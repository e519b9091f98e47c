//! Which orders consumers were told to be theirs: one bit for each, so that a run of any length needs no more room, and
//! one that is told twice is seen when it happens.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits in a word.
const WORD: u64 = 64;

/// A set of the orders with the numbers from 1; what does not belong into a set is counted.
#[derive(Debug)]
pub(super) struct OrderSet {
    orders: u64,
    words: Vec<AtomicU64>,
    doubled: AtomicU64,
    strangers: AtomicU64,
}

impl OrderSet {
    /// An empty one that has room for so many orders.
    pub(super) fn new(orders: u64) -> Self {
        let words = (0..orders.div_ceil(WORD)).map(|_| AtomicU64::new(0));
        Self {
            orders,
            words: words.collect(),
            doubled: AtomicU64::new(0),
            strangers: AtomicU64::new(0),
        }
    }

    /// Adds an order; `None` is one that never was in the queue.
    pub(super) fn add(&self, order: Option<u64>) {
        let place = order.and_then(|order| order.checked_sub(1));
        let place = place.filter(|place| *place < self.orders);
        let word = place.and_then(|place| {
            let index = usize::try_from(place / WORD).ok()?;
            Some((self.words.get(index)?, 1 << (place % WORD)))
        });
        match word {
            None => count(&self.strangers),
            Some((word, bit)) if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 => {
                count(&self.doubled);
            }
            Some(_) => {}
        }
    }

    /// Orders in it, each counted once.
    pub(super) fn len(&self) -> u64 {
        self.words().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Times that an order was added again.
    pub(super) fn doubled(&self) -> u64 {
        self.doubled.load(Ordering::Relaxed)
    }

    /// Times that something was added that never was in the queue.
    pub(super) fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }

    /// Orders that are in `other`, too.
    pub(super) fn shared_with(&self, other: &Self) -> u64 {
        let both = self.words().zip(other.words()).map(|(a, b)| a & b);
        both.map(|word| u64::from(word.count_ones())).sum()
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed))
    }
}

/// What all consumers of a run were told.
#[derive(Debug)]
pub(super) struct Verifier {
    /// The orders that are theirs.
    pub(super) told: OrderSet,
    backwards: AtomicU64,
    failed: AtomicU64,
}

impl Verifier {
    /// An empty one for so many orders.
    pub(super) fn new(orders: u64) -> Self {
        Self {
            told: OrderSet::new(orders),
            backwards: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// A consumer has got an order that is older than one it had before.
    pub(super) fn note_backwards(&self) {
        count(&self.backwards);
    }

    /// A take has failed: what it had picked goes back to the head of the queue.
    pub(super) fn note_failure(&self) {
        count(&self.failed);
    }

    /// Whether each consumer may count on getting older orders first: no take has failed.
    pub(super) fn promises_order(&self) -> bool {
        self.failed.load(Ordering::Relaxed) == 0
    }

    /// Takes that broke the order that was promised.
    pub(super) fn out_of_order(&self) -> u64 {
        match self.promises_order() {
            true => self.backwards.load(Ordering::Relaxed),
            false => 0,
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
