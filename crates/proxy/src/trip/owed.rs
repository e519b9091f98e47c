//! What a trip owes to its pool. A batch that panics ends its task; the pool goes on, with one connection less.

use crate::pool::{Pool, Waiter};
use paceline_batch::line::{Dispatch, LineKey, WaitEntry};
use paceline_batch::strategy::Retry;
use std::sync::Arc;

/// A connection, and the rows that are in flight because of those who travel on it. If this is dropped before somebody else owes
/// them, the connection is lost and the rows are free.
pub(super) struct Owed {
    pub(super) pool: Arc<Pool>,
    rows: Vec<LineKey>,
    settled: bool,
}

impl Owed {
    /// The row whose lock is waited for.
    pub(super) fn wait_for(&mut self, row: LineKey) {
        self.rows = vec![row];
    }

    /// For a connection without travellers.
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            rows: Vec::new(),
            settled: false,
        }
    }

    /// The rows of a group that sets out, too.
    pub(super) fn depart(&mut self, dispatch: &Dispatch<Waiter>) {
        self.rows = crate::pool::keys_of(&dispatch.entries);
    }

    /// The rows come back now.
    pub(super) fn take_rows(&mut self) -> Vec<LineKey> {
        std::mem::take(&mut self.rows)
    }

    /// Somebody else has the connection from now on.
    pub(super) fn settle(mut self) -> Arc<Pool> {
        self.settled = true;
        Arc::clone(&self.pool)
    }

    /// The connection is lost, and these go again.
    pub(super) fn wreck(mut self, again: Vec<(WaitEntry<Waiter>, Retry)>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Proxy;
    use paceline_batch::line::LineKeys;
    use paceline_config::Config;

    #[tokio::test]
    async fn a_batch_that_panics_costs_its_pool_one_connection() {
        let config = Config::for_upstream("postgres://127.0.0.1:1").unwrap();
        let pool = Arc::new(Proxy::new(config)).pool("app", "web").unwrap();
        let row = LineKeys::One(LineKey(7));
        let (dispatch, _waits) = pool.set_off(&row).unwrap();
        assert!(pool.set_off(&row).is_none(), "the row is in flight");
        let mut owed = Owed::new(Arc::clone(&pool));
        owed.depart(&dispatch);
        let trip = tokio::spawn(async move {
            let _owed = owed;
            panic!("a batch that cannot be built");
        });
        assert!(trip.await.is_err());
        assert_eq!(pool.load().0.servers_active, 0);
        assert!(pool.set_off(&row).is_some());
    }

    #[tokio::test]
    async fn whoever_takes_the_connection_owes_it() {
        let config = Config::for_upstream("postgres://127.0.0.1:1").unwrap();
        let pool = Arc::new(Proxy::new(config)).pool("app", "web").unwrap();
        pool.set_off(&LineKeys::Unknown).unwrap();
        Owed::new(Arc::clone(&pool)).settle();
        assert_eq!(pool.load().0.servers_active, 1);
    }
}
