//! The replicas of a database or of a shard, for the reads of one user's clients.
//!
//! A read that a replica may serve joins a group on a server connection of that replica's own pool. The replica's answers count
//! only if it had replayed what the read needs (`group_run/replica.rs`). In every other case, also if the replica rejects the
//! statement or is lost, the read runs on the primary: a client gets errors only from the primary.

mod shards_seen;

pub use shards_seen::ShardsSeen;

use crate::address::Address;
use crate::clock;
use crate::hosts::{DatabaseHosts, ReadableTables, ReplicaHost, ReplicaNeeds, SubscriberRead};
use crate::pool::{Pool, PoolConfig};
use arc_swap::ArcSwapOption;
use paceline_cluster::{HostId, Lsn, Position};
use paceline_config::Servers;
use paceline_sql::Statement;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time for the answer to `SHOW paceline.position`.
const POSITION_MAX: Duration = Duration::from_secs(2);

/// The setting that limits the waits of reads on a replica for locks.
pub(crate) const LOCK_TIMEOUT: &str = "lock_timeout";

/// The replicas of a database for one user; `None` if it has one host. A reload may replace them.
pub type ReplicasInForce = Arc<ArcSwapOption<Replicas>>;

/// The hosts of a database or of a shard and one pool for each, in the order of the URL or of the foreign server: each host may
/// become a replica. The pools of subscribers are behind them.
pub struct Replicas {
    hosts: Arc<DatabaseHosts>,
    pools: Vec<Arc<Pool>>,
    /// The user on the servers.
    user: String,
    /// The foreign server; empty for the hosts of the database itself.
    shard: Arc<str>,
}

/// The part of the primary's log that a replica must have replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// All that the client has written or read.
    Session,
    /// All that was committed when the read arrived.
    Global,
    /// The replica may be `max_lag` behind.
    Any,
}

/// The state that a client has written or read: a replica behind that would show it an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The number of questions for positions that had begun when the primary last served the client; `None` if `position` is
    /// known to include that.
    primary_at: Option<u64>,
    position: Lsn,
    /// The time with one primary to which `position` belongs. 0: no position was needed yet.
    term: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            primary_at: None,
            position: Lsn::ZERO,
            term: 0,
        }
    }
}

/// The number of no time with one primary.
const NO_TERM: u64 = u64::MAX;

impl Seen {
    /// A server has served the client while the database had no replicas: the next read needs the state that the primary has then.
    pub fn served_without_replicas(&mut self) {
        self.term = NO_TERM;
    }

    /// The client has seen the state of the database at this position.
    pub fn raise(&mut self, position: Lsn) {
        self.position = self.position.max(position);
    }
}

/// A replica that is fresh enough for a read.
pub struct ChosenReplica {
    /// The server connections to it.
    pub pool: Arc<Pool>,
    /// The position that it must have replayed when the read begins.
    pub position: Lsn,
}

/// A read for a replica.
pub struct WantedRead<'a> {
    /// The required freshness of the replica.
    pub freshness: Freshness,
    /// The statement, if a logical subscriber may answer it, too.
    pub statement: Option<&'a Statement>,
}

impl Replicas {
    /// Beside the pool of the primary that has this configuration. `new` makes a pool.
    pub(crate) fn new(
        hosts: &Arc<DatabaseHosts>,
        config: &PoolConfig,
        new: impl Fn(PoolConfig) -> Arc<Pool>,
    ) -> Self {
        Self {
            hosts: Arc::clone(hosts),
            pools: configs(config, hosts).map(new).collect(),
            user: config.address.user.clone(),
            shard: hosts.shard().unwrap_or_default().into(),
        }
    }

    /// The pools follow a new configuration of the primary's.
    pub(crate) fn reconfigure(&self, config: &PoolConfig) {
        let pairs = self.pools.iter().zip(configs(config, &self.hosts));
        pairs.for_each(|(pool, config)| pool.reconfigure(config));
    }

    /// Whether these are the pools for these hosts.
    pub(crate) fn are_of(&self, hosts: &Arc<DatabaseHosts>) -> bool {
        Arc::ptr_eq(&self.hosts, hosts)
    }

    /// One pool for each host.
    pub fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// The primary has served a request of the client.
    pub fn primary_served(&self, seen: &mut Seen) {
        seen.primary_at = Some(self.hosts.questions());
    }

    /// Whether any replica may serve reads, or any subscriber some of them.
    pub fn any(&self, freshness: Freshness) -> bool {
        self.hosts.has_readable()
            || (freshness == Freshness::Any && self.hosts.has_readable_subscriber())
    }

    /// Whether any replica may serve reads, or any subscriber this one.
    pub fn any_for(&self, read: &WantedRead<'_>) -> bool {
        self.hosts.has_readable() || !self.subscribers(read).is_empty()
    }

    /// The subscribers that may answer a read.
    fn subscribers(&self, read: &WantedRead<'_>) -> Vec<Arc<ReadableTables>> {
        // A subscriber has no position that could be compared with that of a client.
        let statement = read.statement.filter(|_| read.freshness == Freshness::Any);
        let read = statement.map(|statement| SubscriberRead {
            user: &self.user,
            statement,
        });
        self.hosts.subscribers_for(read)
    }

    /// The replica for a read. `None`: none is fresh enough within `replica_wait`.
    pub async fn choose(
        &self,
        read: WantedRead<'_>,
        seen: &mut Seen,
        settings: &Servers,
    ) -> Option<ChosenReplica> {
        let subscribers = self.subscribers(&read);
        if !self.hosts.has_readable() && subscribers.is_empty() {
            return None;
        }
        self.begin_term(seen);
        let until = clock::now() + settings.replica_wait;
        let position = match read.freshness {
            Freshness::Any => Lsn::ZERO,
            Freshness::Session => self.known_position(seen, until).await?,
            Freshness::Global => {
                self.primary_served(seen);
                self.known_position(seen, until).await?
            }
        };
        let needs = ReplicaNeeds {
            position,
            lag_max: settings.max_lag,
            until,
            wait: settings.replica_wait,
        };
        let work = |HostId(host)| self.pools.get(host).map_or(usize::MAX, |pool| pool.work());
        let HostId(host) = self.hosts.replica_for(needs, &subscribers, work).await?;
        let pool = Arc::clone(self.pools.get(host)?);
        Some(ChosenReplica { pool, position })
    }

    /// If the primary has changed, the client needs the present state of the new one, which may not have all that its predecessor had.
    fn begin_term(&self, seen: &mut Seen) {
        let term = self.hosts.term();
        if ![0, term].contains(&seen.term) {
            *seen = Seen::default();
            self.primary_served(seen);
        }
        seen.term = term;
    }

    /// The position that includes all that the client has seen. Asks the primary if it has served the client since the last question.
    async fn known_position(&self, seen: &mut Seen, until: Instant) -> Option<Lsn> {
        if let Some(question) = seen.primary_at {
            let position = self.hosts.primary_position(question, until).await?;
            seen.raise(position);
            seen.primary_at = None;
        }
        Some(seen.position)
    }

    /// The position that the client has seen, as text for another client that follows it. `None`: there is no primary, it does not answer,
    /// or its timeline is not known.
    pub async fn position(&self, seen: &mut Seen) -> Option<String> {
        self.begin_term(seen);
        let until = clock::now() + POSITION_MAX;
        let lsn = self.known_position(seen, until).await?;
        Some(self.hosts.position_at(lsn)?.to_string())
    }

    /// The client follows another one, which was at this position. If the position is not part of the primary's log, for example
    /// because a failover has lost it, or if the text is not a position, the client reads the present state of the primary.
    pub fn follow(&self, seen: &mut Seen, position: &str) {
        self.begin_term(seen);
        match position.parse::<Position>() {
            Ok(position) if self.hosts.includes(position) => seen.raise(position.lsn),
            Ok(_) | Err(_) => self.primary_served(seen),
        }
    }

    /// Takes reads away from replicas that may not serve them any more: their servers may never answer.
    pub(crate) fn leave_lost(&self) {
        let mut all = self.pools.iter().enumerate();
        all.by_ref()
            .filter(|(host, _)| !self.hosts.is_readable(HostId(*host)))
            .for_each(|(_, pool)| pool.leave_replica());
    }
}

/// The configurations of the pools for these hosts, beside that of the primary's pool.
fn configs(config: &PoolConfig, hosts: &Arc<DatabaseHosts>) -> impl Iterator<Item = PoolConfig> {
    let hosts_of = 0..hosts.upstreams().len();
    hosts_of.filter_map(|host| of_host(config, hosts, HostId(host)))
}

/// The configuration of the pool for one host: that of the primary's pool, with the address of the host. A read on a replica waits
/// for a lock only if replay has it, perhaps for as long as replay is paused: the primary, where the lock may be free, serves such
/// a read after `replica_wait`.
fn of_host(config: &PoolConfig, hosts: &Arc<DatabaseHosts>, id: HostId) -> Option<PoolConfig> {
    let host = hosts.upstreams().get(id.0)?;
    let upstream = match hosts.shard() {
        // The hosts of a shard have no login.
        Some(_) => config.address.upstream.on_host(host),
        None => host.clone(),
    };
    let database = hosts.database_at(id);
    let mut address = Address {
        upstream,
        database: database.unwrap_or(&config.address.database).to_owned(),
        // A name may resolve to several replicas: each connection asks its own server for the replayed position.
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
