//! What all connections share: configuration, templates, pools, counters, and who may be cancelled.

#[cfg(test)]
mod tests;

use crate::auth::Gate;
use crate::cancel::Cancels;
use crate::console::Operators;
use crate::control::{ConfigSnapshot, Origin, Phase, Standings, Token};
use crate::keyring::Keyring;
use crate::log;
use crate::metrics::{LetIn, PoolLabels};
use crate::peers::Peers;
use crate::pool::{Hold, Place, Pool, QuotaBook, Shape, Use};
use crate::presence::Clock;
use crate::room::Rooms;
use crate::server::Address;
use crate::shared_listen::SharedListens;
use crate::stats::Periods;
use crate::status::Counters;
use arc_swap::{ArcSwap, Guard};
use paceline_batch::learned::Policy;
use paceline_batch::line::Limits;
use paceline_batch::strategy::Prelude;
use paceline_batch::tally::Names;
use paceline_config::{Config, Database};
use paceline_net::busy_poll::BusyPoll;
use paceline_relay::settings::SettingsBook;
use paceline_relay::template::{Templates, Unparsed};
use paceline_wire::ErrorResponse;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};
use tokio::sync::{Notify, Semaphore, watch};

/// Pools to ask on that are kept, used or not. Who may name any database could fill the memory with them.
const ASKERS_MAX: usize = 256;

/// Threads that parse long texts. A client waits in order of arrival; whoever has no long text need not wait.
const PARSERS: usize = 1;

/// Most reads in a pipeline.
const PIPELINE_DEPTH_MAX: usize = 32;

/// State of the process.
pub(crate) struct Proxy {
    config: ArcSwap<Config>,
    /// Logins of clients.
    pub(crate) gate: Gate,
    /// All templates.
    pub(crate) templates: Templates,
    /// So many long texts are parsed at a time.
    parsers: Semaphore,
    /// All session settings.
    pub(crate) book: SettingsBook,
    /// The statement that starts every chain.
    pub(crate) chain: Prelude,
    /// Counters.
    pub(crate) counters: Counters,
    /// Room for shared answers.
    pub(crate) rooms: Arc<Rooms>,
    /// Keys and certificates.
    pub(crate) keyring: Arc<Keyring>,
    /// LISTEN by one connection for all clients of a database.
    pub(crate) shared_listens: SharedListens,
    /// Clients by cancel key.
    pub(crate) cancels: Cancels,
    /// Users of the console.
    pub(crate) operators: Operators,
    /// Cancel requests on their way to other processes.
    pub(crate) peers: Peers,
    /// Clients that are connected.
    pub(crate) clients: AtomicUsize,
    /// Connections of clients that are there, logged in or not.
    pub(crate) visitors: AtomicUsize,
    /// Connections that were accepted, whatever came of them.
    pub(crate) accepted: AtomicU64,
    /// Names for templates in metrics.
    pub(crate) names: Arc<Names>,
    /// Pools that have labels in metrics.
    labelled: AtomicUsize,
    /// As whom clients have logged in to servers.
    pub(crate) let_in: LetIn,
    /// Keeps the event loop awake while messages come.
    pub(crate) busy_poll: BusyPoll,
    /// The time to a second, for what is shown of clients and servers.
    pub(crate) clock: Clock,
    /// When the averages of `SHOW STATS` began.
    pub(crate) periods: Periods,
    /// Numbers of server connections that were given.
    pub(crate) server_ids: AtomicU32,
    /// When the process began.
    pub(crate) started: SystemTime,
    /// How many connections and clients each database and user has.
    pub(crate) quotas: QuotaBook,
    /// Does the process serve, or come to its end?
    pub(crate) phase: watch::Sender<Phase>,
    /// Where the configuration comes from, to be read again.
    pub(crate) origin: Origin,
    /// To those who wait for the end of an order: another one has been given.
    pub(crate) ordered: Notify,
    pools: Mutex<Pools>,
}

/// Every pool, and what operators have ordered: one lock, so that a pool that is new is held as the others are.
#[derive(Default)]
struct Pools {
    /// By the database and user that clients name.
    by_name: Named,
    /// Those on which `auth_user` asks for the users of a database, as clients name it.
    askers: Named,
    standings: Standings,
    /// Databases that statements need without other sessions; may name statements that are over.
    uses: Vec<(Place, Weak<Use>)>,
}

/// Pools by database and user.
type Named = HashMap<(String, String), Arc<Pool>>;

impl Pools {
    /// A new pool learns of statements that need its database without other sessions.
    fn exclude(&self, pool: &Pool) {
        for (place, running) in &self.uses {
            if place.is_at(&pool.address()) {
                pool.exclude(running);
            }
        }
    }

    /// All of them, with the databases that operators know them by.
    fn all(&self) -> impl Iterator<Item = (&str, &Arc<Pool>)> {
        let all = self.by_name.iter().chain(&self.askers);
        all.map(|((database, _), pool)| (database.as_str(), pool))
    }
}

impl Proxy {
    /// With this configuration.
    pub(crate) fn new(config: Config) -> Self {
        let (templates, config) = (Templates::default(), Arc::new(config));
        Self {
            gate: Gate::new(&config),
            chain: Prelude::new(&templates),
            templates,
            parsers: Semaphore::new(PARSERS),
            book: SettingsBook::default(),
            counters: Counters::default(),
            rooms: Arc::default(),
            busy_poll: BusyPoll::default(),
            keyring: Arc::default(),
            shared_listens: SharedListens::new(),
            cancels: Cancels::default(),
            peers: Peers::default(),
            operators: Operators::default(),
            clients: AtomicUsize::new(0),
            visitors: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            names: Arc::default(),
            labelled: AtomicUsize::new(0),
            let_in: LetIn::default(),
            clock: Clock::default(),
            periods: Periods::new(Instant::now()),
            server_ids: AtomicU32::new(0),
            started: SystemTime::now(),
            quotas: QuotaBook::default(),
            phase: watch::Sender::default(),
            origin: Origin::default(),
            ordered: Notify::new(),
            pools: Mutex::default(),
            config: ArcSwap::new(config),
        }
    }

    /// Parses a long text where nobody waits but its client.
    pub(crate) async fn parse(self: &Arc<Self>, unparsed: Unparsed) {
        let Ok(_turn) = self.parsers.acquire().await else {
            return;
        };
        let (proxy, text) = (Arc::clone(self), unparsed.clone());
        let parsed = tokio::task::spawn_blocking(move || proxy.templates.parse(&text));
        if let Err(error) = parsed.await {
            tracing::warn!(%error, "a text could not be parsed");
            self.templates.give_up(&unparsed);
        }
    }

    /// The configuration as it is now; another one may take its place at any time.
    pub(crate) fn config(&self) -> Guard<Arc<Config>> {
        self.config.load()
    }

    /// The active configuration. Only the holder of the reload lock may replace it.
    pub(crate) fn config_snapshot(&self) -> ConfigSnapshot {
        ConfigSnapshot {
            config: Arc::clone(&self.config()),
            records: self.gate.records(),
            keys: self.keyring.keys(),
            log: None,
        }
    }

    /// Replaces the active configuration, as a whole.
    pub(crate) fn apply(self: &Arc<Self>, snapshot: ConfigSnapshot) {
        let (before, keys) = (self.keyring.keys(), snapshot.keys);
        self.keyring.replace(Arc::clone(&keys));
        self.gate.hold(&snapshot.config, &snapshot.records);
        if let Some(targets) = snapshot.log {
            log::write_to(targets);
        }
        log::set_verbose(snapshot.config.paceline.logging.verbose);
        self.set_config(snapshot.config);
        // Connections that were encrypted otherwise, or not at all, are replaced.
        let pools = self.pools();
        let stale = |pool: &&Arc<Pool>| !keys.agree(&before, &pool.address().upstream);
        pools.iter().filter(stale).for_each(Pool::reconnect);
    }

    fn lock(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another configuration takes the place of this one; pools follow it at once. A database that is not in it any more
    /// goes on for the clients that it has.
    pub(crate) fn set_config(self: &Arc<Self>, config: Arc<Config>) {
        self.config.store(config);
        let pools = self.lock();
        let config = self.config();
        for ((database, user), pool) in &pools.by_name {
            if let Some((entry, on_server)) = config.database(database) {
                pool.reshape(self.shape(&config, entry, on_server, user));
            }
        }
        for ((database, user), pool) in &pools.askers {
            if let Some((entry, on_server)) = config.database(database) {
                pool.reshape(self.shape_of_asker(&config, entry, on_server, user));
            }
        }
        drop(pools);
        self.shared_listens.reconfigure();
    }

    /// The pool for a client that names this database and user. `None`: there is no such database here.
    pub(crate) fn pool(self: &Arc<Self>, database: &str, user: &str) -> Option<Arc<Pool>> {
        // The lock comes first: a new pool has the configuration of its time, or is there when that changes.
        let mut pools = self.lock();
        let config = self.config();
        let (entry, on_server) = config.database(database)?;
        let key = (database.to_owned(), user.to_owned());
        if let Some(pool) = pools.by_name.get(&key) {
            pool.is_wanted();
            return Some(Arc::clone(pool));
        }
        let shape = self.shape(&config, entry, on_server, user);
        let hold = pools.standings.hold(database);
        let pool = self.new_pool(database, user, shape, hold);
        pools.exclude(&pool);
        pools.by_name.insert(key, Arc::clone(&pool));
        Some(pool)
    }

    /// The pool on which `user` asks for users of a database. `None`: there is no such database here.
    pub(crate) fn asker(self: &Arc<Self>, database: &str, user: &str) -> Option<Arc<Pool>> {
        let mut pools = self.lock();
        let config = self.config();
        let (entry, on_server) = config.database(database)?;
        let key = (database.to_owned(), user.to_owned());
        if let Some(pool) = pools.askers.get(&key) {
            return Some(Arc::clone(pool));
        }
        if pools.askers.len() >= ASKERS_MAX {
            pools.askers.retain(|_, pool| Arc::strong_count(pool) > 1);
        }
        let shape = self.shape_of_asker(&config, entry, on_server, user);
        let hold = pools.standings.hold(database);
        let pool = self.new_pool(database, user, shape, hold);
        pools.exclude(&pool);
        pools.askers.insert(key, Arc::clone(&pool));
        Some(pool)
    }

    /// Databases that are not listed are forgotten when nobody has used any pool of theirs for `autodb_idle_timeout`: there is
    /// no end to the names that clients invent.
    pub(crate) fn forget_unused(&self) {
        let config = self.config();
        let limit = config.paceline.timeouts.autodb_idle_timeout;
        if limit.is_zero() {
            return;
        }
        let mut pools = self.lock();
        let goes = |database: &str, pool: &Arc<Pool>| {
            // Who has come for it since has it already.
            config.listed(database).is_none()
                && Arc::strong_count(pool) == 1
                && pool.unused_for().is_some_and(|time| time >= limit)
        };
        let stay = pools.by_name.iter();
        let stay = stay.filter(|((database, _), pool)| !goes(database, pool));
        let stay: BTreeSet<String> = stay.map(|((database, _), _)| database.clone()).collect();
        let gone = pools
            .by_name
            .extract_if(|(name, _), _| !stay.contains(name));
        let gone: Vec<_> = gone.collect();
        let labelled = gone.iter().filter(|(_, pool)| pool.labels.get().is_some());
        self.labelled.fetch_sub(labelled.count(), Ordering::Relaxed);
        // What they knew is dropped when others need not wait for it.
        drop(pools);
    }

    fn new_pool(
        self: &Arc<Self>,
        database: &str,
        user: &str,
        shape: Shape,
        hold: Hold,
    ) -> Arc<Pool> {
        let quotas = self.quotas.of(database, user, &shape.address.user);
        Arc::new(Pool::new(Arc::clone(self), shape, quotas, hold))
    }

    /// A statement needs a database without other sessions: pools that are there or come while it runs know.
    pub(crate) fn uses(&self, place: Place, running: &Weak<Use>) {
        let mut pools = self.lock();
        for (_, pool) in pools.all() {
            if place.is_at(&pool.address()) {
                pool.exclude(running);
            }
        }
        pools.uses.retain(|(_, other)| other.strong_count() > 0);
        pools.uses.push((place, Weak::clone(running)));
    }

    /// Lets clients of a database in.
    ///
    /// # Errors
    /// It is disabled.
    pub(crate) fn admit(&self, database: &str) -> Result<(), ErrorResponse> {
        self.lock().standings.admit(database)
    }

    /// Gives an order about databases. Every pool is held as it says when this returns.
    pub(crate) fn order<T>(&self, order: impl FnOnce(&mut Standings) -> T) -> T {
        let mut pools = self.lock();
        let outcome = order(&mut pools.standings);
        for (database, pool) in pools.all() {
            pool.hold(pools.standings.hold(database));
        }
        self.ordered.notify_waiters();
        outcome
    }

    /// How the pools of a database are held, or of all.
    pub(crate) fn hold_of(&self, database: Option<&str>) -> Hold {
        let pools = self.lock();
        match database {
            Some(database) => pools.standings.hold(database),
            None => pools.standings.hold_of_all(),
        }
    }

    /// Have operators ordered anything of this database alone?
    pub(crate) fn is_ordered(&self, database: &str) -> bool {
        self.lock().standings.names(database)
    }

    /// Is this order to pause or suspend in force?
    pub(crate) fn order_holds(&self, token: Token) -> bool {
        self.lock().standings.holds(token)
    }

    /// The pools of a database, or of all; those on which Paceline itself asks for users are among them.
    pub(crate) fn pools_of(&self, wanted: Option<&str>) -> Vec<Arc<Pool>> {
        let pools = self.lock();
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted == name);
        let found = pools.all().filter(|(name, _)| is_wanted(name));
        found.map(|(_, pool)| Arc::clone(pool)).collect()
    }

    /// Databases that have a pool, as clients name them.
    pub(crate) fn databases_in_use(&self) -> BTreeSet<String> {
        let pools = self.lock();
        let names = pools.all().map(|(database, _)| database.to_owned());
        names.collect()
    }

    /// The process comes to its end.
    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.phase.borrow() != Phase::Serving
    }

    /// A client that named this database and user has logged in to its pool: from now on metrics show it.
    pub(crate) fn label(&self, pool: &Pool, database: &str, user: &str) {
        self.let_in.add(pool.address());
        pool.labels.get_or_init(|| {
            let earlier = self.labelled.fetch_add(1, Ordering::Relaxed);
            PoolLabels::new(earlier, database, user)
        });
    }

    /// Every pool there is.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        self.pools_of(None)
    }

    /// What it says of a pool on which `user` asks for users; nothing travels together there.
    fn shape_of_asker(
        &self,
        config: &Config,
        database: &Database,
        on_server: String,
        user: &str,
    ) -> Shape {
        let mut shape = self.shape(config, database, on_server, user);
        user.clone_into(&mut shape.address.user);
        shape.policy = Policy {
            hotspot: false,
            for_autocommit: false,
            lock_type: false,
            pipeline: false,
        };
        shape
    }

    /// What the configuration says of the pool of this user (as the client names itself) on a database.
    fn shape(&self, config: &Config, database: &Database, on_server: String, user: &str) -> Shape {
        let upstream = database.primary.clone();
        let grouping = &config.paceline.grouping;
        let settings = config.pool_settings(database, user);
        Shape {
            address: Address {
                user: upstream.user.clone().unwrap_or_else(|| user.to_owned()),
                upstream,
                database: on_server,
                startup: database.startup.clone(),
                connect_query: database.connect_query.clone(),
                tcp: config.paceline.tcp.clone(),
                keyring: Arc::clone(&self.keyring),
            },
            policy: Policy {
                hotspot: grouping.hotspot,
                for_autocommit: settings.grouping.hotspot_for_autocommit,
                lock_type: grouping.hotspot_lock_type,
                pipeline: grouping.pipeline,
            },
            limits: Limits {
                group_size_max: grouping.group_size_max,
                pipeline_depth_max: PIPELINE_DEPTH_MAX,
                max_wait: grouping.hotspot_update_max_wait_time,
                query_timeout: settings.timeouts.query_timeout,
            },
            settings: settings.into(),
        }
    }
}
