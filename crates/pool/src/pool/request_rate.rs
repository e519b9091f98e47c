//! The rate at which requests begin (`max_requests_per_second`), without a clock: a pool that was idle may begin a tenth of a second's
//! requests at once, and then one after the other.

use std::time::{Duration, Instant};

/// The share of a second whose requests may begin at once.
const BURST: u32 = 10;

/// Maximum time for which requests of a pipeline, which begin with another request, hold later ones back.
const DEBT_MAX: Duration = Duration::from_secs(1);

/// The times at which requests may begin.
#[derive(Debug, Default)]
pub(super) struct RequestRate {
    /// The time at which the next request would begin if all arrived evenly; `None` before the first one.
    next: Option<Instant>,
}

impl RequestRate {
    /// Begins a request at `now`, if there are at most `per_second`.
    ///
    /// # Errors
    /// The time after which it may begin.
    pub(super) fn begin(&mut self, now: Instant, per_second: u32) -> Result<(), Duration> {
        let interval = interval(per_second);
        let early = interval * ((per_second / BURST).max(1) - 1);
        let next = self.next_at(now);
        let wait = next.saturating_duration_since(now).saturating_sub(early);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.next = Some(next + interval);
        Ok(())
    }

    /// Counts requests that have begun without being asked for.
    pub(super) fn charge(&mut self, now: Instant, per_second: u32, requests: u32) {
        let next = self.next_at(now) + interval(per_second).saturating_mul(requests);
        self.next = Some(next.min(now + DEBT_MAX));
    }

    fn next_at(&self, now: Instant) -> Instant {
        self.next.map_or(now, |next| next.max(now))
    }
}

/// The time between two requests.
fn interval(per_second: u32) -> Duration {
    Duration::from_secs(1) / per_second.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins as many requests as possible within `time`, one look every `step`.
    fn begun(rate: &mut RequestRate, from: Instant, time: Duration, per_second: u32) -> u32 {
        let (mut now, mut count) = (from, 0);
        while now < from + time {
            match rate.begin(now, per_second) {
                Ok(()) => count += 1,
                Err(wait) => now += wait,
            }
        }
        count
    }

    #[test]
    fn requests_begin_at_the_rate_after_a_tenth_of_a_second() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        for (per_second, at_once) in [(1, 1), (9, 1), (10, 1), (100, 10), (1_000_000, 100_000)] {
            let mut rate = RequestRate::default();
            let first = begun(&mut rate, start, Duration::from_nanos(1), per_second);
            assert_eq!(first, at_once);
            let rest = begun(&mut rate, start, second, per_second);
            assert!(first + rest <= per_second + at_once, "{per_second}: {rest}");
            assert!(first + rest >= per_second, "{per_second}: {rest}");
            let next = begun(&mut rate, start + second, second, per_second);
            assert!(next.abs_diff(per_second) <= 1, "{per_second}: {next}");
        }
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let start = Instant::now();
        let mut rate = RequestRate::default();
        assert_eq!(rate.begin(start, 100), Ok(()));
        let later = start + Duration::from_secs(60);
        assert_eq!(begun(&mut rate, later, Duration::from_nanos(1), 100), 10);
    }

    #[test]
    fn charged_requests_hold_others_back_for_a_second_at_most() {
        let start = Instant::now();
        let mut rate = RequestRate::default();
        rate.charge(start, 10, 3);
        assert_eq!(rate.begin(start, 10), Err(Duration::from_millis(300)));
        rate.charge(start, 10, u32::MAX);
        assert_eq!(rate.begin(start, 10), Err(Duration::from_secs(1)));
        let later = start + Duration::from_secs(1);
        assert_eq!(rate.begin(later, 10), Ok(()));
    }
}
