//! The monitors of databases: those of hosts, and the pools that follow the primary; those that read the maps of shards.

use super::replicas::follow_losses;
use super::{Pools, Registry};
use crate::hosts::{DatabaseHosts, HostsConfig, PrimaryState, monitor};
use crate::shards::{self, DatabaseShards, ShardsConfig};
use paceline_config::{Config, Database, Upstream};
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

    /// Reads the maps of the shards that the configuration names, and of no others.
    pub(super) fn monitor_shards(&self, registry: &mut Registry, config: &Config) {
        let mut before = std::mem::take(&mut registry.shard_maps);
        for entry in config.databases.keys() {
            let hosts = registry.hosts.get(entry).map(Arc::clone);
            let Some(wanted) = ShardsConfig::of(config, entry, hosts, &self.shared.keyring) else {
                continue;
            };
            let map = match before.remove(entry) {
                Some(same) if same.are_those_of(&wanted) => {
                    same.read_again();
                    same
                }
                _ => {
                    let map = Arc::new(DatabaseShards::new(entry, wanted));
                    shards::start(&map, &self.shared);
                    map
                }
            };
            registry.shard_maps.insert(entry.clone(), map);
        }
    }

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

    /// The hosts of databases that have several, in the order of their entries in the configuration.
    pub fn hosts(&self) -> Vec<Arc<DatabaseHosts>> {
        self.lock().hosts.values().map(Arc::clone).collect()
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
