//! A line with a clock that stands still until it is told to go on.

use crate::line::{
    Dispatch, Limits, Line, LineKey, LockOutcome, NextStep, WaitEntry, WaitSpec, WaiterId,
};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A line, its clock, and units named by a letter.
pub(super) struct LineFixture {
    pub(super) line: Line<char>,
    pub(super) now: Instant,
}

impl LineFixture {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            line: Line::new(limits),
            now: Instant::now() + Duration::from_secs(3_600),
        }
    }

    pub(super) fn come(&mut self, spec: WaitSpec, requests: &str) -> Vec<WaiterId> {
        requests
            .chars()
            .map(|request| self.line.submit(self.now, spec.clone(), request))
            .collect()
    }

    pub(super) fn next(&mut self) -> Option<Dispatch<char>> {
        match self.line.next(self.now)? {
            NextStep::Group(dispatch) => Some(dispatch),
            other => panic!("{other:?}"),
        }
    }

    /// Units that are asked about now, as a word.
    pub(super) fn probes(&mut self) -> String {
        match self.line.next(self.now) {
            Some(NextStep::Probe(waiters)) => self.requests(&waiters),
            other => panic!("{other:?}"),
        }
    }

    /// The unit whose row's lock is waited for now.
    pub(super) fn locks(&mut self) -> String {
        match self.line.next(self.now) {
            Some(NextStep::Lock(waiter)) => self.requests(&[waiter]),
            other => panic!("{other:?}"),
        }
    }

    fn requests(&self, waiters: &[WaiterId]) -> String {
        let waiting = &self.line.waiting;
        waiters
            .iter()
            .map(|waiter| waiting[waiter].request)
            .collect()
    }

    /// All that leave now come back after a while, as the lock of their row could not be had.
    pub(super) fn blocked(&mut self) -> String {
        let entries = self.next().expect("somebody leaves").entries;
        self.pass(20_000);
        let word = word(&entries);
        let keys = entries.iter().flat_map(|e| e.spec.keys.as_slice());
        let keys: BTreeSet<LineKey> = keys.copied().collect();
        let landed = keys.into_iter().map(|key| (key, LockOutcome::Blocked));
        self.line.put_back(self.now, entries, landed);
        word
    }

    /// Who leaves now, as a word; empty: nobody.
    pub(super) fn leaves(&mut self) -> String {
        self.next().map(|d| word(&d.entries)).unwrap_or_default()
    }

    pub(super) fn release_rows(&mut self, rows: &[u64]) {
        for row in rows {
            self.line
                .release_rows(self.now, LineKey(*row), LockOutcome::Free);
        }
    }

    pub(super) fn pass(&mut self, micros: u64) {
        self.now += Duration::from_micros(micros);
    }
}

pub(super) fn word(entries: &[WaitEntry<char>]) -> String {
    entries.iter().map(|e| e.request).collect()
}
