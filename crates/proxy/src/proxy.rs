//! What all connections share: configuration, templates, pools, counters, and who may be cancelled.

use crate::cancel::Cancels;
use crate::config::Config;
use crate::metrics::PoolLabels;
use crate::pool::Pool;
use crate::room::Rooms;
use crate::server::Address;
use crate::status::Counters;
use arc_swap::{ArcSwap, Guard};
use paceline_line::learned::Policy;
use paceline_line::settings::SettingsBook;
use paceline_line::strategy::chain;
use paceline_line::tally::Names;
use paceline_line::template::Templates;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// State of the process.
pub(crate) struct Proxy {
    config: ArcSwap<Config>,
    /// All templates.
    pub(crate) templates: Templates,
    /// All session settings.
    pub(crate) book: SettingsBook,
    /// The statement that starts every chain.
    pub(crate) chain: chain::Prelude,
    /// Counters.
    pub(crate) counters: Counters,
    /// Room for shared answers.
    pub(crate) rooms: Arc<Rooms>,
    /// Clients by cancel key.
    pub(crate) cancels: Cancels,
    /// Clients that are connected.
    pub(crate) clients: AtomicUsize,
    /// Connections that were accepted, whatever came of them.
    pub(crate) accepted: AtomicU64,
    /// Names for templates in metrics.
    pub(crate) names: Arc<Names>,
    /// Pools that have labels in metrics.
    labelled: AtomicUsize,
    /// When the process began.
    pub(crate) started: SystemTime,
    /// Turns true when the process shuts down.
    pub(crate) closing: watch::Receiver<bool>,
    pools: Mutex<HashMap<(String, String), Arc<Pool>>>,
}

impl Proxy {
    /// With this configuration.
    pub(crate) fn new(config: Config, closing: watch::Receiver<bool>) -> Self {
        let templates = Templates::default();
        Self {
            chain: chain::Prelude::new(&templates),
            templates,
            book: SettingsBook::default(),
            counters: Counters::default(),
            rooms: Arc::default(),
            cancels: Cancels::default(),
            clients: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            names: Arc::default(),
            labelled: AtomicUsize::new(0),
            started: SystemTime::now(),
            closing,
            pools: Mutex::new(HashMap::new()),
            config: ArcSwap::from_pointee(config),
        }
    }

    /// The configuration as it is now; another one may take its place at any time.
    pub(crate) fn config(&self) -> Guard<Arc<Config>> {
        self.config.load()
    }

    /// The pool for a client that names this database and user. `None`: there is no such database here.
    pub(crate) fn pool(self: &Arc<Self>, database: &str, user: &str) -> Option<Arc<Pool>> {
        let config = self.config();
        let (entry, on_server) = config.database(database)?;
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (database.to_owned(), user.to_owned());
        if let Some(pool) = pools.get(&key) {
            return Some(Arc::clone(pool));
        }
        let settings = &config.paceline;
        let policy = Policy {
            hotspot: settings.grouping.hotspot,
            for_autocommit: config.hotspot_for_autocommit(entry, user),
            lock_type: settings.grouping.hotspot_lock_type,
            pipeline: settings.grouping.pipeline,
        };
        let address = Address {
            user: entry
                .primary
                .user
                .clone()
                .unwrap_or_else(|| user.to_owned()),
            upstream: entry.primary.clone(),
            database: on_server,
            startup: entry.startup.clone(),
        };
        let size = config.pool_size(entry, user);
        let pool = Arc::new(Pool::new(Arc::clone(self), address, policy, size));
        pools.insert(key, Arc::clone(&pool));
        Some(pool)
    }

    /// A client that named this database and user has logged in to its pool: from now on metrics show it.
    pub(crate) fn label(&self, pool: &Pool, database: &str, user: &str) {
        pool.labels.get_or_init(|| {
            let earlier = self.labelled.fetch_add(1, Ordering::Relaxed);
            PoolLabels::new(earlier, database, user)
        });
    }

    /// Every pool there is.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.values().map(Arc::clone).collect()
    }
}
