//! The pools of a database's replicas.

use super::Pools;
use crate::address::Address;
use crate::hosts::{DatabaseHosts, ReplicaHost};
use crate::pool::{Pool, PoolConfig, PoolState};
use crate::replicas::{LOCK_TIMEOUT, Replicas, ReplicasInForce};
use paceline_cluster::HostId;
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
        let configs = (0..hosts.upstreams().len()).map(|host| of_host(config, hosts, HostId(host)));
        let configs = configs.flatten();
        let present = replicas.load();
        if let Some(same) = present.as_ref().filter(|present| present.are_of(hosts)) {
            let pairs = same.pools().iter().zip(configs);
            return pairs.for_each(|(pool, config)| pool.reconfigure(config));
        }
        let pools = configs.map(|config| {
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
        let pools = Replicas::new(
            Arc::clone(hosts),
            pools.collect(),
            config.address.user.clone(),
        );
        replicas.store(Some(Arc::new(pools)));
    }

    /// Takes reads away from replicas of these hosts that may not serve them any more.
    fn leave_lost_replicas(&self, hosts: &Arc<DatabaseHosts>) {
        let registry = self.lock();
        let all = registry
            .replicas
            .values()
            .map(|replicas| replicas.load_full());
        let all: Vec<_> = all.flatten().collect();
        drop(registry);
        let of_hosts = all.iter().filter(|replicas| replicas.are_of(hosts));
        of_hosts.for_each(|replicas| replicas.leave_lost());
    }
}

/// The configuration of the pool for one host: that of the primary's pool, with the address of the host. A read on a replica waits
/// for a lock only if replay has it, perhaps for as long as replay is paused: the primary, where the lock may be free, serves such
/// a read after `replica_wait`.
fn of_host(config: &PoolConfig, hosts: &Arc<DatabaseHosts>, id: HostId) -> Option<PoolConfig> {
    let upstream = hosts.upstreams().get(id.0)?.clone();
    let database = hosts.database_at(id);
    let mut address = Address {
        upstream,
        database: database.unwrap_or(&config.address.database).to_owned(),
        // A name may stand for several replicas: each connection asks its own server what it has replayed.
        location: None,
        ..config.address.clone()
    };
    let limit = config.settings.servers.replica_wait.as_millis().max(1);
    address.startup.retain(|(name, _)| name != LOCK_TIMEOUT);
    let startup = &mut address.startup;
    startup.push((LOCK_TIMEOUT.to_owned(), limit.to_string()));
    Some(PoolConfig {
        address,
        no_primary: None,
        hosts: None,
        replica: Some(ReplicaHost {
            hosts: Arc::clone(hosts),
            id,
        }),
        ..config.clone()
    })
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
