//! A line with a clock that the test moves.

use crate::line::{
    Dispatch, Limits, Line, LineKey, LockOutcome, NextStep, WaitEntry, WaitSpec, WaiterId,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A line, its clock, and requests named by letters.
pub(super) struct LineFixture {
    pub(super) line: Line<char>,
    pub(super) now: Instant,
}

impl LineFixture {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            line: Line::new(limits, Arc::default(), Instant::now()),
            now: Instant::now() + Duration::from_secs(3_600),
        }
    }

    /// Whether a request starts at once on a connection that is free.
    pub(super) fn starts(&mut self, spec: &WaitSpec) -> bool {
        self.line.start_at_once(self.now, spec).is_some()
    }

    pub(super) fn submit(&mut self, spec: WaitSpec, requests: &str) -> Vec<WaiterId> {
        requests
            .chars()
            .map(|request| self.line.submit(self.now, spec.clone(), request))
            .collect()
    }

    pub(super) fn next(&mut self) -> Option<Dispatch<char>> {
        match self.line.next(self.now, 1)? {
            NextStep::Group(dispatch) => Some(dispatch),
            other => panic!("{other:?}"),
        }
    }

    /// The requests that are probed next.
    pub(super) fn probes(&mut self) -> String {
        match self.line.next(self.now, 1) {
            Some(NextStep::Probe(waiters)) => self.requests(&waiters),
            other => panic!("{other:?}"),
        }
    }

    /// The request whose row lock is requested next.
    pub(super) fn locks(&mut self) -> String {
        match self.line.next(self.now, 1) {
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

    /// All requests that leave now return after a while, because their row locks were not granted.
    pub(super) fn blocked(&mut self) -> String {
        let entries = self.next().expect("a request leaves").entries;
        self.pass(20_000);
        let word = word(&entries);
        let keys = entries.iter().flat_map(|e| e.spec.keys.as_slice());
        let keys: BTreeSet<LineKey> = keys.copied().collect();
        let released = keys.into_iter().map(|key| (key, LockOutcome::Blocked));
        self.line.put_back(self.now, entries, released);
        word
    }

    /// The requests that leave next; empty if there are none.
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
