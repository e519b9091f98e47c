//! The time in which PostgreSQL answers the requests of a template.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of requests that must have run alone before a template counts as short.
const PACE_RUNS_MIN: u32 = 3;
/// A short request takes at most this many microseconds.
const SHORT_MICROS_MAX: u32 = 5_000;
/// A short request has an answer of at most this many bytes.
const SHORT_BYTES_MAX: u32 = 16 * 1024;

/// Measurements of a template's requests. They are updated without a lock: a lost update only delays.
#[derive(Debug, Default)]
pub struct Pace {
    runs: AtomicU32,
    long: AtomicU32,
    /// Bytes of the last answer.
    bytes: AtomicU32,
    /// Microseconds that the last groups needed per request. Before the first group: those of a request that ran alone. 0:
    /// not known.
    each_micros: AtomicU32,
}

/// If a group is faster than the known value, the value decreases by this fraction of the difference.
const FASTER_PART: u32 = 8;

impl Pace {
    /// A request ran alone. `micros`: until its answer was complete. `bytes`: of the answer.
    pub fn record(&self, micros: u32, bytes: u32) {
        self.bytes.store(bytes, Ordering::Relaxed);
        if self.each_micros.load(Ordering::Relaxed) == 0 {
            self.each_micros.store(micros, Ordering::Relaxed);
        }
        if micros > SHORT_MICROS_MAX || bytes > SHORT_BYTES_MAX {
            self.long.store(PACE_RUNS_MIN, Ordering::Relaxed);
        } else {
            let left = self.long.load(Ordering::Relaxed);
            self.long.store(left.saturating_sub(1), Ordering::Relaxed);
            let runs = self.runs.load(Ordering::Relaxed);
            self.runs.store(runs.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// A group of this many requests was answered after `micros`.
    pub fn record_group(&self, micros: u32, requests: usize) {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX).max(1);
        let (each, known) = (micros / requests, self.each_micros.load(Ordering::Relaxed));
        let smoothed = known.saturating_sub(known.saturating_sub(each) / FASTER_PART);
        self.each_micros
            .store(smoothed.max(each), Ordering::Relaxed);
    }

    /// The number of requests that a group can execute within the limit. At least 1.
    pub fn most_within(&self, limit: Duration) -> usize {
        let each = self.each_micros.load(Ordering::Relaxed).max(1);
        let most = limit.as_micros() / u128::from(each);
        usize::try_from(most).unwrap_or(usize::MAX).max(1)
    }

    /// Bytes of the last answer.
    pub fn last_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// Whether enough requests have run, and none of the last few was long.
    pub fn is_short(&self) -> bool {
        self.runs.load(Ordering::Relaxed) >= PACE_RUNS_MIN && self.long.load(Ordering::Relaxed) == 0
    }
}
