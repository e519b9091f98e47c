//! Histograms of durations with fixed buckets, three per decade.

use super::counter::{add, load};
use std::ops::Add;
use std::sync::atomic::AtomicU64;

/// Upper bound of each bucket in microseconds; one further bucket has all longer durations.
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

/// A histogram that is being filled.
#[derive(Debug, Default)]
pub(super) struct DurationCounts {
    counts: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

/// A histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durations {
    /// Number of durations in each bucket; the counts are not cumulative.
    pub counts: [u64; BUCKETS],
    /// Sum of all durations.
    pub micros: u64,
}

impl DurationCounts {
    /// Counts `times` durations of `each` microseconds.
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
    /// Number of durations.
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
