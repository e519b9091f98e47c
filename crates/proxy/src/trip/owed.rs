//! What a trip owes to its pool. A batch that panics ends its task; the pool goes on, with one connection less.

use crate::pool::{Pool, Waiter};
use paceline_line::line::{Departure, Entry, Key};
use paceline_line::strategy::Again;
use std::sync::Arc;

/// A connection, and the rows that are in flight because of those who travel on it. If this is dropped before somebody else owes
/// them, the connection is lost and the rows are free.
pub(super) struct Owed {
    pub(super) pool: Arc<Pool>,
    rows: Vec<Key>,
    settled: bool,
}

impl Owed {
    /// For a connection without travellers.
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            rows: Vec::new(),
            settled: false,
        }
    }

    /// The rows of a group that sets out, too.
    pub(super) fn depart(&mut self, departure: &Departure<Waiter>) {
        self.rows = crate::pool::keys_of(&departure.entries);
    }

    /// The rows come back now.
    pub(super) fn take_rows(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.rows)
    }

    /// Somebody else has the connection from now on.
    pub(super) fn settle(mut self) -> Arc<Pool> {
        self.settled = true;
        Arc::clone(&self.pool)
    }

    /// The connection is lost, and these go again.
    pub(super) fn wreck(mut self, again: Vec<(Entry<Waiter>, Again)>) {
        self.settled = true;
        let rows = self.take_rows();
        self.pool.wreck(rows, again);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.settled {
            let rows = self.take_rows();
            self.pool.wreck(rows, Vec::new());
        }
    }
}
