//! The time of the runtime, and the time as the console shows it, read once per second.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The present time. A runtime for tests may have stopped its clock.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time since then, by the same clock.
pub fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}

/// Seconds since 1970-01-01 UTC, as of the last tick.
#[derive(Debug)]
pub struct CoarseClock(AtomicU32);

impl Default for CoarseClock {
    fn default() -> Self {
        let clock = Self(AtomicU32::new(0));
        clock.tick();
        clock
    }
}

impl CoarseClock {
    /// Reads the system's clock.
    pub(crate) fn tick(&self) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.unwrap_or_default().as_secs();
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        self.0.store(seconds, Ordering::Relaxed);
    }

    /// Seconds since 1970-01-01 UTC.
    pub fn seconds(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
