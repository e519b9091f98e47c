//! The state that all client connections share.

use crate::auth::AuthState;
use crate::cancel::{CancelKeys, ConsoleKeys};
use crate::lifecycle::Phase;
use crate::login_addresses::LoginAddresses;
use crate::peers::Peers;
use crate::shared_listen::SharedListens;
use arc_swap::Guard;
use paceline_config::Config;
use paceline_pool::pools::Pools;
use paceline_pool::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::SystemTime;
use tokio::sync::watch;

/// The state of the process that client connections use.
pub struct Proxy {
    /// All pools.
    pub pools: Arc<Pools>,
    /// The state that all pools share.
    pub shared: Arc<Shared>,
    /// State of the authentication of clients.
    pub auth: AuthState,
    /// Clients by cancel key.
    pub cancel_keys: Arc<CancelKeys>,
    /// Console sessions by cancel key.
    pub console_keys: Arc<ConsoleKeys>,
    /// Cancel requests that are forwarded to other processes.
    pub peers: Peers,
    /// The shared LISTEN connections, one per database.
    pub(crate) shared_listens: SharedListens,
    /// Addresses to which clients have logged in.
    pub login_addresses: LoginAddresses,
    /// Number of clients that are logged in or logging in.
    pub clients: AtomicUsize,
    /// Number of client connections, logged in or not.
    pub connections: AtomicUsize,
    /// Number of connections accepted since the start.
    pub accepted: AtomicU64,
    /// Start time of the process.
    pub started: SystemTime,
    /// Number of threads that serve sockets.
    pub worker_threads: usize,
    /// The phase of the process.
    pub phase: watch::Sender<Phase>,
}

impl Proxy {
    /// Creates the state for this configuration, without clients.
    pub fn new(config: Config) -> Self {
        let config = Arc::new(config);
        let pools = Pools::new(Arc::clone(&config));
        let shared = Arc::clone(&pools.shared);
        Self {
            auth: AuthState::new(&config, Arc::clone(&shared)),
            pools,
            shared,
            cancel_keys: Arc::default(),
            console_keys: Arc::default(),
            peers: Peers::default(),
            shared_listens: SharedListens::new(),
            login_addresses: LoginAddresses::default(),
            clients: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            started: SystemTime::now(),
            worker_threads: 1,
            phase: watch::Sender::default(),
        }
    }

    /// The configuration in force; a reload may replace it at any time.
    pub fn config(&self) -> Guard<Arc<Config>> {
        self.shared.config()
    }

    /// Replaces the configuration of all pools.
    pub fn set_config(&self, config: Arc<Config>) {
        self.pools.set_config(config);
        self.shared_listens.reconfigure();
    }

    /// Disconnects clients that listen by the shared connection when the primary of their database changes: they may have missed
    /// notifications. Runs as long as the process.
    pub async fn follow_primaries(self: Arc<Self>) {
        let mut changes = self.pools.primary_changes();
        while changes.changed().await.is_ok() {
            self.shared_listens.reconfigure();
        }
    }

    /// Whether the process no longer accepts clients.
    pub fn is_shutting_down(&self) -> bool {
        *self.phase.borrow() != Phase::Serving
    }
}
