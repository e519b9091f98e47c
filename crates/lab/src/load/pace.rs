//! When a client begins its next turn.

use rand::RngExt;
use rand::rngs::StdRng;
use std::time::{Duration, Instant};

/// How often clients begin a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// The next turn begins after the answer to the last, and a pause.
    Closed {
        /// The pause, such as a user's thinking or a worker's working.
        think: Duration,
    },
    /// Turns are due at a fixed mean rate, however long the answers take (exponential intervals). Latency counts from the
    /// moment when a turn was due, so that a target that cannot keep up cannot hide it.
    Open {
        /// Turns per second and client.
        rate: f64,
    },
}

impl Pace {
    /// When the first turn is due. Clients that pause do not all begin in the same moment.
    pub(super) fn first(self, start: Instant, rng: &mut StdRng) -> Instant {
        match self {
            Self::Closed { think } => start + think.mul_f64(rng.random::<f64>()),
            Self::Open { rate } => start + interval(rate, rng),
        }
    }

    /// When the turn after one that was due at `due` and has ended `now` is due.
    pub(super) fn next(self, due: Instant, now: Instant, rng: &mut StdRng) -> Instant {
        match self {
            Self::Closed { think } => now + think,
            Self::Open { rate } => due + interval(rate, rng),
        }
    }

    /// Whether a client may be late.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

/// Intervals of a Poisson process; a day at most.
fn interval(rate: f64, rng: &mut StdRng) -> Duration {
    let seconds = -(1.0 - rng.random::<f64>()).ln() / rate;
    Duration::try_from_secs_f64(seconds.min(86_400.0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn an_open_pace_keeps_its_rate_however_late_answers_are() {
        let mut rng = StdRng::seed_from_u64(7);
        let start = Instant::now();
        let pace = Pace::Open { rate: 50.0 };
        let late = start + Duration::from_secs(3600);
        let mut due = pace.first(start, &mut rng);
        for _ in 1..5_000 {
            due = pace.next(due, late, &mut rng);
        }
        let seconds = due.duration_since(start).as_secs_f64();
        assert!(
            (95.0..105.0).contains(&seconds),
            "5,000 turns took {seconds} s"
        );
    }

    #[test]
    fn a_closed_pace_pauses_after_the_answer() {
        let mut rng = StdRng::seed_from_u64(7);
        let start = Instant::now();
        let think = Duration::from_millis(10);
        let pace = Pace::Closed { think };
        assert!(pace.first(start, &mut rng) <= start + think);
        let now = start + Duration::from_secs(1);
        assert_eq!(pace.next(start, now, &mut rng), now + think);
    }
}
