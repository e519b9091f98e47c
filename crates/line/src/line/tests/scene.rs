//! A line with a clock that stands still until it is told to go on.

use crate::line::{Departure, Entry, Key, Limits, Line, Slip, Ticket};
use std::time::{Duration, Instant};

/// A line, its clock, and units named by a letter.
pub(super) struct Scene {
    pub(super) line: Line<char>,
    pub(super) now: Instant,
}

impl Scene {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            line: Line::new(limits),
            now: Instant::now() + Duration::from_secs(3_600),
        }
    }

    pub(super) fn come(&mut self, slip: Slip, units: &str) -> Vec<Ticket> {
        units
            .chars()
            .map(|unit| self.line.submit(self.now, slip.clone(), unit))
            .collect()
    }

    pub(super) fn next(&mut self) -> Option<Departure<char>> {
        self.line.next(self.now)
    }

    /// Who leaves now, as a word; empty: nobody.
    pub(super) fn leaves(&mut self) -> String {
        self.next().map(|d| word(&d.entries)).unwrap_or_default()
    }

    pub(super) fn land(&mut self, rows: &[u64]) {
        self.line.land(self.now, rows.iter().copied().map(Key));
    }

    pub(super) fn pass(&mut self, micros: u64) {
        self.now += Duration::from_micros(micros);
    }
}

pub(super) fn word(entries: &[Entry<char>]) -> String {
    entries.iter().map(|e| e.unit).collect()
}
