//! Helpers for the tests of this crate.

use crate::pool::Pool;
use crate::pools::Pools;
use paceline_config::Config;
use std::sync::Arc;

/// Pools for one database without a server.
pub(crate) fn pools() -> Arc<Pools> {
    Pools::new(Arc::new(Config::for_upstream("postgres://db").unwrap()))
}

/// One of these pools.
pub(crate) fn pool() -> Arc<Pool> {
    pools().pool("app", "rider").unwrap()
}
