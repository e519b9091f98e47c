//! The hosts of a database that has several: which one is the primary, and the tasks that probe them.
//!
//! A [`Cluster`] decides; the tasks of [`monitor`] probe each host and hand in what they find. When the primary changes, the pools of
//! the database follow it. While there is none, their requests wait in the line.

mod asker;
mod commits;
mod config;
mod failovers;
mod lookup;
pub(crate) mod monitor;
mod patroni;
mod positions;
mod primary;
mod probe;
mod questions;
mod readable_tables;
mod reads;
mod subscriber;

pub(crate) use config::{HostsConfig, ShardHostLimits, is_same_server};
pub use failovers::{Failover, FailoverTotals};
pub(crate) use positions::ReplicaNeeds;
pub(crate) use primary::{NoPrimary, PrimaryState};
pub(crate) use probe::open_monitor;
pub use questions::ask_both;
pub use readable_tables::spec as subscriber_spec;
pub(crate) use readable_tables::{ReadableTables, SubscriberRead, names_of};

use crate::address::host_address;
use crate::clock;
use crate::location::Location;
use crate::shared::Shared;
use arc_swap::ArcSwap;
use failovers::Failovers;
use paceline_cluster::{
    Cluster, ClusterSettings, Event, HostAddress, HostId, HostSpec, HostStatus, Lsn, Observation,
    PatroniView, Position, ReadableReplica, SystemId,
};
use paceline_config::Upstream;
use positions::Positions;
use readable_tables::Subscribers;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Time between two probes of a host.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The same while there is no primary.
const PROBE_OFTEN: Duration = Duration::from_millis(20);

/// The hosts of one entry of the configuration.
pub struct DatabaseHosts {
    /// The key of the entry in [`paceline_config::Config::databases`]; for a shard, the name of the database as clients use it.
    pub entry: String,
    config: HostsConfig,
    cluster: Mutex<Cluster>,
    /// The primary of which [`DatabaseHosts::left_others`] has been true. Locked only with the lock of the cluster.
    followed: Mutex<Option<HostId>>,
    /// The roles of the hosts after the last observation, for each read.
    roles: ArcSwap<Roles>,
    positions: Positions,
    subscribers: Subscribers,
    /// See [`Shared::last_ddl`].
    last_ddl: Arc<AtomicU64>,
    /// The location of each host, found by the monitor.
    locations: Vec<Arc<Location>>,
    failovers: Arc<Failovers>,
    /// Changed when every host should be probed now.
    probe_now: watch::Sender<()>,
    /// Changed when the primary has changed.
    primary_changed: watch::Sender<()>,
    /// Changed when a replica that served reads may not serve them any more.
    replica_lost: watch::Sender<()>,
}

/// The host of a replica's pool.
#[derive(Clone)]
pub(crate) struct ReplicaHost {
    pub(crate) hosts: Arc<DatabaseHosts>,
    pub(crate) id: HostId,
}

/// The primary, and the replicas that may serve reads.
#[derive(Debug, Default)]
struct Roles {
    primary: Option<HostId>,
    readable: Vec<ReadableReplica>,
    /// The subscribers that may serve reads.
    subscribers: Vec<Arc<ReadableTables>>,
}

impl DatabaseHosts {
    /// Hosts that have not been probed. [`monitor::start`] starts the probes. `before` are the hosts of the same entry before a reload.
    pub(crate) fn new(
        entry: &str,
        config: HostsConfig,
        before: Option<&Self>,
        shared: &Shared,
    ) -> Self {
        let specs = config.hosts().iter().map(|upstream| HostSpec {
            address: address_of(upstream),
        });
        let settings = ClusterSettings {
            failover_timeout: config.failover_timeout,
            patroni: !config.patroni.is_empty(),
        };
        let subscribers = config.subscribers.iter().map(subscriber_spec).collect();
        let cluster = Cluster::new(specs.collect(), settings, clock::now());
        let mut cluster = cluster.with_subscribers(subscribers);
        let is_among_them = |upstream| config.same_server(upstream).is_some();
        let before = before.filter(|before| before.config.hosts().iter().any(is_among_them));
        if let Some(before) = before {
            cluster.inherit(&before.lock());
        }
        let location = |upstream| {
            let before = before.and_then(|before| before.location(upstream));
            before.unwrap_or_default()
        };
        Self {
            locations: config.upstreams.iter().map(location).collect(),
            subscribers: Subscribers::new(),
            last_ddl: Arc::clone(&shared.last_ddl),
            cluster: Mutex::new(cluster),
            followed: Mutex::default(),
            roles: ArcSwap::default(),
            positions: Positions::new(config.upstreams.len(), &shared.positions_asked),
            failovers: before.map_or_else(Arc::default, |before| Arc::clone(&before.failovers)),
            entry: entry.to_owned(),
            config,
            probe_now: watch::Sender::new(()),
            primary_changed: watch::Sender::new(()),
            replica_lost: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The foreign server of which these are the hosts; `None` for those of the database itself.
    pub fn shard(&self) -> Option<&str> {
        self.config.shard.as_deref()
    }

    /// Whether the configuration is unchanged.
    pub(crate) fn are_those_of(&self, config: &HostsConfig) -> bool {
        self.config.is_same(config)
    }

    /// The one of the hosts that listens where `upstream` does.
    pub(crate) fn same_server(&self, upstream: &Upstream) -> Option<Upstream> {
        self.config.same_server(upstream).cloned()
    }

    /// The location of the host with the address of `upstream`.
    pub(crate) fn location(&self, upstream: &Upstream) -> Option<Arc<Location>> {
        let mut pairs = self.config.upstreams.iter().zip(&self.locations);
        let found = pairs.find(|(own, _)| is_same_server(own, upstream));
        found.map(|(_, location)| Arc::clone(location))
    }

    /// The system identifier of the hosts in use; `None` if it is not known.
    pub(crate) fn system(&self) -> Option<SystemId> {
        self.lock().system()
    }

    /// The zone of a host; `None` if it is not configured.
    pub fn zone(&self, host: HostId) -> Option<&str> {
        match self.config.subscriber(host) {
            Some(subscriber) => subscriber.zone.as_deref(),
            None => self.config.zones.get(host.0).map(String::as_str),
        }
    }

    /// The state of each host, in the order of the URL, and of each subscriber.
    pub fn statuses(&self) -> Vec<HostStatus> {
        self.lock().statuses()
    }

    /// The state of the host that listens where `upstream` does; `None` if there is none.
    pub fn status_at(&self, upstream: &Upstream) -> Option<HostStatus> {
        let mut upstreams = self.config.upstreams.iter();
        let place = upstreams.position(|own| is_same_server(own, upstream))?;
        self.statuses().into_iter().nth(place)
    }

    /// Changes when the primary has changed.
    pub(crate) fn primary_changes(&self) -> watch::Receiver<()> {
        self.primary_changed.subscribe()
    }

    /// Probes every host now: a request found that the primary may be gone.
    pub(crate) fn suspect(&self) {
        self.probe_now.send_replace(());
    }

    /// Takes the result of a probe.
    fn observed(&self, host: HostId, seen: Observation) {
        let replayed = match &seen {
            Observation::Answered(report) if report.in_recovery => report.replayed,
            Observation::Answered(_) | Observation::Failed(_) => None,
        };
        self.update(|cluster| cluster.observe(host, seen, clock::now()));
        // After the roles: a read that waits for the position looks at them.
        replayed
            .into_iter()
            .for_each(|replayed| self.replica_answered(host, replayed));
    }

    fn update(&self, change: impl FnOnce(&mut Cluster) -> Vec<Event>) {
        let mut cluster = self.lock();
        let events = change(&mut cluster);
        events
            .iter()
            .for_each(|event| self.note_primary(&cluster, event));
        let roles = Arc::new(Roles {
            primary: cluster.primary(),
            readable: cluster.readable(),
            subscribers: self.readable_tables(&cluster),
        });
        let before = self.roles.swap(Arc::clone(&roles));
        drop(cluster);
        let mut served = before.readers();
        let lost = !served.all(|id| roles.is_readable(id));
        self.changed(&events);
        if lost {
            self.replica_lost.send_replace(());
        }
    }

    /// Whether a host is the primary.
    fn is_primary(&self, host: HostId) -> bool {
        self.roles.load().primary == Some(host)
    }

    /// Whether a host may serve reads as a replica or as a subscriber.
    pub(crate) fn is_readable(&self, host: HostId) -> bool {
        self.roles.load().is_readable(host)
    }

    /// Whether any replica may serve reads.
    pub(crate) fn has_readable(&self) -> bool {
        !self.roles.load().readable.is_empty()
    }

    /// Whether any subscriber may serve reads.
    pub(crate) fn has_readable_subscriber(&self) -> bool {
        !self.roles.load().subscribers.is_empty()
    }

    /// The destinations of connections: the hosts in the order of the URL, and the subscribers behind them.
    pub(crate) fn upstreams(&self) -> &[Upstream] {
        &self.config.upstreams
    }

    /// A position of the primary, with its timeline and system identifier; `None` if they are not known.
    pub(crate) fn position_at(&self, lsn: Lsn) -> Option<Position> {
        self.lock().position_of_primary(lsn)
    }

    /// Whether a position of another client is part of the primary's log.
    pub(crate) fn includes(&self, position: Position) -> bool {
        self.lock().includes(position)
    }

    /// Changes when a replica that served reads may not serve them any more.
    pub(crate) fn replicas_lost(&self) -> watch::Receiver<()> {
        self.replica_lost.subscribe()
    }

    /// Takes the answer of Patroni; `None` if there was none.
    fn patroni_answered(&self, answer: Option<PatroniView>) {
        self.update(|cluster| cluster.observe_patroni(answer, clock::now()));
    }

    fn changed(&self, events: &[Event]) {
        let is_said = |event: &Event| match event {
            // The line about the primary says it.
            Event::Removed { host, .. } | Event::Returned(host) => events.iter().any(|other| {
                matches!(other, Event::PrimaryLost { host: primary, .. }
                    | Event::PrimaryFound { host: primary, .. } if primary == host)
            }),
            _ => false,
        };
        for event in events.iter().filter(|event| !is_said(event)) {
            self.log(event);
        }
        let is_of_primary = |event: &Event| {
            matches!(
                event,
                Event::PrimaryLost { .. } | Event::PrimaryFound { .. }
            )
        };
        if events.iter().any(is_of_primary) {
            self.positions.begin_term();
            self.primary_changed.send_replace(());
            self.suspect();
        }
    }

    /// The time until the next probe.
    fn pause(&self) -> Duration {
        match self.lock().primary() {
            Some(_) => PROBE_EVERY,
            None => PROBE_OFTEN,
        }
    }

    /// A host for the log.
    fn name(&self, HostId(host): HostId) -> Shown {
        Shown(self.config.upstreams.get(host).map(address_of))
    }

    fn log(&self, event: &Event) {
        let (database, shard) = (self.entry.as_str(), self.shard());
        let shown = |host: &HostId| self.name(*host);
        match event {
            Event::PrimaryLost { host, reason } => {
                tracing::warn!(database, shard, host = %shown(host), %reason, "the primary is lost: requests wait");
            }
            Event::PrimaryFound {
                host,
                timeline,
                before,
                waited,
            } => {
                let timeline = timeline.map(|timeline| timeline.0);
                let before = before.map(|before| before.0);
                tracing::info!(database, shard, host = %shown(host), timeline, before, ?waited, "this host is the primary");
            }
            Event::PrimaryNotFound => {
                tracing::warn!(database, shard, "no host is the primary: requests wait");
                for host in self.statuses() {
                    let address = &host.spec.address;
                    match host.reason {
                        Some(reason) => {
                            tracing::warn!(database, shard, host = %address, %reason, "a host is not the primary");
                        }
                        None => {
                            tracing::warn!(database, shard, host = %address, "a host is a replica");
                        }
                    }
                }
            }
            Event::Removed { host, reason } => {
                tracing::warn!(database, shard, host = %shown(host), %reason, "a host is not in use");
            }
            Event::Returned(host) => {
                tracing::info!(database, shard, host = %shown(host), "a host is in use");
            }
            Event::TimelineRose(timeline) => {
                tracing::info!(
                    database,
                    shard,
                    timeline = timeline.0,
                    "a new timeline was seen"
                );
            }
        }
    }
}

impl Roles {
    /// The hosts and subscribers that may serve reads.
    fn readers(&self) -> impl Iterator<Item = HostId> {
        let replicas = self.readable.iter().map(|replica| replica.id);
        let subscribers = self.subscribers.iter().map(|subscriber| subscriber.id());
        replicas.chain(subscribers)
    }

    fn is_readable(&self, host: HostId) -> bool {
        self.readers().any(|reader| reader == host)
    }
}

/// A host for the log.
struct Shown(Option<HostAddress>);

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(address) => address.fmt(out),
            None => out.write_str("unknown"),
        }
    }
}

/// The address of a server in the cluster's type.
fn address_of(upstream: &Upstream) -> HostAddress {
    host_address(&upstream.host, upstream.port)
}
