//! Mean times of late, by `K`: recent samples count more than older ones.

use super::rates::approximate;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// After this time, a sample counts for `1/e` of its weight.
const MEMORY: Duration = Duration::from_secs(20);

/// Keys with less than this weight are forgotten.
const LEAST: f64 = 0.05;

/// Weighted sums.
#[derive(Debug)]
pub(super) struct Lately<K>(HashMap<K, Weighted>);

#[derive(Debug, Default)]
struct Weighted {
    count: f64,
    micros: f64,
}

impl<K> Default for Lately<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Lately<K> {
    /// Reduces all weights, because this time has passed.
    pub(super) fn fade(&mut self, passed: Duration) {
        let left = (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.0.retain(|_, sums| {
            sums.count *= left;
            sums.micros *= left;
            sums.count >= LEAST
        });
    }

    /// Adds `count` units that took `micros` in sum; returns the mean in milliseconds. `None`: there were none of late.
    pub(super) fn add(&mut self, key: &K, count: u64, micros: u64) -> Option<f64> {
        if count > 0 {
            let sums = self.0.entry(key.clone()).or_default();
            sums.count += approximate(count);
            sums.micros += approximate(micros);
        }
        let sums = self.0.get(key)?;
        Some(sums.micros / sums.count / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_times_count_more() {
        let mut times = Lately::default();
        assert_eq!(times.add(&"a", 0, 0), None);
        assert_eq!(times.add(&"a", 2, 20_000), Some(10.0));
        times.fade(MEMORY);
        let mean = times.add(&"a", 2, 2_000).unwrap();
        assert!((3.0..4.0).contains(&mean), "{mean}");
        times.fade(MEMORY * 2);
        assert!(times.add(&"a", 0, 0).is_some());
        times.fade(MEMORY * 3);
        assert_eq!(times.add(&"a", 0, 0), None);
    }
}
