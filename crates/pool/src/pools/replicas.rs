//! The pools of a database's replicas, and the loss of replicas.

use super::Pools;
use crate::hosts::DatabaseHosts;
use crate::pool::{Pool, PoolConfig, PoolState};
use crate::replicas::{Replicas, ReplicasInForce};
use std::sync::{Arc, Weak};
use tokio::sync::watch;

impl Pools {
    /// The replicas for the clients of a pool.
    pub fn replicas_beside(&self, pool: &Pool) -> ReplicasInForce {
        let name = pool.name.get();
        let key = name.map(|name| (name.database.clone(), name.user.clone()));
        let registry = self.lock();
        let replicas = key.and_then(|key| registry.replicas.get(&key).map(Arc::clone));
        let replicas = replicas.unwrap_or_default();
        if let Some(present) = &*replicas.load() {
            present
                .pools()
                .iter()
                .for_each(|replica| replica.name_as(pool));
        }
        replicas
    }

    /// Applies the configuration of the pool of a primary to the replicas beside it. `key` are the database and the user that
    /// clients name.
    pub(super) fn set_replicas(
        self: &Arc<Self>,
        replicas: &ReplicasInForce,
        (database, user): (String, String),
        primary: &Pool,
        config: &PoolConfig,
        state: PoolState,
    ) {
        let Some(hosts) = &config.hosts else {
            return replicas.store(None);
        };
        hosts.add_reader(&config.address.user);
        let present = replicas.load();
        if let Some(same) = present.as_ref().filter(|present| present.are_of(hosts)) {
            return same.reconfigure(config);
        }
        let of_hosts = Replicas::new(hosts, config, |config| {
            let upstream = &config.address.upstream;
            // The limits of connections hold for each server.
            let on = |name: &str| format!("{name}\0{:?}:{}", upstream.host, upstream.port);
            let (database, user, on_server) = (on(&database), on(&user), on(&config.address.user));
            let quotas = self.shared.quotas.of(&database, &user, &on_server);
            let all_pools: Weak<Self> = Arc::downgrade(self);
            let shared = Arc::clone(&self.shared);
            let beside = Some(primary);
            let pool = Pool::new(shared, all_pools, config, quotas, state, beside);
            pool.name_as(primary);
            Arc::new(pool)
        });
        replicas.store(Some(Arc::new(of_hosts)));
    }

    /// Takes reads away from replicas of these hosts that may not serve them any more.
    fn leave_lost_replicas(&self, hosts: &Arc<DatabaseHosts>) {
        let registry = self.lock();
        let all = registry
            .replicas
            .values()
            .map(|replicas| replicas.load_full());
        let of_shards = registry.shards.values().map(|shards| shards.load_full());
        let of_shards = of_shards.flatten().flat_map(|shards| shards.replicas());
        let all: Vec<_> = all.flatten().chain(of_shards).collect();
        drop(registry);
        let of_hosts = all.iter().filter(|replicas| replicas.are_of(hosts));
        of_hosts.for_each(|replicas| replicas.leave_lost());
    }
}

/// Takes reads away from each replica that is lost. Ends when the hosts are dropped.
pub(super) async fn follow_losses(
    mut losses: watch::Receiver<()>,
    hosts: Weak<DatabaseHosts>,
    pools: Weak<Pools>,
) {
    while losses.changed().await.is_ok() {
        let (Some(hosts), Some(pools)) = (hosts.upgrade(), pools.upgrade()) else {
            return;
        };
        pools.leave_lost_replicas(&hosts);
    }
}
