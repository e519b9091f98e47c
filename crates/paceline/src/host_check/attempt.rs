//! One attempt to connect to a server, and its answer about itself.

use paceline_config::{Config, Database, PoolSettings, ServerHost, Upstream};
use paceline_net::optional_timeout;
use paceline_pool::address::Address;
use paceline_pool::credentials::ServerCredentials;
use paceline_pool::keyring::{Keyring, TlsKeys};
use paceline_pool::server::{ServerConn, ServerError, connect};
use paceline_relay::settings::SettingsInterner;
use std::sync::Arc;
use std::time::Duration;

/// Whether a server is in recovery, and its timeline. Without the rights of `pg_monitor`, a server in recovery does not say it.
const STATE: &str = "SELECT pg_catalog.pg_is_in_recovery(), CASE WHEN pg_catalog.pg_is_in_recovery() \
    THEN (SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver) \
    ELSE ('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::int END";

/// The login for one host.
pub(super) struct Attempt {
    /// The database's name for clients, and the host.
    pub(super) about: String,
    pub(super) upstream: Upstream,
    pub(super) database: String,
    pub(super) settings: PoolSettings,
}

impl Attempt {
    pub(super) fn new(config: &Config, name: &str, database: &Database, host: &ServerHost) -> Self {
        let settings = config.database_settings(database);
        let upstream = match database.is_monitored(&settings) {
            true => database.monitor_upstream(host, &settings),
            false => database.upstream_at(host),
        };
        Self {
            about: format!("database {name}, host {host}"),
            upstream,
            database: config.monitor_database(name, database),
            settings,
        }
    }

    /// The answer of the host, and whether it answered.
    pub(super) async fn report(self) -> (String, bool) {
        let about = match &self.upstream.user {
            Some(user) => format!("{} as {user}", self.about),
            None => self.about.clone(),
        };
        match self.answer().await {
            Ok(answer) => (format!("{about}: {answer}"), true),
            Err(error) => (format!("{about}: {error:#}"), false),
        }
    }

    async fn answer(&self) -> anyhow::Result<String> {
        let limit = self.settings.timeouts.server_connect_timeout;
        let address = self.address()?;
        if self.upstream.user.is_none() {
            let opened = optional_timeout(limit, connect(&address)).await;
            opened.ok_or(ServerError::Timeout(limit))??;
            return Ok("reachable; the URL names no user, so no login was tried".to_owned());
        }
        Ok(self.state(&address, limit).await?)
    }

    pub(super) fn address(&self) -> anyhow::Result<Arc<Address>> {
        let keyring = Keyring::default();
        let encryption = &self.settings.encryption;
        keyring.replace(Arc::new(TlsKeys::for_servers(
            encryption,
            [&self.upstream],
        )?));
        Ok(Arc::new(Address {
            keyring: Arc::new(keyring),
            compression: None,
            location: None,
            database: self.database.clone(),
            upstream: self.upstream.clone(),
            user: self.upstream.user.clone().unwrap_or_default(),
            startup: Vec::new(),
            connect_query: String::new(),
            tcp: self.settings.tcp.clone(),
        }))
    }

    pub(super) async fn open(
        &self,
        address: &Arc<Address>,
        limit: Duration,
    ) -> Result<ServerConn, ServerError> {
        let none = SettingsInterner::default().none();
        let credentials = ServerCredentials::by_password(self.upstream.password.as_ref());
        let prepared_max = self.settings.state.max_prepared_statements;
        ServerConn::open_within(limit, address, &credentials, none, prepared_max).await
    }

    /// Logs in and asks for the state.
    async fn state(&self, address: &Arc<Address>, limit: Duration) -> Result<String, ServerError> {
        let mut conn = self.open(address, limit).await?;
        let answered = optional_timeout(limit, conn.query(STATE)).await;
        let results = answered.unwrap_or(Err(ServerError::Timeout(limit)))?;
        conn.terminate();
        let row = results.into_iter().flatten().next().unwrap_or_default();
        let mut columns = row.into_iter().map(Option::unwrap_or_default);
        let in_recovery = columns.next().as_deref() == Some("t");
        let timeline = columns.next().unwrap_or_default();
        Ok(match (in_recovery, timeline.as_str()) {
            (false, timeline) => format!("not in recovery, timeline {timeline}"),
            (true, "") => "in recovery, timeline not known: the server receives no WAL, or the user is not a member of pg_monitor".to_owned(),
            (true, timeline) => format!("in recovery, timeline {timeline}"),
        })
    }
}
