//! `paceline check FILE --connect`: connects to every host of each database, and reports the answers.

mod attempt;
mod shards;

use crate::cli::Explain;
use attempt::Attempt;
use paceline_config::{Config, Database, PoolSettings, Subscriber, Upstream};
use paceline_net::optional_timeout;
use paceline_pool::hosts::{ask_both, subscriber_spec};
use paceline_pool::server::ServerError;
use paceline_shards::ShardMap;
use shards::ShardsAttempt;
use std::sync::Arc;

/// The answers of the hosts.
pub(crate) struct HostsReport {
    /// One line for each host of each database, then one for each subscriber, then the map of the shards.
    pub(crate) lines: Vec<String>,
    /// Whether every host let Paceline in and answered.
    pub(crate) all_answered: bool,
}

/// Connects to every host, every subscriber and every shard of each database at the same time.
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
    let shards = config.databases.iter();
    let shards = shards.filter_map(|(name, database)| ShardsAttempt::new(config, name, database));
    let shards: Vec<_> = shards
        .map(|attempt| tokio::spawn(attempt.report()))
        .collect();
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
    for task in shards {
        let (lines, answered) = task
            .await
            .unwrap_or_else(|error| (vec![error.to_string()], false));
        report.lines.extend(lines);
        report.all_answered &= answered;
    }
    report
}

/// The map of the shards of a database, as the front end would read it, with the privileges of a role. `upstream` has the login that
/// reads the catalog.
///
/// # Errors
/// The coordinator cannot be reached, or does not answer.
pub(crate) async fn shard_map(
    upstream: Upstream,
    database: String,
    explain: &Explain,
    role: &str,
) -> anyhow::Result<Arc<dyn ShardMap>> {
    let attempt = ShardsAttempt::at(
        upstream,
        database,
        PoolSettings::from(explain.settings.clone()),
        explain.shard_servers.clone(),
        explain.connect_query.clone(),
    );
    let reading = attempt.read(&[role.to_owned()]).await?;
    Ok(reading.map)
}

/// The logins for a subscriber, and for the hosts one of which is its primary.
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

    /// The answer of the subscriber, and whether it and the primary answered.
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
            // The line of a host has its problem.
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
