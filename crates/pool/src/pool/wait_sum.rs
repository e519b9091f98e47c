//! How long requests that join no group have waited in all, without a clock: short waits of many transactions are worth a further
//! connection, too.

use std::time::{Duration, Instant};

/// The sum that is worth a further connection: several times what opening one takes, of the server and of Paceline.
const WORTH: Duration = Duration::from_millis(20);

/// Waits are added up for this long. If their sum is not worth a connection by then, the pool has enough of them.
const PERIOD: Duration = Duration::from_secs(1);

/// The sum of the waits of one period.
#[derive(Debug, Default)]
pub(super) struct WaitSum {
    /// The end of the first wait of the period.
    since: Option<Instant>,
    sum: Duration,
}

impl WaitSum {
    /// Adds a wait that has ended at `now`.
    pub(super) fn add(&mut self, now: Instant, waited: Duration) {
        if !self.is_current(now) {
            *self = Self {
                since: Some(now),
                sum: Duration::ZERO,
            };
        }
        self.sum += waited;
    }

    /// Whether the waits are worth a further connection.
    pub(super) fn is_worth_growing(&self, now: Instant) -> bool {
        self.sum >= WORTH && self.is_current(now)
    }

    fn is_current(&self, now: Instant) -> bool {
        self.since
            .is_some_and(|since| now.saturating_duration_since(since) < PERIOD)
    }

    /// Begins again, because the pool opens or has opened a further connection.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_waits_add_up() {
        let (mut waits, now) = (WaitSum::default(), Instant::now());
        for at in 0..19 {
            waits.add(now + MS * at * 10, MS);
        }
        let last = now + MS * 190;
        assert!(!waits.is_worth_growing(last));
        waits.add(last, MS);
        assert!(waits.is_worth_growing(last));
        assert!(!waits.is_worth_growing(now + PERIOD), "long ago");
        waits.clear();
        assert!(!waits.is_worth_growing(last));
    }

    #[test]
    fn rare_waits_do_not() {
        let (mut waits, now) = (WaitSum::default(), Instant::now());
        for at in 0..100 {
            let now = now + MS * at * 100;
            waits.add(now, MS);
            assert!(!waits.is_worth_growing(now), "{at}");
        }
    }
}
