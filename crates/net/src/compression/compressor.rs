//! The state that the compressed connections of one link share: the settings, the effort, and the count of bytes.

use super::pace::{Effort, Pace};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The highest level of zstd that is used: higher ones need much more memory and time.
const LEVEL_MAX: u8 = 19;

/// The compression of the connections of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompressionSettings {
    /// The highest level of zstd that is used, 1 to 19.
    pub level: u8,
    /// Whether an exchange is compressed with earlier ones of its connection as a dictionary.
    pub shared_window: bool,
}

/// Bytes on compressed connections since the start, before and after compression.
#[derive(Debug, Default)]
pub struct ByteCounts {
    /// Sent, before compression.
    pub sent: AtomicU64,
    /// Sent, as they are transmitted.
    pub sent_compressed: AtomicU64,
    /// Received, after decompression.
    pub received: AtomicU64,
    /// Received, as they are transmitted.
    pub received_compressed: AtomicU64,
}

/// Compresses the connections of one link.
#[derive(Debug)]
pub struct Compressor {
    settings: CompressionSettings,
    pace: Mutex<Pace>,
    counts: Arc<ByteCounts>,
}

impl Compressor {
    /// With these settings. Bytes are added to `counts`.
    pub fn new(settings: CompressionSettings, counts: Arc<ByteCounts>) -> Self {
        Self {
            settings,
            pace: Mutex::new(Pace::new(settings.level.clamp(1, LEVEL_MAX).into())),
            counts,
        }
    }

    /// The settings.
    pub fn settings(&self) -> CompressionSettings {
        self.settings
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The effort for what is written now.
    pub(super) fn effort(&self, now: Instant) -> Effort {
        self.pace().effort(now)
    }

    /// Notes that `plain` bytes were written, and took `time` of a processor.
    pub(super) fn wrote(&self, time: Duration, plain: usize) {
        self.pace().wrote(time, plain);
    }

    /// Counts bytes that are sent.
    pub(super) fn count_sent(&self, plain: usize, compressed: usize) {
        add(&self.counts.sent, plain);
        add(&self.counts.sent_compressed, compressed);
    }

    /// Counts bytes that are received.
    pub(super) fn count_received(&self, plain: usize, compressed: usize) {
        add(&self.counts.received, plain);
        add(&self.counts.received_compressed, compressed);
    }
}

fn add(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::Relaxed);
}
