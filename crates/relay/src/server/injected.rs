//! Statements that a group prepares and closes on its way.

use super::{Closed, Ensured, ServerSide, StatementKey};
use std::collections::VecDeque;

/// Statements that a batch prepared or closed on the way, in order, until the server has said so. An error makes
/// the server skip everything up to the next Sync: what it skipped did not take place.
#[derive(Debug, Default)]
pub struct Injected(VecDeque<Injection>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Injection {
    Close(Closed),
    Parse(StatementKey),
    Unnamed,
    Sync,
}

impl Injected {
    /// [`ServerSide::ensure`] was called.
    pub fn push(&mut self, ensured: Ensured) {
        self.0.extend(ensured.closed.map(Injection::Close));
        self.0
            .extend(ensured.parsed.then_some(Injection::Parse(ensured.key)));
    }

    /// A `Parse` of the unnamed statement was written.
    pub fn push_unnamed(&mut self) {
        self.0.push_back(Injection::Unnamed);
    }

    /// A `Sync` was written.
    pub fn push_sync(&mut self) {
        self.0.push_back(Injection::Sync);
    }

    /// `ParseComplete` or `CloseComplete` came.
    pub fn complete(&mut self) {
        if self.0.front() != Some(&Injection::Sync) {
            self.0.pop_front();
        }
    }

    /// `ReadyForQuery` came: what has not been completed before it did not take place, the last of it first.
    pub fn synced(&mut self, server: &mut ServerSide) {
        let sync = self.0.iter().position(|i| *i == Injection::Sync);
        let skipped: Vec<Injection> = self.0.drain(..sync.unwrap_or(self.0.len())).collect();
        self.0.pop_front();
        for injection in skipped.into_iter().rev() {
            match injection {
                Injection::Close(closed) => server.remember(closed),
                Injection::Parse(key) => server.forget(key),
                Injection::Unnamed | Injection::Sync => {}
            }
        }
    }
}
