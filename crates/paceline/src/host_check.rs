//! `paceline check FILE --connect`: connects to every host of each database, and reports what each one answers.

use paceline_config::{Config, Database, PoolSettings, ServerHost, Subscriber, Upstream};
use paceline_net::optional_timeout;
use paceline_pool::address::Address;
use paceline_pool::credentials::ServerCredentials;
use paceline_pool::hosts::{ask_both, subscriber_spec};
use paceline_pool::keyring::{Keyring, TlsKeys};
use paceline_pool::server::{ServerConn, ServerError, connect};
use paceline_relay::settings::SettingsInterner;
use std::sync::Arc;
use std::time::Duration;

/// Whether a server is in recovery, and its timeline. Without the rights of `pg_monitor`, a server in recovery does not say it.
const STATE: &str = "SELECT pg_catalog.pg_is_in_recovery(), CASE WHEN pg_catalog.pg_is_in_recovery() \
    THEN (SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver) \
    ELSE ('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::int END";

/// What the hosts answered.
pub(crate) struct HostsReport {
    /// One line for each host of each database, then one for each subscriber.
    pub(crate) lines: Vec<String>,
    /// Whether every host let Paceline in and answered.
    pub(crate) all_answered: bool,
}

/// How to reach one host.
struct Attempt {
    /// The database's name for clients, and the host.
    about: String,
    upstream: Upstream,
    database: String,
    settings: PoolSettings,
}

/// Connects to every host and every subscriber of each database at the same time.
pub(crate) async fn check_hosts(config: &Config) -> HostsReport {
    let attempts = config.databases.iter().flat_map(|(name, database)| {
        let hosts = database.all_hosts();
        hosts.map(|host| Attempt::new(config, name, database, &host))
    });
    let hosts = attempts.map(|attempt| tokio::spawn(attempt.report()));
    let subscribers = config.databases.iter().flat_map(|(name, database)| {
        let all = database.subscribers.iter();
        all.map(|subscriber| SubscriberAttempt::new(config, name, database, subscriber))
    });
    let subscribers = subscribers.map(|attempt| tokio::spawn(attempt.report()));
    let tasks: Vec<_> = hosts.chain(subscribers).collect();
    let mut report = HostsReport {
        lines: Vec::new(),
        all_answered: true,
    };
    for task in tasks {
        let (line, answered) = task
            .await
            .unwrap_or_else(|error| (error.to_string(), false));
        report.lines.push(line);
        report.all_answered &= answered;
    }
    report
}

impl Attempt {
    fn new(config: &Config, name: &str, database: &Database, host: &ServerHost) -> Self {
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

    /// What the host answers, and whether it did.
    async fn report(self) -> (String, bool) {
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

    fn address(&self) -> anyhow::Result<Arc<Address>> {
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

    async fn open(
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

/// How to reach a subscriber, and the hosts one of which is its primary.
struct SubscriberAttempt {
    own: Attempt,
    hosts: Vec<Attempt>,
    subscriber: Subscriber,
}

impl SubscriberAttempt {
    fn new(config: &Config, name: &str, database: &Database, subscriber: &Subscriber) -> Self {
        let settings = config.database_settings(database);
        let upstream = database.subscriber_upstream(subscriber);
        let own = Attempt {
            about: format!("database {name}, subscriber {}", subscriber.at),
            upstream: database.with_monitor_login(upstream, &settings),
            database: config.subscriber_database(name, database, subscriber),
            settings,
        };
        let hosts = database.all_hosts();
        Self {
            own,
            hosts: hosts
                .map(|host| Attempt::new(config, name, database, &host))
                .collect(),
            subscriber: subscriber.clone(),
        }
    }

    /// What the subscriber answers, and whether it and the primary did.
    async fn report(self) -> (String, bool) {
        let about = &self.own.about;
        match self.compare().await {
            Ok(found) => (format!("{about}: {found}"), true),
            Err(error) => (format!("{about}: {error:#}"), false),
        }
    }

    /// Compares the subscriber with the primary.
    async fn compare(&self) -> anyhow::Result<String> {
        let limit = self.own.settings.timeouts.server_connect_timeout;
        let mut own = self.own.open(&self.own.address()?, limit).await?;
        for host in &self.hosts {
            // The line of a host says what is wrong with it.
            let Ok(mut primary) = host.open(&host.address()?, limit).await else {
                continue;
            };
            let asking = ask_both(&mut own, &mut primary, &self.subscriber, &[]);
            let asked = optional_timeout(limit, asking).await;
            let report = asked.ok_or(ServerError::Timeout(limit))??;
            primary.terminate();
            if report.primary.in_recovery {
                continue;
            }
            own.terminate();
            let checked = subscriber_spec(&self.subscriber).check(&report, None);
            return Ok(match checked {
                Ok(tables) => format!("may serve reads of {} tables", tables.tables().len()),
                Err(reason) => format!("serves no reads: {reason}"),
            });
        }
        anyhow::bail!("no primary answers, with which the subscriber could be compared")
    }
}
