//! When a client begins its next turn.

use rand::RngExt;
use rand::rngs::StdRng;
use std::time::{Duration, Instant};

/// How often clients begin a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    /// The next turn begins after the answer to the last, and a pause.
    Closed {
        /// The pause, such as a user's thinking or a worker's working.
        think: Duration,
    },
    /// Turns are due at a fixed mean rate, however long the answers take (exponential intervals). The latency of a turn that
    /// fell due while its client still waited counts from then, so that a target that cannot keep up cannot hide it.
    Open {
        /// Turns per second and client.
        rate: f64,
    },
}

impl Arrivals {
    /// When the first turn is due. Clients that pause do not all begin in the same moment.
    fn first(self, start: Instant, rng: &mut StdRng) -> Instant {
        match self {
            Self::Closed { think } => start + think.mul_f64(rng.random::<f64>()),
            Self::Open { rate } => start + interval(rate, rng),
        }
    }

    /// When the turn after one that was due at `due` and has ended `now` is due.
    fn next(self, due: Instant, now: Instant, rng: &mut StdRng) -> Instant {
        match self {
            Self::Closed { think } => now + think,
            Self::Open { rate } => due + interval(rate, rng),
        }
    }
}

/// The turns of one client.
#[derive(Debug)]
pub(super) struct Schedule {
    arrivals: Arrivals,
    rng: StdRng,
    /// When the turn was or will be due that has not been answered.
    due: Instant,
    /// When the turn before it had ended.
    free: Instant,
    /// No turn is due any more.
    is_over: bool,
}

impl Schedule {
    /// Begins with the load.
    pub(super) fn new(arrivals: Arrivals, start: Instant, mut rng: StdRng) -> Self {
        Self {
            arrivals,
            due: arrivals.first(start, &mut rng),
            free: start,
            is_over: false,
            rng,
        }
    }

    /// When the next turn is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// From when the latency of a turn counts that has `begun`. If its client was free when it fell due, nothing but the load's own
    /// timer has kept it.
    pub(super) fn counts_from(&self, begun: Instant) -> Instant {
        match self.due < self.free {
            true => self.due,
            false => begun,
        }
    }

    /// The turn has ended; on with the next.
    pub(super) fn answered(&mut self, now: Instant) {
        self.due = self.arrivals.next(self.due, now, &mut self.rng);
        self.free = now;
    }

    /// The client takes no more turns, for reasons of its own.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Strikes out the next turn that should have been answered before the load `ends`: when it was due. Who waits for answers is
    /// never late.
    pub(super) fn next_behind(&mut self, ends: Instant) -> Option<Instant> {
        let due = self.due;
        let is_behind =
            !self.is_over && matches!(self.arrivals, Arrivals::Open { .. }) && due < ends;
        is_behind.then(|| {
            self.due = self.arrivals.next(due, ends, &mut self.rng);
            due
        })
    }
}

/// Intervals of a Poisson process; a day at most, and long enough for time to go on.
fn interval(rate: f64, rng: &mut StdRng) -> Duration {
    let seconds = -(1.0 - rng.random::<f64>()).ln() / rate;
    let interval = Duration::try_from_secs_f64(seconds.min(86_400.0));
    interval.unwrap_or_default().max(Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn an_open_pace_keeps_its_rate_however_late_answers_are() {
        let mut rng = StdRng::seed_from_u64(7);
        let start = Instant::now();
        let arrivals = Arrivals::Open { rate: 50.0 };
        let late = start + Duration::from_secs(3600);
        let mut due = arrivals.first(start, &mut rng);
        for _ in 1..5_000 {
            due = arrivals.next(due, late, &mut rng);
        }
        let seconds = due.duration_since(start).as_secs_f64();
        assert!(
            (95.0..105.0).contains(&seconds),
            "5,000 turns took {seconds} s"
        );
    }

    #[test]
    fn the_timer_of_the_load_is_nobodys_latency() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let arrivals = Arrivals::Open { rate: 100.0 };
        let mut schedule = Schedule::new(arrivals, start, StdRng::seed_from_u64(7));
        // The client was idle; the timer was late.
        let begun = schedule.due() + ms(1);
        assert_eq!(schedule.counts_from(begun), begun);
        // It waits for an hour, and further turns fall due.
        let answered = begun + ms(3_600_000);
        schedule.answered(answered);
        assert!(schedule.due() < answered);
        assert_eq!(schedule.counts_from(answered), schedule.due());
    }

    #[test]
    fn a_closed_pace_pauses_after_the_answer() {
        let mut rng = StdRng::seed_from_u64(7);
        let start = Instant::now();
        let think = Duration::from_millis(10);
        let arrivals = Arrivals::Closed { think };
        assert!(arrivals.first(start, &mut rng) <= start + think);
        let now = start + Duration::from_secs(1);
        assert_eq!(arrivals.next(start, now, &mut rng), now + think);
    }
}
