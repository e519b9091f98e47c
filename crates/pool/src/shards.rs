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
use crate::hosts::DatabaseHosts;
use crate::keyring::Keyring;
use paceline_config::{Config, ShardServer, Shards, Tcp, Upstream};
use paceline_shards::{ShardMap, ShardServerId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What the monitor of a database's shards has found.
pub(crate) trait ShardSource: Send + Sync {
    /// The map in force. `None`: it is not known, or it is too old.
    fn map(&self) -> Option<Arc<dyn ShardMap>>;

    /// Where connections to a server of this map lead for a role of the coordinator, with the user, the password and the database
    /// there. `None`: the role has no login.
    fn upstream(&self, map: &dyn ShardMap, server: ShardServerId, role: &str) -> Option<Upstream>;

    /// The next map must contain the privileges of this role.
    fn add_role(&self, role: &str);

    /// The map may be out of date.
    fn suspect(&self);
}

/// The shards of one database.
pub(crate) struct DatabaseShards {
    /// Its name, as clients use it.
    name: String,
    config: ShardsConfig,
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
}

/// What the configuration says about the shards of a database.
#[derive(Clone)]
pub(crate) struct ShardsConfig {
    /// Where the monitor connects to if the hosts of the database are not monitored.
    coordinator: Arc<Address>,
    /// The hosts, one of which is the coordinator.
    hosts: Option<Arc<DatabaseHosts>>,
    servers: Vec<ShardServer>,
    /// The query that connections to the coordinator run first.
    connect_query: String,
    max_age: Duration,
    connect_timeout: Duration,
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
            coordinator: Arc::new(monitored(upstream, on_server, tcp, keyring)),
            hosts,
            servers: database.shard_servers.clone(),
            connect_query: database.connect_query.clone(),
            max_age: settings.servers.shard_map_max_age,
            connect_timeout: settings.timeouts.server_connect_timeout,
        })
    }

    /// Whether both say the same.
    fn is_same(&self, other: &Self) -> bool {
        let hosts = |config: &Self| config.hosts.as_ref().map(Arc::as_ptr);
        self.coordinator.leads_to(&other.coordinator)
            && hosts(self) == hosts(other)
            && (&self.servers, &self.connect_query) == (&other.servers, &other.connect_query)
            && (self.max_age, self.connect_timeout) == (other.max_age, other.connect_timeout)
    }

    /// Where the coordinator is now; `None` while no host is the primary.
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
        Arc::new(monitored(upstream, name, tcp, keyring))
    }
}

/// An address for the monitor.
fn monitored(upstream: Upstream, database: String, tcp: &Tcp, keyring: &Arc<Keyring>) -> Address {
    Address {
        user: upstream.user.clone().unwrap_or_default(),
        database,
        upstream,
        startup: vec![(
            "application_name".to_owned(),
            "paceline: monitor".to_owned(),
        )],
        connect_query: String::new(),
        tcp: tcp.clone(),
        keyring: Arc::clone(keyring),
        compression: None,
        location: None,
    }
}

impl DatabaseShards {
    /// Shards whose map has not been read. [`start`] begins to read it.
    pub(crate) fn new(name: &str, config: ShardsConfig) -> Self {
        Self {
            name: name.to_owned(),
            config,
            state: Mutex::default(),
            wanted: watch::Sender::new(()),
        }
    }

    /// Whether the configuration still says the same.
    pub(crate) fn are_those_of(&self, config: &ShardsConfig) -> bool {
        self.config.is_same(config)
    }

    /// No map that was read before is used any more: an operator may have changed the coordinator.
    pub(crate) fn read_again(&self) {
        let mut state = self.lock();
        state.generation += 1;
        state.reading = None;
        drop(state);
        self.wanted.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reading in force.
    fn reading(&self) -> Option<Arc<MapReading>> {
        let state = self.lock();
        let (reading, began) = state.reading.as_ref()?;
        (began.elapsed() <= self.config.max_age).then(|| Arc::clone(reading))
    }

    /// Puts a reading into force that began then, with this generation. If it is equal to the one in force, that one remains: what is
    /// known of templates by its map remains, too.
    fn put_in_force(&self, reading: MapReading, began: Instant, generation: u64) {
        let mut state = self.lock();
        if state.generation == generation {
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

    /// Logs the shards to which statements go from now on, or no more.
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

    fn upstream(&self, map: &dyn ShardMap, server: ShardServerId, role: &str) -> Option<Upstream> {
        let name = &map.server(server)?.name;
        self.reading()?.upstream(name, role).cloned()
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
