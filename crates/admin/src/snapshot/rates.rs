//! Rates of counters that only grow, between two samples.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The counters at the last sample, by `K`.
#[derive(Debug)]
pub(super) struct Rates<K> {
    then: HashMap<K, u64>,
    now: HashMap<K, u64>,
    sampled: Option<Instant>,
    passed: Duration,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Self {
            then: HashMap::new(),
            now: HashMap::new(),
            sampled: None,
            passed: Duration::ZERO,
        }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// Begins a sample; returns the time since the last one. Counters that the last sample did not have are forgotten.
    pub(super) fn begin(&mut self, now: Instant) -> Duration {
        self.then = std::mem::take(&mut self.now);
        let last = self.sampled.replace(now);
        self.passed = last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.passed
    }

    /// The growth of a counter since the last sample; 0 if that did not have it, because its growth is not known.
    pub(super) fn growth(&mut self, key: K, total: u64) -> u64 {
        let then = self.then.get(&key).copied();
        self.now.insert(key, total);
        then.map_or(0, |then| total.saturating_sub(then))
    }

    /// `growth` per second.
    pub(super) fn per_second(&self, growth: u64) -> f64 {
        let seconds = self.passed.as_secs_f64();
        match seconds > 0.0 {
            true => approximate(growth) / seconds,
            false => 0.0,
        }
    }
}

/// The number as a floating-point number.
#[expect(
    clippy::cast_precision_loss,
    reason = "numbers for people need no 53 bits"
)]
pub(super) fn approximate(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_growth_between_two_samples() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        rates.begin(start);
        assert_eq!(rates.growth("a", 1_000), 0);
        assert_eq!(rates.per_second(7), 0.0);
        rates.begin(start + Duration::from_secs(2));
        let growth = rates.growth("a", 1_010);
        assert_eq!((growth, rates.per_second(growth)), (10, 5.0));
        assert_eq!(rates.growth("b", 50), 0);
        rates.begin(start + Duration::from_secs(4));
        assert_eq!(rates.growth("b", 51), 1);
        rates.begin(start + Duration::from_secs(6));
        assert_eq!(rates.growth("a", 2_000), 0);
    }
}
