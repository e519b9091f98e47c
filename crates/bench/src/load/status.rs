//! The state of a load that other tasks read while it runs.

use crate::interrupt::Interrupt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counters of a load, and the signal that stops it.
#[derive(Debug)]
pub(crate) struct RunStatus {
    /// When all clients were connected and began; unset before.
    pub(crate) started: OnceLock<Instant>,
    /// Number of connected clients.
    pub(crate) connected: AtomicUsize,
    /// Number of completed turns, including the warm-up.
    pub(crate) done: AtomicU64,
    /// Total duration of the completed turns, in microseconds.
    pub(crate) micros: AtomicU64,
    /// Number of failed turns.
    pub(crate) failed: AtomicU64,
    /// Ends the run early.
    pub(crate) stop: Interrupt,
}

impl RunStatus {
    pub(crate) fn new(stop: Interrupt) -> Self {
        Self {
            started: OnceLock::new(),
            connected: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stop,
        }
    }

    /// Counts a completed turn.
    pub(super) fn done(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}
