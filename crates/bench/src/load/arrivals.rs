//! The times at which clients begin their turns.

use rand::RngExt;
use rand::rngs::StdRng;
use std::time::{Duration, Instant};

/// The arrival process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    /// Closed loop: a client begins its next turn after the answer to the last one and a pause.
    Closed {
        /// The pause, such as the think time of a user.
        think: Duration,
    },
    /// Open loop: turns are due at a fixed mean rate with exponential intervals, however long answers take. If a turn
    /// becomes due while its client still waits, its latency counts from that time, so that a target that falls behind
    /// cannot hide it.
    Open {
        /// Turns per second and client.
        rate: f64,
    },
}

impl Arrivals {
    /// The time at which the first turn is due. Clients that pause begin at random times.
    fn first(self, start: Instant, rng: &mut StdRng) -> Instant {
        match self {
            Self::Closed { think } => start + think.mul_f64(rng.random::<f64>()),
            Self::Open { rate } => start + interval(rate, rng),
        }
    }

    /// The time at which the next turn is due, after one that was due at `due` and ended at `now`.
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
    /// The time at which the next unanswered turn is or was due.
    due: Instant,
    /// The time at which the previous turn ended.
    free: Instant,
    /// The time at which the turn that has no answer yet was begun.
    pub(super) under_way: Option<Instant>,
    /// Whether the client takes no more turns.
    is_over: bool,
}

impl Schedule {
    pub(super) fn new(arrivals: Arrivals, start: Instant, mut rng: StdRng) -> Self {
        Self {
            arrivals,
            due: arrivals.first(start, &mut rng),
            free: start,
            under_way: None,
            is_over: false,
            rng,
        }
    }

    /// The time at which the next turn is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The time at which the latency of the current turn begins, which started at `begun`. If the client was free when the turn became
    /// due, only the timer of the load delayed it; that delay does not count.
    pub(super) fn counts_from(&self, begun: Instant) -> Instant {
        if self.due < self.free {
            self.due
        } else {
            begun
        }
    }

    /// Whether turns are due at a fixed rate.
    pub(super) fn is_open_loop(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open { .. })
    }

    /// Ends the current turn and schedules the next one.
    pub(super) fn answered(&mut self, now: Instant) {
        self.due = self.arrivals.next(self.due, now, &mut self.rng);
        self.free = now;
    }

    /// Ends the schedule: the client takes no more turns.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Removes the next turn that was due before `ends` and not answered; returns when it was due. A closed loop has no
    /// such turns.
    pub(super) fn next_behind(&mut self, ends: Instant) -> Option<Instant> {
        let due = self.due;
        let is_behind = !self.is_over && self.is_open_loop() && due < ends;
        is_behind.then(|| {
            self.due = self.arrivals.next(due, ends, &mut self.rng);
            due
        })
    }
}

/// An interval of a Poisson process; at most a day, at least a nanosecond.
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
    fn open_arrivals_keep_their_rate_however_late_answers_are() {
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
    fn the_delay_of_the_timer_is_not_latency() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let arrivals = Arrivals::Open { rate: 100.0 };
        let mut schedule = Schedule::new(arrivals, start, StdRng::seed_from_u64(7));
        // The client was idle and the timer fired late.
        let begun = schedule.due() + ms(1);
        assert_eq!(schedule.counts_from(begun), begun);
        // The client waits for an hour, and further turns become due.
        let answered = begun + ms(3_600_000);
        schedule.answered(answered);
        assert!(schedule.due() < answered);
        assert_eq!(schedule.counts_from(answered), schedule.due());
    }

    #[test]
    fn closed_arrivals_pause_after_the_answer() {
        let mut rng = StdRng::seed_from_u64(7);
        let start = Instant::now();
        let think = Duration::from_millis(10);
        let arrivals = Arrivals::Closed { think };
        assert!(arrivals.first(start, &mut rng) <= start + think);
        let now = start + Duration::from_secs(1);
        assert_eq!(arrivals.next(start, now, &mut rng), now + think);
    }
}
