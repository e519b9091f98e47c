//! The results of a load.

use crate::connection::Failure;
use crate::record::{Errors, Latency, OpenLoop, Trend, TrendPart, WithinDeadline};
use crate::workload::Outcome;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longer turns are recorded with this latency.
const LATENCY_MAX: Duration = Duration::from_secs(300);
/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The first or the last tenth of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tenth {
    First,
    Last,
}

impl Tenth {
    /// The tenth of the time from `begin` to `end` that contains `now`, if it is the first or the last.
    pub(super) fn of(now: Instant, begin: Instant, end: Instant) -> Option<Self> {
        let tenth = (end - begin) / TENTHS;
        match now {
            now if now >= end - tenth => Some(Self::Last),
            now if now < begin + tenth => Some(Self::First),
            _ => None,
        }
    }
}

const TENTHS: u32 = 10;

/// The turns that ended in a tenth of the measured time.
#[derive(Debug)]
struct TenthResults {
    /// Number of turns.
    done: u64,
    /// Latencies as in [`Measured::histogram`].
    histogram: Histogram<u64>,
}

/// The results of a load, or of one of its threads.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Number of turns that ended within the measured time.
    pub(crate) done: u64,
    /// The measured time. It is shorter than requested if the run was stopped.
    pub(crate) lasted: Duration,
    /// Turns that were due within the measured time; only those at a fixed rate can be behind.
    pub(crate) open_loop: OpenLoop,
    /// Requests with a deadline within the measured time; none if there is no deadline.
    pub(crate) within_deadline: WithinDeadline,
    /// Latencies of the completed turns, and the ages of the turns that were behind, in microseconds.
    pub(super) histogram: Histogram<u64>,
    first_tenth: TenthResults,
    last_tenth: TenthResults,
    /// Failed turns by [`Failure::kind`], including the warm-up.
    pub(crate) errors: BTreeMap<String, Errors>,
    /// The answers that clients received in the whole run.
    pub(crate) outcome: Outcome,
}

impl Measured {
    pub(super) fn nothing() -> Self {
        Self {
            done: 0,
            open_loop: OpenLoop::default(),
            within_deadline: WithinDeadline::default(),
            lasted: Duration::ZERO,
            histogram: histogram(),
            first_tenth: TenthResults::nothing(),
            last_tenth: TenthResults::nothing(),
            errors: BTreeMap::new(),
            outcome: Outcome::default(),
        }
    }

    /// Completed turns per second.
    pub(crate) fn rate(&self) -> f64 {
        match self.lasted.as_secs_f64() {
            seconds if seconds > 0.0 => self.done as f64 / seconds,
            _ => 0.0,
        }
    }

    /// The quantiles of the latency.
    pub(crate) fn latency(&self) -> Latency {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        Latency {
            mean: self.histogram.mean(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: self.histogram.max(),
        }
    }

    /// The beginning and the end of a measured time of `duration`.
    pub(crate) fn trend(&self, duration: Duration) -> Trend {
        Trend {
            first: self.first_tenth.part(duration / TENTHS),
            last: self.last_tenth.part(duration / TENTHS),
        }
    }

    /// Records a turn that ended within the measured time.
    pub(super) fn record(&mut self, took: Duration, tenth: Option<Tenth>) {
        self.done += 1;
        if let Some(tenth) = tenth {
            self.tenth(tenth).done += 1;
        }
        self.record_latency(took, tenth);
    }

    pub(super) fn record_latency(&mut self, took: Duration, tenth: Option<Tenth>) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        self.histogram.saturating_record(micros);
        if let Some(tenth) = tenth {
            self.tenth(tenth).histogram.saturating_record(micros);
        }
    }

    fn tenth(&mut self, tenth: Tenth) -> &mut TenthResults {
        match tenth {
            Tenth::First => &mut self.first_tenth,
            Tenth::Last => &mut self.last_tenth,
        }
    }

    pub(super) fn record_failure(&mut self, failure: &Failure) {
        self.add_errors(failure.kind(), 1, || failure.to_string());
    }

    fn add_errors(&mut self, kind: &str, count: u64, first: impl FnOnce() -> String) {
        let errors = self.errors.entry(kind.to_owned());
        let new = || Errors {
            count: 0,
            first: first(),
        };
        errors.or_insert_with(new).count += count;
    }

    /// Adds the results of another thread.
    pub(super) fn add(&mut self, other: Measured) {
        self.done += other.done;
        self.open_loop.add(other.open_loop);
        self.within_deadline.add(other.within_deadline);
        self.lasted = self.lasted.max(other.lasted);
        // Fails only if the bounds differ.
        let _ = self.histogram.add(&other.histogram);
        self.first_tenth.add(&other.first_tenth);
        self.last_tenth.add(&other.last_tenth);
        for (kind, Errors { count, first }) in other.errors {
            self.add_errors(&kind, count, || first);
        }
        self.outcome.acknowledged += other.outcome.acknowledged;
        self.outcome.unknown += other.outcome.unknown;
    }
}

impl TenthResults {
    fn nothing() -> Self {
        Self {
            done: 0,
            histogram: histogram(),
        }
    }

    fn part(&self, duration: Duration) -> TrendPart {
        let seconds = duration.as_secs_f64();
        let p99 = || self.histogram.value_at_quantile(0.99);
        TrendPart {
            rate: if seconds > 0.0 {
                self.done as f64 / seconds
            } else {
                0.0
            },
            p99: (!self.histogram.is_empty()).then(p99),
        }
    }

    fn add(&mut self, other: &Self) {
        self.done += other.done;
        // Fails only if the bounds differ.
        let _ = self.histogram.add(&other.histogram);
    }
}

fn histogram() -> Histogram<u64> {
    let micros_max = u64::try_from(LATENCY_MAX.as_micros()).unwrap_or(u64::MAX);
    // Fails only for invalid bounds or digits.
    let histogram = Histogram::new_with_bounds(1, micros_max, DIGITS);
    histogram.unwrap_or_else(|error| unreachable!("{error}"))
}
