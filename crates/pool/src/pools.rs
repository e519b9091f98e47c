//! All pools: created when a client first names their database and user, changed by a reload, dropped when they are not used.

pub mod admin_state;
mod config;
mod exclusive;
mod grouping;
mod monitors;
mod replicas;
mod shards;
#[cfg(test)]
mod tests;

pub use exclusive::Exclusive;
pub use grouping::DecisionInForce;

use crate::address::DatabaseAddress;
use crate::clock;
use crate::hosts::DatabaseHosts;
use crate::labels::PoolLabels;
use crate::pool::{AllPools, ExclusiveUse, Pool, PoolConfig, PoolState};
use crate::replicas::ReplicasInForce;
use crate::sharding::ShardsInForce;
use crate::shards::{DatabaseShards, ShardSource};
use crate::shared::Shared;
use crate::stats::{Periods, Stats, Totals};
use admin_state::{AdminState, OrderId};
use paceline_config::{Config, Database, GroupingDecisions};
use paceline_wire::ErrorResponse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Maximum number of pools for `auth_query` that are kept when they are not used: clients may name any database.
const AUTH_POOLS_MAX: usize = 256;

/// Interval of the maintenance of all pools …
const MAINTAIN_EVERY: Duration = Duration::from_secs(1);

/// … and the interval if a time-out is shorter.
const MAINTAIN_OFTEN: Duration = Duration::from_millis(50);

/// All pools of the process.
pub struct Pools {
    /// The state that all pools share.
    pub shared: Arc<Shared>,
    registry: Mutex<Registry>,
    /// Pools that have labels in metrics.
    labelled: AtomicUsize,
    periods: Periods,
    /// Notified after each order of an operator.
    ordered: Notify,
    /// The number of changes of primaries.
    primary_changes: watch::Sender<u64>,
}

/// The pools and the orders of operators, under one lock: a new pool obeys the orders from its beginning.
#[derive(Default)]
struct Registry {
    /// By the database and user that clients name.
    by_name: ByName,
    /// The replicas beside each pool of `by_name`.
    replicas: HashMap<(String, String), ReplicasInForce>,
    /// The shards beside each pool of `by_name`.
    shards: HashMap<(String, String), ShardsInForce>,
    /// Pools for `auth_query`, by the database that clients name and `auth_user`.
    for_auth: ByName,
    admin: AdminState,
    /// Of databases that have several, by the entry of the configuration.
    hosts: BTreeMap<String, Arc<DatabaseHosts>>,
    /// The maps of the shards of databases, by the names that clients use.
    shard_maps: BTreeMap<String, Arc<DatabaseShards>>,
    /// The decisions of operators on grouping since the start, by the names of databases that clients use.
    grouping: BTreeMap<String, GroupingDecisions>,
    /// Databases that statements need without other sessions; some statements may have ended.
    exclusive: Vec<(DatabaseAddress, Weak<ExclusiveUse>)>,
}

type ByName = HashMap<(String, String), Arc<Pool>>;

/// An entry of the configuration, for the name of a database that leads to it.
struct DatabaseOnServer<'a> {
    database: &'a Database,
    /// The name of the database on the server.
    on_server: String,
    /// The hosts, if there are several.
    hosts: Option<Arc<DatabaseHosts>>,
    /// The decisions of operators on grouping.
    grouping: Arc<GroupingDecisions>,
}

impl Registry {
    /// The database that clients name so.
    fn database<'a>(&self, config: &'a Config, name: &str) -> Option<DatabaseOnServer<'a>> {
        let (database, on_server) = config.database(name)?;
        let hosts = config
            .entry_name(name)
            .and_then(|entry| self.hosts.get(entry));
        Some(DatabaseOnServer {
            database,
            on_server,
            hosts: hosts.map(Arc::clone),
            grouping: self.decisions(name, database),
        })
    }

    /// Passes to a new pool the statements that need its database without other sessions.
    fn exclude(&self, pool: &Pool) {
        for (database, running) in &self.exclusive {
            if database.is_at(&pool.address()) {
                pool.exclude(running);
            }
        }
    }

    /// All pools, with their databases as clients name them.
    fn all(&self) -> impl Iterator<Item = (&str, Arc<Pool>)> {
        let primaries = self.by_name.iter().chain(&self.for_auth);
        let primaries =
            primaries.map(|((database, _), pool)| (database.as_str(), Arc::clone(pool)));
        let replicas = self.replicas.iter().flat_map(|((database, _), replicas)| {
            let replicas = replicas.load_full();
            let pools = replicas.map(|replicas| replicas.pools().to_vec());
            let pools = pools.unwrap_or_default().into_iter();
            pools.map(|pool| (database.as_str(), pool))
        });
        let shards = self.shards.iter().flat_map(|((database, _), shards)| {
            let shards = shards.load_full();
            let pools = shards.map(|shards| shards.pools()).unwrap_or_default();
            pools.into_iter().map(|pool| (database.as_str(), pool))
        });
        primaries.chain(replicas).chain(shards)
    }
}

impl AllPools for Pools {
    fn pools(&self) -> Vec<Arc<Pool>> {
        self.all()
    }
}

impl Pools {
    /// For this configuration, without pools.
    pub fn new(config: Arc<Config>) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::new(Shared::new(config)),
            registry: Mutex::default(),
            labelled: AtomicUsize::new(0),
            periods: Periods::new(clock::now()),
            ordered: Notify::new(),
            primary_changes: watch::Sender::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the configuration; pools follow at once. A database that is no longer in it keeps working for its clients.
    pub fn set_config(self: &Arc<Self>, config: Arc<Config>) {
        let present = self.shared.config();
        // Without subscribers, no statement is analyzed for them.
        let declares_others = present.declared != config.declared
            || present.has_subscribers() != config.has_subscribers();
        drop(present);
        self.shared.set_config(config);
        self.shared.compressors.forget_refusals();
        let mut registry = self.lock();
        let config = self.shared.config();
        self.monitor_hosts(&mut registry, &config);
        self.monitor_shards(&mut registry, &config);
        self.reconfigure_all(&mut registry);
        if declares_others {
            registry
                .by_name
                .values()
                .for_each(|pool| pool.forget_analyses());
        }
    }

    /// Applies the configuration and the orders of operators to all pools.
    fn reconfigure_all(self: &Arc<Self>, registry: &mut Registry) {
        let config = self.shared.config();
        for ((database, user), pool) in &registry.by_name {
            if let Some(of) = registry.database(&config, database) {
                let pool_config = self.pool_config(&config, of, user);
                pool.reconfigure(pool_config.clone());
                let key = (database.clone(), user.clone());
                if let Some(replicas) = registry.replicas.get(&key) {
                    let state = registry.admin.state(database);
                    self.set_replicas(replicas, key.clone(), pool, &pool_config, state);
                }
                if let Some(shards) = registry.shards.get(&key) {
                    let source = registry.shard_maps.get(database).map(Arc::clone);
                    let source = source.map(|map| map as Arc<dyn ShardSource>);
                    self.set_shards(shards, key, pool, &pool_config, source);
                }
            }
        }
        for ((database, user), pool) in &registry.for_auth {
            if let Some(of) = registry.database(&config, database) {
                pool.reconfigure(self.auth_pool_config(&config, of, user));
            }
        }
    }

    /// The pool for clients that name this database and user. `None`: there is no such database.
    pub fn pool(self: &Arc<Self>, database: &str, user: &str) -> Option<Arc<Pool>> {
        // Under the lock, no reload can happen between reading the configuration and adding the new pool.
        let mut registry = self.lock();
        let config = self.shared.config();
        let of = registry.database(&config, database)?;
        let key = (database.to_owned(), user.to_owned());
        if let Some(pool) = registry.by_name.get(&key) {
            pool.mark_used();
            return Some(Arc::clone(pool));
        }
        let pool_config = self.pool_config(&config, of, user);
        let state = registry.admin.state(database);
        let pool = self.new_pool(database, user, pool_config.clone(), state);
        registry.exclude(&pool);
        let replicas = ReplicasInForce::default();
        self.set_replicas(&replicas, key.clone(), &pool, &pool_config, state);
        registry.replicas.insert(key.clone(), replicas);
        let shards = ShardsInForce::default();
        let source = self.shard_source(&mut registry, &config, database);
        self.set_shards(&shards, key.clone(), &pool, &pool_config, source);
        registry.shards.insert(key.clone(), shards);
        registry.by_name.insert(key, Arc::clone(&pool));
        Some(pool)
    }

    /// The pool on which `auth_query` runs as `user` for a database. `None`: there is no such database.
    pub fn auth_pool(self: &Arc<Self>, database: &str, user: &str) -> Option<Arc<Pool>> {
        let mut registry = self.lock();
        let config = self.shared.config();
        let of = registry.database(&config, database)?;
        let key = (database.to_owned(), user.to_owned());
        if let Some(pool) = registry.for_auth.get(&key) {
            return Some(Arc::clone(pool));
        }
        if registry.for_auth.len() >= AUTH_POOLS_MAX {
            let is_used = |_: &(String, String), pool: &mut Arc<Pool>| Arc::strong_count(pool) > 1;
            registry.for_auth.retain(is_used);
        }
        let pool_config = self.auth_pool_config(&config, of, user);
        let state = registry.admin.state(database);
        let pool = self.new_pool(database, user, pool_config, state);
        registry.exclude(&pool);
        registry.for_auth.insert(key, Arc::clone(&pool));
        Some(pool)
    }

    fn new_pool(
        self: &Arc<Self>,
        database: &str,
        user: &str,
        config: PoolConfig,
        state: PoolState,
    ) -> Arc<Pool> {
        let quotas = self.shared.quotas.of(database, user, &config.address.user);
        let all_pools: Weak<Self> = Arc::downgrade(self);
        let shared = Arc::clone(&self.shared);
        Arc::new(Pool::new(shared, all_pools, config, quotas, state, None))
    }

    /// Maintains all pools for as long as the process lives.
    pub async fn maintain(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.maintenance_pause()).await;
            self.shared.clock.tick();
            self.turn_period();
            self.all().iter().for_each(Pool::maintain);
            self.forget_unused();
        }
    }

    fn maintenance_pause(&self) -> Duration {
        let config = self.shared.config();
        let timeouts = &config.paceline.timeouts;
        let is_short = |time: Duration| !time.is_zero() && time < MAINTAIN_EVERY;
        // Databases may override server_lifetime.
        let is_short_lived = |pool: &Arc<Pool>| is_short(pool.settings().timeouts.server_lifetime);
        let any_is_short = is_short(timeouts.server_idle_timeout)
            || is_short(timeouts.autodb_idle_timeout)
            || self.all().iter().any(is_short_lived);
        match any_is_short {
            true => MAINTAIN_OFTEN,
            false => MAINTAIN_EVERY,
        }
    }

    /// Drops the pools of databases that the configuration does not list, if no pool of the database was used for
    /// `autodb_idle_timeout`: clients may name any number of databases.
    fn forget_unused(&self) {
        let config = self.shared.config();
        let limit = config.paceline.timeouts.autodb_idle_timeout;
        if limit.is_zero() {
            return;
        }
        let mut registry = self.lock();
        let is_unused = |database: &str, pool: &Arc<Pool>| {
            // A client that has asked for the pool since holds it.
            config.listed(database).is_none()
                && Arc::strong_count(pool) == 1
                && pool.unused_for().is_some_and(|time| time >= limit)
        };
        let used = registry.by_name.iter();
        let used = used.filter(|((database, _), pool)| !is_unused(database, pool));
        let used: BTreeSet<String> = used.map(|((database, _), _)| database.clone()).collect();
        let dropped = registry
            .by_name
            .extract_if(|(name, _), _| !used.contains(name));
        let dropped: Vec<_> = dropped.collect();
        let replicas = &mut registry.replicas;
        replicas.retain(|(name, _), _| used.contains(name));
        let shards = &mut registry.shards;
        shards.retain(|(name, _), _| used.contains(name));
        let maps = &mut registry.shard_maps;
        maps.retain(|name, _| config.listed(name).is_some() || used.contains(name));
        let labelled = dropped.iter();
        let labelled = labelled.filter(|(_, pool)| pool.labels.get().is_some());
        self.labelled.fetch_sub(labelled.count(), Ordering::Relaxed);
        // The pools are freed after the lock.
        drop(registry);
    }

    /// Begins the next period of the averages when the present one is over.
    fn turn_period(&self) {
        let config = self.shared.config();
        let period = config.paceline.operation.stats_period;
        let pools = self.all();
        let stats = stats_of(&pools);
        let over = self.periods.next_period(clock::now(), period, &stats);
        if let Some(averages) = over.filter(|_| config.paceline.logging.log_stats) {
            tracing::info!("{averages}");
        }
    }

    /// The averages of these pools together, over the last one to two periods.
    pub fn averages(&self, pools: &[Arc<Pool>]) -> Totals {
        let stats = stats_of(pools);
        self.periods.averages(clock::now(), &stats)
    }

    /// Keeps all pools of a database, present and new ones, out of it while a statement needs it without other sessions.
    fn exclude(&self, database: DatabaseAddress, running: &Weak<ExclusiveUse>) {
        let mut registry = self.lock();
        for (_, pool) in registry.all() {
            if database.is_at(&pool.address()) {
                pool.exclude(running);
            }
        }
        let exclusive = &mut registry.exclusive;
        exclusive.retain(|(_, other)| other.strong_count() > 0);
        exclusive.push((database, Weak::clone(running)));
    }

    /// Whether clients may log in to a database.
    ///
    /// # Errors
    /// The database is disabled.
    pub fn admit(&self, database: &str) -> Result<(), ErrorResponse> {
        self.lock().admin.admit(database)
    }

    /// Changes the orders of operators. When this returns, every pool obeys them. What an operator has changed on a coordinator before is
    /// part of the next map of its shards.
    pub fn order<T>(&self, order: impl FnOnce(&mut AdminState) -> T) -> T {
        let mut registry = self.lock();
        registry
            .shard_maps
            .values()
            .for_each(|map| map.read_again());
        let outcome = order(&mut registry.admin);
        for (database, pool) in registry.all() {
            pool.set_state(registry.admin.state(database));
        }
        self.ordered.notify_waiters();
        outcome
    }

    /// Returns when an order to pause or suspend is no longer in force.
    pub async fn order_revoked(&self, order: OrderId) {
        loop {
            let ordered = self.ordered.notified();
            if !self.lock().admin.is_in_force(order) {
                return;
            }
            ordered.await;
        }
    }

    /// The state that operators have ordered for a database, or for all.
    pub fn state_of(&self, database: Option<&str>) -> PoolState {
        let registry = self.lock();
        match database {
            Some(database) => registry.admin.state(database),
            None => registry.admin.state_of_all(),
        }
    }

    /// Whether operators have ordered anything for this database alone.
    pub fn has_orders(&self, database: &str) -> bool {
        self.lock().admin.has_orders(database)
    }

    /// The pools of a database, or of all; pools for `auth_query` are among them.
    pub fn of(&self, database: Option<&str>) -> Vec<Arc<Pool>> {
        let registry = self.lock();
        let is_wanted = |name: &str| database.is_none_or(|wanted| wanted == name);
        let found = registry.all().filter(|(name, _)| is_wanted(name));
        found.map(|(_, pool)| pool).collect()
    }

    /// All pools.
    pub fn all(&self) -> Vec<Arc<Pool>> {
        self.of(None)
    }

    /// Databases that have a pool, as clients name them.
    pub fn databases(&self) -> BTreeSet<String> {
        let registry = self.lock();
        let names = registry.all().map(|(database, _)| database.to_owned());
        names.collect()
    }

    /// Shows a pool in metrics from the first login of a client on.
    pub fn label(&self, pool: &Pool, database: &str, user: &str) {
        pool.labels.get_or_init(|| {
            let earlier = self.labelled.fetch_add(1, Ordering::Relaxed);
            PoolLabels::new(earlier, database, user)
        });
    }
}

/// The statistics of these pools. Those of replicas and shards count with the pool beside which they are.
fn stats_of(pools: &[Arc<Pool>]) -> Vec<&Stats> {
    let own = pools.iter().filter(|pool| !pool.is_beside());
    own.map(|pool| &*pool.stats).collect()
}
