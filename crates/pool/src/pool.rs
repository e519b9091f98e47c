//! A pool: the server connections of one database and user, and the line in front of them.
//!
//! This file has the types; each file of the folder has one part of the work of a pool. All of it happens under one short lock that
//! is never held across an `await`.

mod admin;
mod admission;
mod admissions;
mod analyses;
mod check;
mod checkout;
mod commits;
mod config;
mod decide_again;
mod dispatch;
mod eviction;
mod failover;
mod groups;
mod growth;
mod janitor;
mod load;
mod login_backoff;
mod lookup;
mod permit;
mod permits;
mod reconfigure;
mod replica;
mod replication;
mod replication_queue;
mod request_rate;
mod servers;
mod shard;
mod state;
#[cfg(test)]
mod tests;
mod wait;
mod wait_sum;
mod wait_timer;

pub use admission::{Admission, Turn};
pub use analyses::AnalysisState;
pub use checkout::RowsInFlight;
pub(crate) use config::{PoolConfig, ShardHost};
pub use load::PoolLoad;
pub use replication::ReplicationServer;
pub(crate) use state::ExclusiveUse;
pub use state::{DisconnectSignal, PoolState};
pub(crate) use wait::ProbeResult;

use crate::address::Address;
use crate::clock;
use crate::credentials::{ServerCredentials, ShownCredential};
use crate::hosts::{DatabaseHosts, NoPrimary, ReplicaHost};
use crate::labels::PoolLabels;
use crate::quota::{Quotas, Starving};
use crate::result_memory::ResultReservation;
use crate::server::{Generation, ServerConn, ServerList, TransactionDefaults};
use crate::settings::SettingsInForce;
use crate::shared::Shared;
use crate::stats::Stats;
use admissions::Admissions;
use analyses::Analyses;
use arc_swap::{ArcSwap, ArcSwapOption, Cache, Guard};
use bytes::Bytes;
use config::PolicyCell;
use login_backoff::LoginBackoff;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::{Dispatch, Line, LineKey, LineKeys, WaitSpec, WaiterId};
use paceline_batch::strategy::PlannedRequest;
use paceline_cluster::{CommitCounter, Lsn};
use paceline_relay::request::PartialAnswer;
use permits::Permits;
use replication_queue::ReplicationQueue;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};
use wait_sum::WaitSum;

/// The settings of a pool, as one client reads them: without a shared access unless they have changed.
pub type SettingsCache = Cache<Arc<ArcSwap<SettingsInForce>>, Arc<SettingsInForce>>;

/// The server connections of one database and user.
pub struct Pool {
    /// The state that all pools share.
    pub shared: Arc<Shared>,
    all_pools: Weak<dyn AllPools>,
    policy: PolicyCell,
    permits: Permits,
    /// The credential of the last client that logged in, for logins of the pool.
    shown: Arc<ShownCredential>,
    /// The labels in metrics, from the first login of a client on.
    pub labels: OnceLock<PoolLabels>,
    /// The name in the console, from the first admission of a client on.
    pub name: OnceLock<PoolName>,
    /// Limits that the pool shares with others of its database and user.
    pub quotas: Quotas,
    admissions: Arc<Admissions>,
    settings: Arc<ArcSwap<SettingsInForce>>,
    inner: Mutex<Inner>,
    signals: PoolSignals,
    /// The server's default of `idle_session_timeout`, in milliseconds, as of the connection that was opened last.
    idle_default_ms: AtomicU64,
    /// The server's defaults for transactions, as of the connection to the primary that was opened last.
    transaction_defaults: ArcSwapOption<TransactionDefaults>,
    /// Clients that are logged in.
    pub clients: AtomicUsize,
    /// Replication clients among them.
    pub replication_clients: AtomicUsize,
    /// Statistics.
    pub stats: Arc<Stats>,
    server_list: ServerList,
    /// Counts commits, if the database has several hosts.
    commits: ArcSwapOption<CommitCounter>,
    /// The host of a replica's pool; `None` if the pool leads to the primary.
    pub(crate) replica: Option<ReplicaHost>,
    /// Whether the database has shards, of which this is the pool of the coordinator.
    has_shards: AtomicBool,
    /// The server of a shard's pool.
    shard: Option<ShardHost>,
}

/// The pools of the process, for a pool that needs a server connection of another pool closed.
pub(crate) trait AllPools: Send + Sync {
    /// All pools of the process.
    fn pools(&self) -> Vec<Arc<Pool>>;
}

/// The database and user that clients name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolName {
    /// The database.
    pub database: String,
    /// The user.
    pub user: String,
}

/// Wakes tasks that wait for something in a pool.
#[derive(Default)]
struct PoolSignals {
    /// To the wait timer: something changed that it has not taken into account.
    look_again: Notify,
    /// A connection was closed or suspended, or the last one of a generation was closed.
    closed: Arc<Notify>,
    /// An analysis ended.
    analyzed: Notify,
}

/// The state under the lock.
struct Inner {
    line: Line<Waiter>,
    /// Requests in flight that must not be tried again.
    unwanted: FxHashMap<WaiterId, Unwanted>,
    servers: Servers,
    admin: AdminControl,
    replication: ReplicationQueue,
    analyses: Analyses,
    timer: WaitTimer,
    /// Since when the janitor has found neither clients nor connections, and no client has asked for the pool.
    unused_since: Option<Instant>,
}

/// The server connections of a pool, and when further ones may be opened.
struct Servers {
    /// Idle connections; the one used last is taken first.
    idle: Vec<Box<ServerConn>>,
    /// Idle connections of a suspended pool; then `idle` is empty.
    suspended: Vec<Box<ServerConn>>,
    /// Maximum number of connections, the reserve included.
    open_max: usize,
    /// Connections that exist or are being opened.
    open: usize,
    /// Connections that are being opened.
    opening: usize,
    /// Connections that run `server_check_query`.
    checking: usize,
    /// While the pool has a connection, no further one is opened before this time.
    grow_not_before: Instant,
    /// The waits of requests that their clients relay.
    waits: WaitSum,
    /// The failed attempts, while there is no connection.
    backoff: Option<LoginBackoff>,
    /// There is no connection, and the limits of the database or user allow none.
    starving: Option<Starving>,
    /// No connection is closed for its age before this time.
    lifetime_ends_not_before: Instant,
    /// New connections belong to this generation.
    generation: Arc<Generation>,
    /// Earlier generations that still have connections.
    past: Vec<Weak<Generation>>,
    /// The hosts of the database, if it has several.
    hosts: Option<Arc<DatabaseHosts>>,
    /// Exists while none of the hosts is the primary.
    no_primary: Option<NoPrimary>,
}

/// The orders of operators.
struct AdminControl {
    state: PoolState,
    /// Statements that need the database without other sessions; some may have ended.
    exclusive: Vec<Weak<ExclusiveUse>>,
    killed_at: Option<Instant>,
    /// To idle clients.
    disconnect: watch::Sender<DisconnectSignal>,
}

/// The task that watches the time while requests wait.
struct WaitTimer {
    runs: bool,
    wakes_at: Instant,
    /// Clients that wait for long get a NOTICE not before this time.
    notices_at: Instant,
}

/// A request in the line, and its client.
pub(crate) struct Waiter {
    /// The purpose of the connection.
    pub(crate) purpose: Purpose,
    /// The request, if it may join a group or will be decided again. `None`: the client relays it.
    pub(crate) request: Option<Arc<PlannedRequest>>,
    /// To the client.
    pub(crate) answer: oneshot::Sender<WaitResult>,
    /// Whether the client has received the NOTICE that it waits.
    queued_sent: bool,
    /// The position that a replica must have replayed.
    pub(crate) position: Lsn,
}

/// The purpose of a server connection. PgBouncer does not count a login as a server assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client's request that may join a group.
    Request,
    /// A client's request that the client relays; most of them begin a transaction.
    Relay,
    /// A query of Paceline's own during a client's login.
    Login,
}

/// The end of a wait in the line.
pub enum WaitResult {
    /// A connection, on which the client relays its request.
    Server(Box<PooledServer>),
    /// The answer to the request, which a group has brought.
    Answer(Bytes),
    /// The answer of a replica, and the position that it had replayed after that.
    OfReplica(Bytes, Lsn),
    /// The request runs elsewhere: the replica or the shard cannot serve it, and has done nothing; or the analysis of its template shows that a replica may answer it.
    Elsewhere,
    /// Messages with which the client's connection ends.
    Fatal(Bytes),
    /// Messages with which the client's connection ends because the request has taken longer than `query_timeout`.
    QueryTimeout(Bytes),
    /// The client has waited for `query_wait_notify`, and continues to wait here.
    Queued(oneshot::Receiver<WaitResult>),
    /// The analysis of the template shows that the request is a plain read: its client may give it up at any time. The client
    /// continues to wait here.
    PlainRead(oneshot::Receiver<WaitResult>),
}

/// The result of asking for a server connection.
pub enum CheckoutResult {
    /// A connection was idle.
    Server(Box<PooledServer>),
    /// There is no server; the client's connection ends with these messages.
    Refused(Bytes),
    /// Too many requests wait (`max_queued`); this answers the request.
    Full(Bytes),
    /// The request is in the line.
    Waiting(WaiterId, oneshot::Receiver<WaitResult>),
}

/// The result of asking for a place in the line of a replica or a shard.
pub enum SubmitResult {
    /// The request is in the line.
    Waiting(WaiterId, oneshot::Receiver<WaitResult>),
    /// Too many requests wait (`max_queued`); this answers the request.
    Full(Bytes),
    /// The pool has no connection and cannot open one now.
    Unreachable,
}

/// A server connection that a client has checked out, and the rows that are in flight because of it. Dropping it returns both to
/// the pool. A connection that was used and not given back is closed.
pub struct PooledServer {
    pool: Arc<Pool>,
    conn: Option<Box<ServerConn>>,
    keys: LineKeys,
    flight: FlightId,
    /// The request with the latest decision about it; `None` if the client has not passed it to the pool.
    request: Option<Arc<PlannedRequest>>,
    used: bool,
    underway: Option<(PartialAnswer, ResultReservation)>,
}

/// The next work of a free server connection.
pub(crate) enum ServerWork {
    /// Runs a group.
    Group(Dispatch<Waiter>),
    /// Probes these requests, which stay in the line.
    Probe(Vec<(WaiterId, Arc<PlannedRequest>)>),
    /// Waits for a row lock.
    Lock(Box<LockWait>),
}

/// A row whose lock a server connection waits for.
pub(crate) struct LockWait {
    /// The row, which is in flight.
    pub(crate) key: LineKey,
    /// The first request that waits for the row. It stays in the line.
    pub(crate) request: Arc<PlannedRequest>,
    /// The spec of that request in the line.
    pub(crate) spec: WaitSpec,
    /// Start of the wait.
    pub(crate) since: Instant,
}

/// The reason why a request in flight must not be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unwanted {
    /// Its client has cancelled it.
    Cancelled,
    /// Its client has disconnected. The attempt in flight continues, as it does in PostgreSQL.
    Left,
}

impl Pool {
    /// A pool without connections. That of a replica or a shard is `beside` the pool that clients name, and counts and logs in with it.
    pub(crate) fn new(
        shared: Arc<Shared>,
        all_pools: Weak<dyn AllPools>,
        config: PoolConfig,
        quotas: Quotas,
        state: PoolState,
        beside: Option<&Pool>,
    ) -> Self {
        let now = clock::now();
        let signals = PoolSignals::default();
        let load = shared.server_loads.of(&config.address.upstream);
        let disconnect = match state {
            PoolState::ShuttingDown => DisconnectSignal::Closing,
            PoolState::Active | PoolState::Suspended | PoolState::Paused => DisconnectSignal::Stay,
        };
        Self {
            commits: ArcSwapOption::new(config.commit_counter()),
            all_pools,
            policy: PolicyCell::new(config.policy),
            permits: Permits::new(Arc::clone(&config.grouping)),
            shown: match &beside {
                Some(primary) => Arc::clone(&primary.shown),
                None => Arc::default(),
            },
            labels: OnceLock::new(),
            name: OnceLock::new(),
            quotas,
            admissions: match &beside {
                Some(primary) => Arc::clone(&primary.admissions),
                None => Arc::default(),
            },
            inner: Mutex::new(Inner {
                line: Line::new(config.limits, load, now),
                unwanted: FxHashMap::default(),
                servers: Servers {
                    idle: Vec::new(),
                    suspended: Vec::new(),
                    open_max: config.settings.open_max(),
                    open: 0,
                    opening: 0,
                    checking: 0,
                    grow_not_before: now,
                    waits: WaitSum::default(),
                    backoff: None,
                    starving: None,
                    lifetime_ends_not_before: now,
                    generation: Generation::new(Arc::new(config.address), &signals.closed),
                    past: Vec::new(),
                    no_primary: config.no_primary,
                    hosts: config.hosts,
                },
                admin: AdminControl {
                    state,
                    exclusive: Vec::new(),
                    killed_at: None,
                    disconnect: watch::Sender::new(disconnect),
                },
                replication: ReplicationQueue::default(),
                analyses: Analyses::new(&shared.template_names),
                timer: WaitTimer {
                    runs: false,
                    wakes_at: now,
                    notices_at: now,
                },
                unused_since: None,
            }),
            settings: Arc::new(ArcSwap::from_pointee(config.settings)),
            signals,
            idle_default_ms: AtomicU64::new(0),
            transaction_defaults: ArcSwapOption::empty(),
            clients: AtomicUsize::new(0),
            replication_clients: AtomicUsize::new(0),
            stats: match beside {
                Some(primary) => Arc::clone(&primary.stats),
                None => Arc::default(),
            },
            server_list: ServerList::default(),
            replica: config.replica,
            has_shards: AtomicBool::new(false),
            shard: config.shard,
            shared,
        }
    }

    /// The settings in force; a reload may replace them at any time.
    pub fn settings(&self) -> Guard<Arc<SettingsInForce>> {
        self.settings.load()
    }

    /// The settings for one client, which reads them often.
    pub fn settings_cache(&self) -> SettingsCache {
        SettingsCache::from(Arc::clone(&self.settings))
    }

    /// The server's default of `idle_session_timeout`; zero for none.
    pub fn idle_default(&self) -> Duration {
        Duration::from_millis(self.idle_default_ms.load(Ordering::Relaxed))
    }

    /// The server's defaults for transactions. `None` if the database has one host, or before the first connection to the primary.
    pub fn transaction_defaults(&self) -> Option<TransactionDefaults> {
        self.transaction_defaults.load().as_deref().copied()
    }

    /// Credentials for a server connection outside of the pool, which logs in as the pool does.
    pub fn credentials(&self, address: &Address) -> ServerCredentials {
        self.shared.credentials.of(address, &self.shown)
    }

    /// Shows the pool in the console from the first admission of a client on.
    pub fn set_name(&self, database: &str, user: &str) {
        self.name.get_or_init(|| PoolName {
            database: database.to_owned(),
            user: user.to_owned(),
        });
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
