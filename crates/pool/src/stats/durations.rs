//! Durations in fixed buckets, three to a decade: an addition for the bucket and one for the sum.

use super::counter::{add, load};
use std::ops::Add;
use std::sync::atomic::AtomicU64;

/// The longest duration of each bucket, in microseconds; a further one takes all that are longer.
pub const BOUNDS_MICROS: [u64; 22] = [
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
];

const BUCKETS: usize = BOUNDS_MICROS.len() + 1;

/// Where durations are counted.
#[derive(Debug, Default)]
pub(super) struct DurationCounts {
    counts: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durations {
    /// How many fell into each bucket; those of smaller buckets are not among them.
    pub counts: [u64; BUCKETS],
    /// Their sum.
    pub micros: u64,
}

impl DurationCounts {
    /// Something took `each` microseconds, so many times.
    pub(super) fn count(&self, times: u64, each: u64) {
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < each);
        if let Some(count) = self.counts.get(bucket) {
            add(count, times);
        }
        add(&self.micros, each.saturating_mul(times));
    }

    pub(super) fn read(&self) -> Durations {
        Durations {
            counts: std::array::from_fn(|bucket| self.counts.get(bucket).map_or(0, load)),
            micros: load(&self.micros),
        }
    }
}

impl Durations {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Add for Durations {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.micros += other.micros;
        self
    }
}
