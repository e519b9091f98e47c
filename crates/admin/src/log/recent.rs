//! The last lines of the log, recorded only while the web console shows them.

use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::Level;

/// Maximum number of lines.
const LINES_MAX: usize = 100;

/// Maximum number of bytes of a line.
const LINE_BYTES_MAX: usize = 2_000;

static RECENT: Recent = Recent {
    recorders: AtomicUsize::new(0),
    lines: Mutex::new(VecDeque::new()),
};

struct Recent {
    recorders: AtomicUsize,
    lines: Mutex<VecDeque<RecentLine>>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RecentLine {
    time: String,
    level: &'static str,
    text: String,
}

/// Lines are recorded until the last of these is dropped.
pub(crate) struct Recording(());

/// Records lines from now on.
pub(crate) fn record() -> Recording {
    RECENT.recorders.fetch_add(1, Ordering::Relaxed);
    Recording(())
}

/// Number of recordings.
#[cfg(test)]
pub(crate) fn recorders() -> usize {
    RECENT.recorders.load(Ordering::Relaxed)
}

/// Adds a line, if lines are recorded. It is escaped already.
pub(super) fn add(level: Level, time: &str, line: &str) {
    if RECENT.recorders.load(Ordering::Relaxed) == 0 {
        return;
    }
    let end = line.floor_char_boundary(LINE_BYTES_MAX);
    let mut lines = RECENT.lock();
    if lines.len() >= LINES_MAX {
        lines.pop_front();
    }
    lines.push_back(RecentLine {
        time: time.trim_end().to_owned(),
        level: level.as_str(),
        text: line.get(..end).unwrap_or_default().trim_start().to_owned(),
    });
}

impl Recent {
    fn lock(&self) -> MutexGuard<'_, VecDeque<RecentLine>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recording {
    /// The recorded lines, the oldest first.
    pub(crate) fn lines(&self) -> Vec<RecentLine> {
        RECENT.lock().iter().cloned().collect()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if RECENT.recorders.fetch_sub(1, Ordering::Relaxed) == 1 {
            RECENT.lock().clear();
        }
    }
}
