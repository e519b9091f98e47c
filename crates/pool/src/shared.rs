//! The state that all pools of the process share.

use crate::clock::CoarseClock;
use crate::compression::Compressors;
use crate::counters::Counters;
use crate::credentials::CredentialStore;
use crate::keyring::Keyring;
use crate::quota::QuotaBook;
use crate::result_memory::ResultMemory;
use crate::server_loads::ServerLoads;
use crate::traces::Traces;
use arc_swap::{ArcSwap, Guard};
use paceline_batch::strategy::Prelude;
use paceline_batch::template_stats::NameQuota;
use paceline_config::Config;
use paceline_net::busy_poll::BusyPoll;
use paceline_relay::relay::Ddl;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::{Templates, Unparsed};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::sync::Semaphore;

/// Long texts that are parsed at a time. Clients with long texts wait in the order of their arrival; others do not wait.
const PARSERS: usize = 1;

/// The state that all pools share.
pub struct Shared {
    config: ArcSwap<Config>,
    /// All templates.
    pub templates: Templates,
    parsers: Semaphore,
    /// All session settings.
    pub settings_interner: SettingsInterner,
    /// The statement that starts every chain.
    pub(crate) chain: Prelude,
    /// Counters of the process.
    pub counters: Counters,
    /// Memory for shared answers.
    pub result_memory: Arc<ResultMemory>,
    /// Keys and certificates.
    pub keyring: Arc<Keyring>,
    /// Compressors of connections.
    pub compressors: Arc<Compressors>,
    /// Spans of requests and groups.
    pub traces: Traces,
    /// Credentials for logins to servers.
    pub credentials: CredentialStore,
    /// Names of templates in metrics.
    pub(crate) template_names: Arc<NameQuota>,
    /// Keeps the event loop awake while messages arrive.
    pub busy_poll: BusyPoll,
    /// The time that the console shows.
    pub clock: CoarseClock,
    /// Connections by database and user.
    pub(crate) quotas: QuotaBook,
    /// Loads by server.
    pub(crate) server_loads: ServerLoads,
    /// Questions to hosts for their positions.
    pub(crate) positions_asked: Arc<AtomicU64>,
    server_ids: AtomicU32,
    /// See [`Shared::last_ddl`].
    pub(crate) last_ddl: Arc<AtomicU64>,
    /// See [`Shared::last_redefinition`].
    last_redefinition: AtomicU64,
}

impl Shared {
    /// For this configuration.
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let templates = Templates::default();
        let credentials = CredentialStore::default();
        credentials.reset_commands(config.paceline.timeouts.server_connect_timeout);
        Self {
            traces: Traces::new(&config.paceline.traces),
            config: ArcSwap::new(config),
            chain: Prelude::new(&templates),
            templates,
            parsers: Semaphore::new(PARSERS),
            settings_interner: SettingsInterner::default(),
            counters: Counters::default(),
            result_memory: Arc::default(),
            keyring: Arc::default(),
            compressors: Arc::default(),
            credentials,
            template_names: Arc::default(),
            busy_poll: BusyPoll::default(),
            clock: CoarseClock::default(),
            quotas: QuotaBook::default(),
            server_loads: ServerLoads::default(),
            positions_asked: Arc::default(),
            server_ids: AtomicU32::new(0),
            last_ddl: Arc::default(),
            last_redefinition: AtomicU64::new(0),
        }
    }

    /// The configuration in force; a reload may replace it at any time.
    pub fn config(&self) -> Guard<Arc<Config>> {
        self.config.load()
    }

    pub(crate) fn set_config(&self, config: Arc<Config>) {
        self.traces.set_config(&config.paceline.traces);
        let limit = config.paceline.timeouts.server_connect_timeout;
        self.credentials.reset_commands(limit);
        self.config.store(config);
    }

    /// The number of a new server connection.
    pub(crate) fn next_server_id(&self) -> u32 {
        self.server_ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that a transaction which may have changed the catalog has ended. Its client has not received the answer yet.
    pub fn ddl_ended(&self, ddl: Ddl) {
        let now = self.templates.new_id();
        self.last_ddl.fetch_max(now, Ordering::Relaxed);
        if ddl == Ddl::Meanings {
            self.last_redefinition.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// The end of the last transaction of a client that may have changed what the names of a statement mean, in the same numbers. An
    /// analysis that began later found the changes.
    pub(crate) fn last_redefinition(&self) -> u64 {
        self.last_redefinition.load(Ordering::Relaxed)
    }

    /// The end of the last transaction of a client that may have changed the catalog of any database, in the numbers of
    /// [`Templates::new_id`]. A `Parse` that was written later found the changes.
    pub fn last_ddl(&self) -> u64 {
        self.last_ddl.load(Ordering::Relaxed)
    }

    /// Parses a long text outside of the event loop.
    pub async fn parse(self: &Arc<Self>, unparsed: Unparsed) {
        let Ok(_turn) = self.parsers.acquire().await else {
            return;
        };
        let (shared, text) = (Arc::clone(self), unparsed.clone());
        let parsed = tokio::task::spawn_blocking(move || shared.templates.parse(&text));
        if let Err(error) = parsed.await {
            tracing::warn!(%error, "a text could not be parsed");
            self.templates.give_up(&unparsed);
        }
    }
}
