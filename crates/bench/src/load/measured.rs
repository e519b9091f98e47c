//! The results of a load.

use crate::connection::Failure;
use crate::record::{Errors, Latency, OpenLoop, WithinDeadline};
use crate::workload::Outcome;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longer turns are recorded with this latency.
const LATENCY_MAX: Duration = Duration::from_secs(300);
/// Significant digits of a latency.
const DIGITS: u8 = 3;

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
    /// Failed turns by [`Failure::kind`], including the warm-up.
    pub(crate) errors: BTreeMap<String, Errors>,
    /// The answers that clients received in the whole run.
    pub(crate) outcome: Outcome,
}

impl Measured {
    pub(super) fn nothing() -> Self {
        let micros_max = u64::try_from(LATENCY_MAX.as_micros()).unwrap_or(u64::MAX);
        // Fails only for invalid bounds or digits.
        let histogram = Histogram::new_with_bounds(1, micros_max, DIGITS);
        Self {
            done: 0,
            open_loop: OpenLoop::default(),
            within_deadline: WithinDeadline::default(),
            lasted: Duration::ZERO,
            histogram: histogram.unwrap_or_else(|error| unreachable!("{error}")),
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

    /// Records a turn that ended within the measured time.
    pub(super) fn record(&mut self, took: Duration) {
        self.done += 1;
        self.record_latency(took);
    }

    pub(super) fn record_latency(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(micros.max(1));
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
        for (kind, Errors { count, first }) in other.errors {
            self.add_errors(&kind, count, || first);
        }
        self.outcome.acknowledged += other.outcome.acknowledged;
        self.outcome.unknown += other.outcome.unknown;
    }
}
