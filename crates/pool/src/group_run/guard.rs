//! Returns the resources of a group run to its pool. If a batch panics, its task ends, and the pool continues with one connection less.

use crate::pool::{Pool, Waiter};
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::{Dispatch, LineKey, WaitEntry};
use paceline_batch::strategy::Retry;
use std::sync::Arc;

/// A connection, and the rows that are in flight because of the group on it. If this is dropped before another owner has taken the
/// connection, the connection counts as lost, and the flight of the rows ends.
pub(super) struct RunGuard {
    pub(super) pool: Arc<Pool>,
    rows: Vec<LineKey>,
    flight: FlightId,
    released: bool,
}

/// The rows of all these requests, each once.
fn rows_of(entries: &[WaitEntry<Waiter>]) -> Vec<LineKey> {
    let rows = entries.iter().flat_map(|entry| entry.spec.keys.as_slice());
    let mut rows: Vec<LineKey> = rows.copied().collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

impl RunGuard {
    /// For a connection without a group.
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            rows: Vec::new(),
            flight: FlightId::UNCOUNTED,
            released: false,
        }
    }

    /// Adds the row whose lock the connection waits for.
    pub(super) fn add_row(&mut self, row: LineKey) {
        self.rows = vec![row];
    }

    /// Adds a group and its rows.
    pub(super) fn add_group(&mut self, group: &Dispatch<Waiter>) {
        self.rows = rows_of(&group.entries);
        self.flight = group.flight;
    }

    /// Takes the rows, whose flight the caller ends.
    pub(super) fn take_rows(&mut self) -> Vec<LineKey> {
        std::mem::take(&mut self.rows)
    }

    /// Takes the group, whose flight the caller ends.
    pub(super) fn take_flight(&mut self) -> FlightId {
        std::mem::replace(&mut self.flight, FlightId::UNCOUNTED)
    }

    /// Another owner takes the connection.
    pub(super) fn release(mut self) -> Arc<Pool> {
        self.released = true;
        Arc::clone(&self.pool)
    }

    /// The connection is lost; these requests are tried again.
    pub(super) fn connection_lost(mut self, again: Vec<(WaitEntry<Waiter>, Retry)>) {
        self.released = true;
        let (rows, flight) = (self.take_rows(), self.take_flight());
        self.pool.run_lost(rows, flight, again);
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if !self.released {
            let (rows, flight) = (self.take_rows(), self.take_flight());
            self.pool.run_lost(rows, flight, Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use paceline_batch::line::LineKeys;

    #[tokio::test]
    async fn a_batch_that_panics_costs_its_pool_one_connection() {
        let pool = testing::pool();
        let row = LineKeys::One(LineKey(7));
        let (group, _result) = pool.dequeue_one(&row).unwrap();
        assert!(pool.dequeue_one(&row).is_none(), "the row is in flight");
        let mut guard = RunGuard::new(Arc::clone(&pool));
        guard.add_group(&group);
        let run = tokio::spawn(async move {
            let _guard = guard;
            panic!("a batch that cannot be built");
        });
        assert!(run.await.is_err());
        assert_eq!(pool.load().0.servers_active, 0);
        assert!(pool.dequeue_one(&row).is_some());
    }

    #[tokio::test]
    async fn another_owner_of_the_connection_gives_it_back() {
        let pool = testing::pool();
        pool.dequeue_one(&LineKeys::Unknown).unwrap();
        RunGuard::new(Arc::clone(&pool)).release();
        assert_eq!(pool.load().0.servers_active, 1);
    }
}
