//! Databases that a statement of a client needs without other sessions (`DROP DATABASE` and similar): idle connections of pools to them
//! would make the statement fail.
//!
//! While such a statement runs, idle connections are closed and none is opened: requests wait, as a new session would wait for PostgreSQL's
//! lock on the database. A connection in use stays open, and PostgreSQL reports its error, unless the connection is returned while the
//! statement waits for it.

use super::Pools;
use crate::address::DatabaseAddress;
use crate::pool::{ExclusiveUse, Pool};
use std::sync::Arc;

/// Keeps all pools out of a database until this is dropped.
pub struct Exclusive {
    pools: Arc<Pools>,
    /// `None` only while this is dropped.
    running: Option<Arc<ExclusiveUse>>,
}

impl Exclusive {
    /// Closes the idle connections of all pools that lead to the database.
    pub fn begin(pools: &Arc<Pools>, database: DatabaseAddress) -> Self {
        let running = Arc::new(ExclusiveUse);
        pools.exclude(database, &Arc::downgrade(&running));
        Self {
            pools: Arc::clone(pools),
            running: Some(running),
        }
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        self.running = None;
        let pools = self.pools.all();
        pools.iter().for_each(Pool::exclusive_use_ended);
    }
}
