//! The monitors of databases: those of hosts, and the pools that follow the primary; those that read the maps of shards.

use super::replicas::follow_losses;
use super::{Pools, Registry};
use crate::hosts::{DatabaseHosts, HostsConfig, PrimaryState, monitor};
use crate::shards::{self, DatabaseShards, ShardSource, ShardsConfig};
use paceline_config::{ANY_DATABASE, Config, Database, Upstream};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use tokio::sync::watch;

impl Pools {
    /// Begins to monitor the hosts of databases that have several, and to read the maps of shards. Without this, first hosts are used as
    /// primaries, and coordinators execute all statements.
    pub fn start_monitors(self: &Arc<Self>) {
        let (mut registry, config) = (self.lock(), self.shared.config());
        self.monitor_hosts(&mut registry, &config);
        self.monitor_shards(&mut registry, &config);
    }

    /// Monitors the hosts that the configuration names, and no others.
    pub(super) fn monitor_hosts(self: &Arc<Self>, registry: &mut Registry, config: &Config) {
        let mut before = std::mem::take(&mut registry.hosts);
        for entry in config.databases.keys() {
            let Some(wanted) = HostsConfig::of(config, entry, &self.shared.keyring) else {
                continue;
            };
            let hosts = match before.remove(entry) {
                Some(same) if same.are_those_of(&wanted) => same,
                other => self.monitor(entry, wanted, other.as_deref()),
            };
            registry.hosts.insert(entry.clone(), hosts);
        }
    }

    /// Reads the maps of the shards of databases that the configuration names or that have a pool, and of no others.
    pub(super) fn monitor_shards(self: &Arc<Self>, registry: &mut Registry, config: &Config) {
        let mut before = std::mem::take(&mut registry.shard_maps);
        let listed = config.databases.keys().filter(|name| *name != ANY_DATABASE);
        let in_use = registry.by_name.keys().map(|(database, _)| database);
        let names: BTreeSet<String> = listed.chain(in_use).cloned().collect();
        for name in names {
            let before = before.remove(&name);
            if let Some(map) = self.read_map(registry, config, &name, before) {
                map.read_again();
            }
        }
    }

    /// The monitor of the shards of a database that clients name so, if Paceline looks for any. For a database without an entry of its own,
    /// it begins with the first pool.
    pub(super) fn shard_source(
        self: &Arc<Self>,
        registry: &mut Registry,
        config: &Config,
        database: &str,
    ) -> Option<Arc<dyn ShardSource>> {
        let known = registry.shard_maps.get(database).map(Arc::clone);
        let map = match known {
            None if config.listed(database).is_none() => {
                self.read_map(registry, config, database, None)
            }
            known => known,
        };
        Some(map? as Arc<dyn ShardSource>)
    }

    /// The monitor that reads the map of a database's shards by this configuration: `before`, or a new one. `None`: Paceline looks for no
    /// shards.
    fn read_map(
        self: &Arc<Self>,
        registry: &mut Registry,
        config: &Config,
        database: &str,
        before: Option<Arc<DatabaseShards>>,
    ) -> Option<Arc<DatabaseShards>> {
        let entry = config.entry_name(database)?;
        let hosts = registry.hosts.get(entry).map(Arc::clone);
        let wanted = ShardsConfig::of(config, database, hosts, &self.shared.keyring)?;
        let map = match before {
            Some(before) => {
                before.reconfigure(wanted);
                before
            }
            None => self.start_map(database, wanted),
        };
        registry
            .shard_maps
            .insert(database.to_owned(), Arc::clone(&map));
        Some(map)
    }

    /// Begins to read the map of a database's shards.
    fn start_map(self: &Arc<Self>, database: &str, config: ShardsConfig) -> Arc<DatabaseShards> {
        let map = Arc::new(DatabaseShards::new(database, config));
        let (pools, entry) = (Arc::downgrade(self), database.to_owned());
        let monitor = move |config, before: Option<&DatabaseHosts>| {
            Some(pools.upgrade()?.monitor(&entry, config, before))
        };
        shards::start(&map, &self.shared, Box::new(monitor));
        map
    }

    /// Begins to monitor hosts, whose pools follow the primary from now on.
    fn monitor(
        self: &Arc<Self>,
        entry: &str,
        config: HostsConfig,
        before: Option<&DatabaseHosts>,
    ) -> Arc<DatabaseHosts> {
        let hosts = Arc::new(DatabaseHosts::new(entry, config, before, &self.shared));
        let changes = hosts.primary_changes();
        tokio::spawn(follow(
            changes,
            Arc::downgrade(&hosts),
            Arc::downgrade(self),
        ));
        let losses = hosts.replicas_lost();
        tokio::spawn(follow_losses(
            losses,
            Arc::downgrade(&hosts),
            Arc::downgrade(self),
        ));
        monitor::start(&hosts, &self.shared);
        hosts
    }

    /// The hosts of databases that have several, in the order of their entries in the configuration; behind them those of shards.
    pub fn hosts(&self) -> Vec<Arc<DatabaseHosts>> {
        let registry = self.lock();
        let hosts = registry.hosts.values().map(Arc::clone);
        let maps = registry.shard_maps.values();
        hosts.chain(maps.flat_map(|map| map.hosts())).collect()
    }

    /// The hosts of a database that clients name so; `None` if it has one that is not monitored.
    pub fn hosts_of(&self, name: &str) -> Option<Arc<DatabaseHosts>> {
        let config = self.shared.config();
        let registry = self.lock();
        registry.database(&config, name)?.hosts
    }

    /// The server to which connections of a database lead: its primary. While none is known, the first host.
    pub fn server(&self, name: &str, database: &Database) -> Upstream {
        let config = self.shared.config();
        let registry = self.lock();
        let found = registry.database(&config, name);
        let hosts = found.and_then(|found| found.hosts);
        let primary = hosts.and_then(|hosts| hosts.known_primary());
        primary.unwrap_or_else(|| database.primary.clone())
    }

    /// Leads the pools of these hosts to their primary, or notes that there is none. Pools of a database that is no longer in the
    /// configuration are among them. No pool uses a new primary before all have left the old one.
    pub(super) fn follow_primary(&self, hosts: &Arc<DatabaseHosts>) {
        let registry = self.lock();
        let primary = loop {
            let primary = hosts.primary();
            let PrimaryState::Known(upstream) = &primary else {
                break primary;
            };
            for (_, pool) in registry.all() {
                pool.leave_others(hosts, upstream);
            }
            if hosts.left_others(upstream) {
                break primary;
            }
        };
        for (_, pool) in registry.all() {
            pool.follow_primary(hosts, &primary);
        }
        drop(registry);
        self.primary_changes.send_modify(|changes| *changes += 1);
    }

    /// Changes when the primary of a database has changed. Its pools follow it already.
    pub fn primary_changes(&self) -> watch::Receiver<u64> {
        self.primary_changes.subscribe()
    }
}

/// Leads pools to each new primary. Ends when the hosts are dropped.
async fn follow(mut changes: watch::Receiver<()>, hosts: Weak<DatabaseHosts>, pools: Weak<Pools>) {
    while changes.changed().await.is_ok() {
        let (Some(hosts), Some(pools)) = (hosts.upgrade(), pools.upgrade()) else {
            return;
        };
        pools.follow_primary(&hosts);
    }
}
