//! The pools of a database's shards. A pool is made when the first statement needs it.

use super::Pools;
use crate::pool::{Pool, PoolConfig};
use crate::sharding::{NewPool, ShardPoolMaker, ShardPools, Shards, ShardsInForce};
use crate::shards::ShardSource;
use crate::shared::Shared;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Makes the pools of shards for one user.
struct BesideCoordinator {
    shared: Arc<Shared>,
    all_pools: Weak<Pools>,
    /// The database and the user that clients name.
    key: (String, String),
    /// The pool of the coordinator.
    coordinator: Weak<Pool>,
    /// Its configuration.
    config: Mutex<PoolConfig>,
}

impl ShardPoolMaker for BesideCoordinator {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn set_config(&self, config: PoolConfig) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn make(&self, choose: &dyn Fn(&PoolConfig, &NewPool<'_>) -> ShardPools) -> Option<ShardPools> {
        let (all_pools, coordinator) = (self.all_pools.upgrade()?, self.coordinator.upgrade()?);
        let registry = all_pools.lock();
        let (database, user) = &self.key;
        let state = registry.admin.state(database);
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        Some(choose(&config, &|config| {
            let upstream = &config.address.upstream;
            // The limits of connections hold for each server.
            let on = |name: &str| format!("{name}\0{:?}:{}", upstream.host, upstream.port);
            let on_server = on(&config.address.user);
            let quotas = self.shared.quotas.of(&on(database), &on(user), &on_server);
            let weak: Weak<Pools> = Weak::clone(&self.all_pools);
            let shared = Arc::clone(&self.shared);
            let pool = Pool::new(shared, weak, config, quotas, state, Some(&*coordinator));
            pool.name_as(&coordinator);
            Arc::new(pool)
        }))
    }
}

impl Pools {
    /// The shards for the clients of a pool.
    pub fn shards_beside(&self, pool: &Pool) -> ShardsInForce {
        let name = pool.name.get();
        let key = name.map(|name| (name.database.clone(), name.user.clone()));
        let registry = self.lock();
        let shards = key.and_then(|key| registry.shards.get(&key).map(Arc::clone));
        shards.unwrap_or_default()
    }

    /// Applies the configuration of the pool of a coordinator to the pools beside it. `key` are the database and the user that clients
    /// name; `source` is the monitor of the shards, if there are any.
    pub(super) fn set_shards(
        self: &Arc<Self>,
        shards: &ShardsInForce,
        key: (String, String),
        coordinator: &Arc<Pool>,
        config: &PoolConfig,
        source: Option<Arc<dyn ShardSource>>,
    ) {
        coordinator.set_has_shards(source.is_some());
        let present = shards.load_full();
        let Some(source) = source else {
            shards.store(None);
            return present.iter().for_each(|present| present.leave());
        };
        let role = &config.address.user;
        if let Some(same) = present
            .as_ref()
            .filter(|present| present.are_of(&source, role))
        {
            return same.reconfigure(config);
        }
        let maker = BesideCoordinator {
            shared: Arc::clone(&self.shared),
            all_pools: Arc::downgrade(self),
            key,
            coordinator: Arc::downgrade(coordinator),
            config: Mutex::new(config.clone()),
        };
        let role = role.clone();
        shards.store(Some(Arc::new(Shards::new(source, role, Box::new(maker)))));
        present.iter().for_each(|present| present.leave());
    }
}
