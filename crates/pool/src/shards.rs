//! The map of a database's shards: [`monitor`] reads it from the catalogs of the coordinator and of the shards, again and again, on
//! connections of its own. It is in force while it is younger than `shard_map_max_age`.

mod coordinator;
mod database;
mod monitor;
mod reading;
mod rows;
mod servers;
mod shard;

pub use coordinator::{CoordinatorAnswer, KnownDefinition, KnownDefinitions, ask_coordinator};
pub use reading::{MapReading, ShardQuestion, shard_questions, unreachable};
pub use shard::{ShardAnswer, ask_shard};

pub(crate) use monitor::start;

use crate::address::Address;
use crate::clock;
use crate::hosts::{DatabaseHosts, HostsConfig, ShardHostLimits};
use crate::keyring::Keyring;
use arc_swap::ArcSwap;
use paceline_config::{Config, ShardServer, Shards, Upstream};
use paceline_shards::{ShardMap, ShardServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The findings of the monitor of a database's shards.
pub(crate) trait ShardSource: Send + Sync {
    /// The map in force. `None`: it is not known, or it is too old.
    fn map(&self) -> Option<Arc<dyn ShardMap>>;

    /// The destination of connections to a server of this map for a role of the coordinator. `None`: the role has no login.
    fn place(&self, map: &dyn ShardMap, server: ShardServerId, role: &str) -> Option<ShardPlace>;

    /// The next map must contain the privileges of this role.
    fn add_role(&self, role: &str);

    /// The map may be out of date.
    fn suspect(&self);
}

/// The destination of connections to a shard for a role.
#[derive(Clone)]
pub(crate) struct ShardPlace {
    /// With the user, the password and the database there. If there are several hosts, the first of them.
    pub(crate) upstream: Upstream,
    /// The hosts, if there are several.
    pub(crate) hosts: Option<Arc<DatabaseHosts>>,
}

impl ShardPlace {
    /// Whether both are the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let hosts = |place: &Self| place.hosts.as_ref().map(Arc::as_ptr);
        self.upstream == other.upstream && hosts(self) == hosts(other)
    }
}

/// The hosts of shards that have several, by the names of the foreign servers.
type HostsOfShards = BTreeMap<String, Arc<DatabaseHosts>>;

/// Begins to monitor the hosts of a shard; the second argument are the hosts of the same shard before. `None`: the process ends.
pub(crate) type MonitorHosts =
    dyn Fn(HostsConfig, Option<&DatabaseHosts>) -> Option<Arc<DatabaseHosts>> + Send + Sync;

/// The shards of one database.
pub(crate) struct DatabaseShards {
    /// Its name, as clients use it.
    name: String,
    /// A reload replaces it.
    config: ArcSwap<ShardsConfig>,
    state: Mutex<State>,
    /// Changed when the map should be read now.
    wanted: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// The roles of pools.
    roles: BTreeSet<String>,
    /// The last reading, and when it began.
    reading: Option<(Arc<MapReading>, Instant)>,
    /// A reading counts only if it began with this number.
    generation: u64,
    /// Those of the last reading.
    hosts: Arc<HostsOfShards>,
}

/// The configuration of the shards of a database.
#[derive(Clone)]
pub(crate) struct ShardsConfig {
    /// The address for the monitor if the hosts of the database are not monitored.
    coordinator: Arc<Address>,
    /// The hosts, one of which is the coordinator.
    hosts: Option<Arc<DatabaseHosts>>,
    servers: Vec<ShardServer>,
    /// The query that connections to the coordinator run first.
    connect_query: String,
    max_age: Duration,
    limits: ShardHostLimits,
}

impl ShardsConfig {
    /// The shards of a database that clients name so; `None` if Paceline looks for none.
    pub(crate) fn of(
        config: &Config,
        name: &str,
        hosts: Option<Arc<DatabaseHosts>>,
        keyring: &Arc<Keyring>,
    ) -> Option<Self> {
        let (database, on_server) = config.database(name)?;
        let settings = config.database_settings(database);
        let servers = &settings.servers;
        let is_off = servers.shards == Shards::Off || servers.shard_map_max_age.is_zero();
        let upstream = database.with_monitor_login(database.primary.clone(), &settings);
        // Without a file, nothing has asked for a user.
        if is_off || upstream.user.is_none() {
            return None;
        }
        let tcp = &config.paceline.tcp;
        Some(Self {
            coordinator: Arc::new(Address::of_monitor(upstream, on_server, tcp, keyring)),
            hosts,
            servers: database.shard_servers.clone(),
            connect_query: database.connect_query.clone(),
            max_age: settings.servers.shard_map_max_age,
            limits: ShardHostLimits {
                failover_timeout: settings.servers.failover_timeout,
                connect_timeout: settings.timeouts.server_connect_timeout,
            },
        })
    }

    /// The present address of the coordinator; `None` while no host is the primary.
    fn coordinator(&self) -> Option<Arc<Address>> {
        let Some(hosts) = &self.hosts else {
            return Some(Arc::clone(&self.coordinator));
        };
        let primary = hosts.monitored_primary()?;
        let database = &self.coordinator.database;
        if primary.database == *database {
            return Some(primary);
        }
        // The hosts of the entry for every name are asked in another database.
        Some(Arc::new(Address {
            database: database.clone(),
            ..(*primary).clone()
        }))
    }

    /// The address of a shard for the monitor.
    fn shard(&self, upstream: Upstream) -> Arc<Address> {
        let Address { tcp, keyring, .. } = &*self.coordinator;
        let name = upstream.dbname.clone().unwrap_or_default();
        Arc::new(Address::of_monitor(upstream, name, tcp, keyring))
    }
}

impl DatabaseShards {
    /// Shards whose map has not been read. [`start`] begins to read it.
    pub(crate) fn new(name: &str, config: ShardsConfig) -> Self {
        Self {
            name: name.to_owned(),
            config: ArcSwap::from_pointee(config),
            state: Mutex::default(),
            wanted: watch::Sender::new(()),
        }
    }

    /// The next map follows this configuration. What is known of the hosts of shards remains.
    pub(crate) fn reconfigure(&self, config: ShardsConfig) {
        self.config.store(Arc::new(config));
    }

    /// No map that was read before is used any more: an operator may have changed the coordinator.
    pub(crate) fn read_again(&self) {
        let mut state = self.lock();
        state.generation += 1;
        state.reading = None;
        drop(state);
        self.wanted.send_replace(());
    }

    /// The hosts of shards that have several.
    pub(crate) fn hosts(&self) -> Vec<Arc<DatabaseHosts>> {
        let hosts = Arc::clone(&self.lock().hosts);
        hosts.values().map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reading in force.
    fn reading(&self) -> Option<Arc<MapReading>> {
        let state = self.lock();
        let (reading, began) = state.reading.as_ref()?;
        (clock::elapsed(*began) <= self.config.load().max_age).then(|| Arc::clone(reading))
    }

    /// Puts a reading into force that began then, with this generation. If it is equal to the one in force, that one remains: what is
    /// known of templates by its map remains, too.
    fn put_in_force(
        &self,
        reading: MapReading,
        hosts: Arc<HostsOfShards>,
        began: Instant,
        generation: u64,
    ) {
        let mut state = self.lock();
        if state.generation == generation {
            state.hosts = hosts;
            let before = state.reading.take().map(|(before, _)| before);
            let same = before.as_ref().filter(|before| ***before == reading);
            if let Some(same) = same {
                state.reading = Some((Arc::clone(same), began));
                return;
            }
            self.log_servers(before.as_deref(), &reading);
            state.reading = Some((Arc::new(reading), began));
        }
    }

    /// Logs the shards to which statements are sent from now on, or no longer.
    fn log_servers(&self, before: Option<&MapReading>, now: &MapReading) {
        let database = self.name.as_str();
        for server in now.map.servers() {
            let mut known = before.iter().flat_map(|before| before.map.servers());
            let known = known.find(|known| known.name == server.name);
            match (&server.problem, known.map(|known| &known.problem)) {
                (problem, Some(same)) if problem == same => {}
                (Some(problem), _) => {
                    tracing::warn!(database, shard = server.name, %problem, "a shard executes no statements");
                }
                (None, _) => {
                    tracing::info!(database, shard = server.name, "a shard executes statements")
                }
            }
        }
    }
}

impl ShardSource for DatabaseShards {
    fn map(&self) -> Option<Arc<dyn ShardMap>> {
        let reading = self.reading()?;
        Some(Arc::clone(&reading.map) as Arc<dyn ShardMap>)
    }

    fn place(&self, map: &dyn ShardMap, server: ShardServerId, role: &str) -> Option<ShardPlace> {
        let name = &map.server(server)?.name;
        let reading = self.reading()?;
        let hosts = Arc::clone(&self.lock().hosts);
        Some(ShardPlace {
            upstream: reading.upstream(name, role)?.clone(),
            hosts: hosts.get(name).map(Arc::clone),
        })
    }

    fn add_role(&self, role: &str) {
        if self.lock().roles.insert(role.to_owned()) {
            self.wanted.send_replace(());
        }
    }

    fn suspect(&self) {
        self.wanted.send_replace(());
    }
}
