//! What all client connections share.

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

/// The state of the process as clients use it.
pub struct Proxy {
    /// All pools.
    pub pools: Arc<Pools>,
    /// What all pools share.
    pub shared: Arc<Shared>,
    /// What logins of clients need.
    pub auth: AuthState,
    /// Clients by cancel key.
    pub cancel_keys: Arc<CancelKeys>,
    /// Console sessions by cancel key.
    pub console_keys: Arc<ConsoleKeys>,
    /// Cancel requests for other processes.
    pub peers: Peers,
    /// LISTEN by one connection for all clients of a database.
    pub shared_listens: SharedListens,
    /// Addresses to which clients have logged in.
    pub login_addresses: LoginAddresses,
    /// Clients that log in or are logged in.
    pub clients: AtomicUsize,
    /// Connections of clients, logged in or not.
    pub connections: AtomicUsize,
    /// Connections that were accepted since the start.
    pub accepted: AtomicU64,
    /// The start of the process.
    pub started: SystemTime,
    /// The phase of the process.
    pub phase: watch::Sender<Phase>,
}

impl Proxy {
    /// For this configuration, without clients.
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

    /// Whether the process no longer accepts clients.
    pub fn is_shutting_down(&self) -> bool {
        *self.phase.borrow() != Phase::Serving
    }
}
