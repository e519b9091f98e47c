//! The pools that the tables list, with the database and user that clients name.

use paceline_pool::pool::{Pool, PoolName};
use paceline_proxy::proxy::Proxy;
use std::sync::Arc;

/// The pools to which a client was admitted, in the order of their names. Those of replicas and shards are not among them.
pub(super) fn named_pools(proxy: &Proxy) -> Vec<(PoolName, Arc<Pool>)> {
    let mut pools = with_replicas(proxy);
    pools.retain(|(_, pool)| !pool.is_beside());
    pools
}

/// The pools to which a client was admitted, and those of their replicas and shards.
pub(super) fn with_replicas(proxy: &Proxy) -> Vec<(PoolName, Arc<Pool>)> {
    let pools = proxy.pools.all().into_iter();
    let mut named: Vec<_> = pools
        .filter_map(|pool| Some((pool.name.get()?.clone(), pool)))
        .collect();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    named
}

/// These pools by database.
pub(super) fn by_database(proxy: &Proxy) -> Vec<(String, Vec<Arc<Pool>>)> {
    let mut databases: Vec<(String, Vec<Arc<Pool>>)> = Vec::new();
    for (name, pool) in named_pools(proxy) {
        match databases.last_mut() {
            Some((database, pools)) if *database == name.database => pools.push(pool),
            _ => databases.push((name.database, vec![pool])),
        }
    }
    databases
}
