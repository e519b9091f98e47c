//! The results of a load.

use crate::connection::Failure;
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
    /// Number of turns that were due within the measured time.
    pub(crate) offered: u64,
    /// Number of turns at a fixed rate that were due but not answered when the measured time ended.
    pub(crate) behind: u64,
    /// Latencies of the completed turns, and the ages of the turns that were behind, in microseconds.
    pub(crate) latency: Histogram<u64>,
    /// Failed turns by [`Failure::kind`], including the warm-up: their number and the message of the first.
    pub(crate) errors: BTreeMap<String, (u64, String)>,
    /// The answers that clients received in the whole run.
    pub(crate) outcome: Outcome,
}

impl Measured {
    pub(super) fn nothing() -> Self {
        let micros_max = u64::try_from(LATENCY_MAX.as_micros()).unwrap_or(u64::MAX);
        // Fails only for invalid bounds or digits.
        let latency = Histogram::new_with_bounds(1, micros_max, DIGITS);
        Self {
            done: 0,
            offered: 0,
            behind: 0,
            lasted: Duration::ZERO,
            latency: latency.unwrap_or_else(|error| unreachable!("{error}")),
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

    /// Records a turn that ended within the measured time.
    pub(super) fn record(&mut self, took: Duration) {
        self.done += 1;
        self.record_latency(took);
    }

    pub(super) fn record_latency(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(micros.max(1));
    }

    pub(super) fn record_failure(&mut self, failure: &Failure) {
        let error = self.errors.entry(failure.kind().to_owned());
        error.or_insert_with(|| (0, failure.to_string())).0 += 1;
    }

    /// Adds the results of another thread.
    pub(super) fn add(&mut self, other: Measured) {
        self.done += other.done;
        self.offered += other.offered;
        self.behind += other.behind;
        self.lasted = self.lasted.max(other.lasted);
        // Fails only if the bounds differ.
        let _ = self.latency.add(&other.latency);
        for (kind, (count, message)) in other.errors {
            self.errors.entry(kind).or_insert_with(|| (0, message)).0 += count;
        }
        self.outcome.acknowledged += other.outcome.acknowledged;
        self.outcome.unknown += other.outcome.unknown;
    }
}
