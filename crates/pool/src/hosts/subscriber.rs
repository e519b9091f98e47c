//! The logical subscribers of a database: the task that probes each, on both servers.

use super::probe::{self, open_monitor};
use super::questions::{self, ask_both};
use super::readable_tables::{ReadableTables, SubscriberRead, names_of};
use super::{DatabaseHosts, PROBE_EVERY};
use crate::address::Address;
use crate::clock;
use crate::server::{ServerConn, ServerError};
use crate::shared::Shared;
use paceline_cluster::{Cluster, HostId, ProbeError, SubscriberReport, SystemId};
use paceline_config::Subscriber;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Minimum time between two probes of a subscriber.
const PAUSE_MIN: Duration = Duration::from_millis(20);

impl DatabaseHosts {
    /// Whether the database has subscribers.
    fn has_subscribers(&self) -> bool {
        !self.config.subscribers.is_empty()
    }

    /// A pool of this user exists: subscribers are asked what it may read.
    pub(crate) fn add_reader(&self, user: &str) {
        let mut users = self.users();
        if self.has_subscribers() && users.insert(user.to_owned()) {
            self.want_subscribers();
        }
    }

    fn users(&self) -> MutexGuard<'_, BTreeSet<String>> {
        let users = self.subscribers.users.lock();
        users.unwrap_or_else(PoisonError::into_inner)
    }

    /// Probes the subscribers now.
    pub(crate) fn want_subscribers(&self) {
        self.subscribers.wanted.send_replace(());
    }

    /// The subscribers that may serve reads now.
    pub(super) fn readable_tables(&self, cluster: &Cluster) -> Vec<Arc<ReadableTables>> {
        let found = cluster.readable_subscribers().into_iter();
        let found = found.filter_map(|found| {
            let subscriber = self.config.subscriber(found.replica.id)?;
            let before = self.roles.load();
            let same = before.subscribers.iter().find(|before| {
                before.id() == found.replica.id && before.found.tables == found.tables
            });
            Some(Arc::new(match same {
                Some(same) => ReadableTables {
                    columns: Arc::clone(&same.columns),
                    question: same.question.clone(),
                    found,
                },
                None => ReadableTables::new(found, subscriber),
            }))
        });
        found.collect()
    }

    /// A subscriber, if it may serve reads.
    pub(crate) fn readable_subscriber(&self, id: HostId) -> Option<Arc<ReadableTables>> {
        let roles = self.roles.load();
        let mut subscribers = roles.subscribers.iter();
        subscribers.find(|found| found.id() == id).map(Arc::clone)
    }

    /// Whether the host is one of the subscribers.
    pub(crate) fn is_subscriber(&self, id: HostId) -> bool {
        self.config.subscriber(id).is_some()
    }

    /// Whether no client has changed a catalog since the subscriber was compared with the primary.
    pub(crate) fn is_current(&self, tables: &ReadableTables) -> bool {
        tables.found.tables.last_ddl == self.last_ddl.load(Ordering::Relaxed)
    }

    /// The subscribers that may answer a read.
    pub(crate) fn subscribers_for(
        &self,
        read: Option<SubscriberRead<'_>>,
    ) -> Vec<Arc<ReadableTables>> {
        let roles = self.roles.load();
        let Some(SubscriberRead { user, statement }) = read else {
            return Vec::new();
        };
        if roles.subscribers.is_empty() {
            return Vec::new();
        }
        let names = names_of(statement);
        let may = |found: &&Arc<ReadableTables>| found.found.tables.may_answer(user, &names);
        let found: Vec<_> = roles
            .subscribers
            .iter()
            .filter(may)
            .map(Arc::clone)
            .collect();
        let (current, old): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| self.is_current(found));
        if !old.is_empty() {
            self.want_subscribers();
        }
        current
    }

    /// The system identifier that a connection to a host must find when it is opened; `None` if it is not known. A subscriber is asked
    /// with each read.
    pub(crate) fn system_at(&self, id: HostId) -> Option<SystemId> {
        self.system().filter(|_| !self.is_subscriber(id))
    }

    /// The name of the database on a subscriber; `None` if it is that of the primary.
    pub(crate) fn database_at(&self, id: HostId) -> Option<&str> {
        self.config.subscriber(id)?.dbname.as_deref()
    }
}

/// The connections of the monitor for one subscriber.
#[derive(Default)]
struct Connections {
    own: Option<Box<ServerConn>>,
    /// To the primary, with the number of the host and [`Address::moves`] when it was opened.
    primary: Option<(Box<ServerConn>, HostId, u64)>,
}

/// The inputs of a probe.
struct Probe {
    own: Arc<Address>,
    primary: Option<(HostId, Arc<Address>)>,
    subscriber: Subscriber,
    users: Vec<String>,
    connect_timeout: Duration,
}

/// Probes one subscriber. Ends when the hosts are dropped.
pub(super) async fn watch_subscriber(hosts: Weak<DatabaseHosts>, shared: Arc<Shared>, id: HostId) {
    let mut connections = Connections::default();
    let subscribed = hosts.upgrade().map(|hosts| {
        let wanted = hosts.subscribers.wanted.subscribe();
        (wanted, hosts.primary_changes())
    });
    let Some((mut wanted, mut primary_changes)) = subscribed else {
        return;
    };
    loop {
        let Some(present) = hosts.upgrade() else {
            return;
        };
        let Some(probe) = present.probe_of(id) else {
            return;
        };
        // If tasks held the hosts while they wait for servers, each could keep the others from ending.
        drop(present);
        let at = clock::now();
        let seen = probe.run(&mut connections, &shared).await;
        let Some(present) = hosts.upgrade() else {
            return;
        };
        present.update(|cluster| cluster.observe_subscriber(id, seen, at));
        drop(present);
        tokio::time::sleep(PAUSE_MIN).await;
        tokio::select! {
            () = tokio::time::sleep(PROBE_EVERY) => {}
            asked = wanted.changed() => if asked.is_err() { return },
            changed = primary_changes.changed() => if changed.is_err() { return },
        }
    }
}

impl DatabaseHosts {
    fn probe_of(&self, id: HostId) -> Option<Probe> {
        let primary = self.roles.load().primary;
        let primary = primary.and_then(|primary| {
            let address = self.config.monitored.get(primary.0)?;
            Some((primary, self.monitored_at_location(primary, address)))
        });
        Some(Probe {
            own: Arc::clone(self.config.monitored.get(id.0)?),
            primary,
            subscriber: self.config.subscriber(id)?.clone(),
            users: self.users().iter().cloned().collect(),
            connect_timeout: self.config.connect_timeout,
        })
    }
}

impl Probe {
    /// Asks both servers, on connections that are kept for the next probe. If one that was kept is lost, tries once more.
    async fn run(
        &self,
        connections: &mut Connections,
        shared: &Shared,
    ) -> Result<(HostId, SubscriberReport), ProbeError> {
        let was_open = connections.own.is_some() && connections.primary.is_some();
        let mut asked = self.ask(connections, shared).await;
        if was_open && matches!(asked, Err(ServerError::Io(_) | ServerError::Refused(_))) {
            *connections = Connections::default();
            asked = self.ask(connections, shared).await;
        }
        asked.map_err(|error| {
            *connections = Connections::default();
            probe::probe_error(&error)
        })
    }

    async fn ask(
        &self,
        connections: &mut Connections,
        shared: &Shared,
    ) -> Result<(HostId, SubscriberReport), ServerError> {
        let limit = self.connect_timeout;
        let Connections { own, primary } = connections;
        let own = match own {
            Some(open) => open,
            None => own.insert(open_monitor(&self.own, limit, shared).await?),
        };
        let Some((host, address)) = &self.primary else {
            return Err(questions::no_primary());
        };
        let moves = address.moves();
        primary.take_if(|(_, of, at)| (*of, *at) != (*host, moves));
        let (primary, _, _) = match primary {
            Some(open) => open,
            None => primary.insert((open_monitor(address, limit, shared).await?, *host, moves)),
        };
        let last_ddl = shared.last_ddl();
        let asking = ask_both(own, primary, &self.subscriber, &self.users);
        let asked = tokio::time::timeout(probe::PROBE_LIMIT, asking).await;
        let mut report = asked.unwrap_or(Err(ServerError::QueryTimeout))?;
        report.last_ddl = last_ddl;
        Ok((*host, report))
    }
}
