//! How quickly the requests of a template are answered.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Requests of a template that must have run alone before it counts as short.
const PACE_RUNS_MIN: u32 = 3;
/// A short request is answered within this many microseconds …
const SHORT_MICROS_MAX: u32 = 5_000;
/// … with at most this many bytes.
const SHORT_BYTES_MAX: u32 = 16 * 1024;

/// What was measured of a template's requests that ran alone. Updated without a lock: a lost update only delays.
#[derive(Debug, Default)]
pub struct Pace {
    runs: AtomicU32,
    long: AtomicU32,
    /// Of the last answer.
    bytes: AtomicU32,
    /// Microseconds that a group took for each of its requests; before there was one, that a request took alone. 0: not known.
    each_micros: AtomicU32,
}

/// A group that was faster than expected counts this part of the difference.
const FASTER_PART: u32 = 8;

impl Pace {
    /// A request ran alone: microseconds until its answer was complete, bytes of the answer.
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

    /// A group was answered after so many microseconds.
    pub fn record_group(&self, micros: u32, requests: usize) {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX).max(1);
        let (each, known) = (micros / requests, self.each_micros.load(Ordering::Relaxed));
        let smoothed = known.saturating_sub(known.saturating_sub(each) / FASTER_PART);
        self.each_micros
            .store(smoothed.max(each), Ordering::Relaxed);
    }

    /// How many requests a group has that takes no longer than this; at least 1.
    pub fn most_within(&self, limit: Duration) -> usize {
        let each = self.each_micros.load(Ordering::Relaxed).max(1);
        let most = limit.as_micros() / u128::from(each);
        usize::try_from(most).unwrap_or(usize::MAX).max(1)
    }

    /// Bytes of the last answer.
    pub fn last_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// Runs so far, and none of the last few was long.
    pub fn is_short(&self) -> bool {
        self.runs.load(Ordering::Relaxed) >= PACE_RUNS_MIN && self.long.load(Ordering::Relaxed) == 0
    }
}
