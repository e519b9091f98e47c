//! The configuration of the hosts of a database; for a shard, the entries in the coordinator's catalog.

use crate::address::Address;
use crate::keyring::Keyring;
use paceline_cluster::HostId;
use paceline_config::{Config, Database, Subscriber, Upstream};
use std::sync::Arc;
use std::time::Duration;

/// Limits of the hosts of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardHostLimits {
    /// Clients wait at most so long for a primary.
    pub(crate) failover_timeout: Duration,
    /// Limits an attempt to connect; zero means no limit.
    pub(crate) connect_timeout: Duration,
}

/// The hosts of a database.
#[derive(Debug, Clone)]
pub(crate) struct HostsConfig {
    /// The foreign server of which they are the hosts; `None` for those of the database itself.
    pub(super) shard: Option<String>,
    /// The destinations of pools: the hosts in the order of the URL, and the subscribers behind them.
    pub(super) upstreams: Vec<Upstream>,
    /// The destinations of the monitor, in the same order.
    pub(super) monitored: Vec<Arc<Address>>,
    /// The subscribers.
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) patroni: Vec<String>,
    /// The zone of this process; empty for none.
    pub(super) zone: String,
    /// The zones of the hosts; none if they are not configured.
    pub(super) zones: Vec<String>,
    pub(super) failover_timeout: Duration,
    /// Limits an attempt to connect; zero means no limit.
    pub(super) connect_timeout: Duration,
}

impl HostsConfig {
    /// The hosts of an entry; `None` if its only host is the primary without being asked.
    pub(crate) fn of(config: &Config, entry: &str, keyring: &Arc<Keyring>) -> Option<Self> {
        let database = config.databases.get(entry)?;
        let settings = config.database_settings(database);
        if !database.is_monitored(&settings) {
            return None;
        }
        let monitored = |upstream: Upstream, name| {
            Arc::new(Address::of_monitor(
                upstream,
                name,
                &config.paceline.tcp,
                keyring,
            ))
        };
        let hosts = database.all_hosts().map(|at| {
            let upstream = database.monitor_upstream(&at, &settings);
            monitored(upstream, config.monitor_database(entry, database))
        });
        let subscribers = database.subscribers.iter().map(|subscriber| {
            let upstream = database.subscriber_upstream(subscriber);
            let upstream = database.with_monitor_login(upstream, &settings);
            let name = config.subscriber_database(entry, database, subscriber);
            monitored(upstream, name)
        });
        Some(Self {
            shard: None,
            upstreams: upstreams(database),
            monitored: hosts.chain(subscribers).collect(),
            subscribers: database.subscribers.clone(),
            patroni: settings.servers.patroni.clone(),
            zone: settings.servers.zone.clone(),
            zones: settings.servers.zones.clone(),
            failover_timeout: settings.servers.failover_timeout,
            connect_timeout: settings.timeouts.server_connect_timeout,
        })
    }

    /// The hosts of a shard, each with the login of the monitor.
    pub(crate) fn of_shard(
        name: &str,
        monitored: Vec<Arc<Address>>,
        limits: ShardHostLimits,
    ) -> Self {
        let without_login = |address: &Arc<Address>| Upstream {
            user: None,
            password: None,
            ..address.upstream.clone()
        };
        Self {
            shard: Some(name.to_owned()),
            upstreams: monitored.iter().map(without_login).collect(),
            monitored,
            subscribers: Vec::new(),
            patroni: Vec::new(),
            zone: String::new(),
            zones: Vec::new(),
            failover_timeout: limits.failover_timeout,
            connect_timeout: limits.connect_timeout,
        }
    }

    /// The hosts of the URL.
    pub(super) fn hosts(&self) -> &[Upstream] {
        let hosts = self.upstreams.len() - self.subscribers.len();
        self.upstreams.get(..hosts).unwrap_or_default()
    }

    /// The subscriber with this number; `None` if it is the number of a host of the URL.
    pub(super) fn subscriber(&self, HostId(id): HostId) -> Option<&Subscriber> {
        let place = id.checked_sub(self.hosts().len())?;
        self.subscribers.get(place)
    }

    /// The one of the hosts that listens where `upstream` does.
    pub(super) fn same_server(&self, upstream: &Upstream) -> Option<&Upstream> {
        let mut servers = self.hosts().iter();
        servers.find(|server| is_same_server(server, upstream))
    }

    /// Whether both monitor the same hosts in the same way.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let pairs = || self.monitored.iter().zip(&other.monitored);
        self.shard == other.shard
            && (&self.upstreams, &self.subscribers) == (&other.upstreams, &other.subscribers)
            && self.patroni == other.patroni
            && (&self.zone, &self.zones) == (&other.zone, &other.zones)
            && self.failover_timeout == other.failover_timeout
            && self.connect_timeout == other.connect_timeout
            && pairs().all(|(one, other)| one.leads_to(other))
    }
}

/// Whether both are the same server, whatever the login.
pub(crate) fn is_same_server(one: &Upstream, other: &Upstream) -> bool {
    (&one.host, one.port) == (&other.host, other.port)
}

/// The servers at all hosts of a database, and its subscribers.
fn upstreams(database: &Database) -> Vec<Upstream> {
    let hosts = database.all_hosts();
    let hosts = hosts.map(|at| database.upstream_at(&at));
    let subscribers = database.subscribers.iter();
    let subscribers = subscribers.map(|subscriber| database.subscriber_upstream(subscriber));
    hosts.chain(subscribers).collect()
}
