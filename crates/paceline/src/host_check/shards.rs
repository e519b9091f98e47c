//! The map of a database's shards: the shards that may execute statements, and the reasons why other statements stay on the coordinator.

use super::attempt::Attempt;
use paceline_config::{Config, Database, PoolSettings, ShardServer, Shards, Upstream};
use paceline_net::optional_timeout;
use paceline_pool::server::ServerError;
use paceline_pool::shards::{
    CoordinatorAnswer, KnownDefinitions, MapReading, ShardAnswer, ShardQuestion, ask_coordinator,
    ask_shard, shard_questions, unreachable,
};
use paceline_shards::{Leaf, Placement, ServerProblem, ShardMap, ShardedTable};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Partitions that a line names; it counts the others.
const NAMED_MAX: usize = 3;

/// The logins for the coordinator of a database: one of its hosts.
pub(super) struct ShardsAttempt {
    database: String,
    hosts: Vec<Attempt>,
    servers: Vec<ShardServer>,
    connect_query: String,
}

impl ShardsAttempt {
    /// `None` if Paceline looks for no shards of the database, or if clients name the database.
    pub(super) fn new(config: &Config, name: &str, database: &Database) -> Option<Self> {
        let settings = config.database_settings(database);
        let is_wanted =
            settings.servers.shards == Shards::Auto && name != paceline_config::ANY_DATABASE;
        let attempt = |host| Attempt {
            upstream: database.monitor_upstream(&host, &settings),
            ..Attempt::new(config, name, database, &host)
        };
        is_wanted.then(|| Self {
            database: name.to_owned(),
            hosts: database.all_hosts().map(attempt).collect(),
            servers: database.shard_servers.clone(),
            connect_query: database.connect_query.clone(),
        })
    }

    /// The same for the server of `paceline explain`.
    pub(super) fn at(
        upstream: Upstream,
        database: String,
        settings: PoolSettings,
        servers: Vec<ShardServer>,
        connect_query: String,
    ) -> Self {
        let about = String::new();
        let host = Attempt {
            about,
            upstream,
            database: database.clone(),
            settings,
        };
        Self {
            database,
            hosts: vec![host],
            servers,
            connect_query,
        }
    }

    /// Lines that show the map, and whether all servers have answered.
    pub(super) async fn report(self) -> (Vec<String>, bool) {
        let about = format!("database {}", self.database);
        let user = |host: &Attempt| host.upstream.user.clone();
        let roles: Vec<String> = self.hosts.iter().find_map(user).into_iter().collect();
        match self.read(&roles).await {
            Ok(reading) => {
                let map = &*reading.map;
                let answered = |server: &paceline_shards::ShardServer| {
                    !matches!(server.problem, Some(ServerProblem::Unreachable(_)))
                };
                let lines = describe(map).into_iter();
                let lines = lines.map(|line| format!("{about}, {line}")).collect();
                (lines, map.servers().iter().all(answered))
            }
            Err(error) => (vec![format!("{about}, shards: {error:#}")], false),
        }
    }

    /// Reads the map, with the privileges of these roles.
    pub(super) async fn read(&self, roles: &[String]) -> anyhow::Result<MapReading> {
        for host in &self.hosts {
            let limit = host.settings.timeouts.server_connect_timeout;
            // The line of a host has its problem.
            let Ok(mut conn) = host.open(&host.address()?, limit).await else {
                continue;
            };
            let mut known = KnownDefinitions::new();
            let asking = ask_coordinator(&mut conn, None, roles, &mut known, limit);
            let asked = optional_timeout(limit, asking).await;
            let answer = asked.ok_or(ServerError::Timeout(limit))??;
            conn.terminate();
            if answer.is_in_recovery() {
                continue;
            }
            let answer = answer.with_connect_query(&self.connect_query);
            return Ok(self.ask_shards(answer, host, limit).await);
        }
        anyhow::bail!("no coordinator answers")
    }

    async fn ask_shards(
        &self,
        answer: CoordinatorAnswer,
        host: &Attempt,
        limit: Duration,
    ) -> MapReading {
        let mut shards = Vec::new();
        for question in shard_questions(&answer, &self.servers, &host.upstream.host) {
            let found = match question.upstreams.clone() {
                Ok(upstreams) => ask_primary(&question, upstreams, host, limit).await,
                Err(problem) => Err(problem),
            };
            shards.push((question, found));
        }
        MapReading::new(answer, shards)
    }
}

/// Asks the host of a shard that is no replica. If there is none, the answer is that of the last host.
async fn ask_primary(
    question: &ShardQuestion,
    upstreams: Vec<Upstream>,
    host: &Attempt,
    limit: Duration,
) -> Result<ShardAnswer, ServerProblem> {
    let mut last = Err(ServerProblem::NoOption("host"));
    for upstream in upstreams {
        last = ask(question, upstream, host, limit).await;
        if last.as_ref().is_ok_and(|answer| !answer.is_in_recovery()) {
            break;
        }
    }
    last
}

async fn ask(
    question: &ShardQuestion,
    upstream: Upstream,
    host: &Attempt,
    limit: Duration,
) -> Result<ShardAnswer, ServerProblem> {
    let attempt = Attempt {
        about: String::new(),
        database: upstream.dbname.clone().unwrap_or_default(),
        upstream,
        settings: host.settings.clone(),
    };
    let address = attempt.address();
    let address = address.map_err(|error| ServerProblem::Unreachable(error.to_string()))?;
    let asking = async {
        let mut conn = attempt.open(&address, limit).await?;
        let (tables, users) = (&question.tables, &question.users);
        let asking = ask_shard(&mut conn, None, tables, users, HashMap::new(), limit);
        let asked = optional_timeout(limit, asking).await;
        let answer = asked.ok_or(ServerError::Timeout(limit))??;
        conn.terminate();
        Ok(answer)
    };
    asking
        .await
        .map_err(|error: ServerError| unreachable(&error))
}

/// The servers, and the tables with their partitions.
fn describe(map: &dyn ShardMap) -> Vec<String> {
    let mut lines = Vec::new();
    for server in map.servers() {
        lines.push(match &server.problem {
            None => format!("shard {server}: may execute statements"),
            Some(problem) => format!("shard {server}: executes no statements: {problem}"),
        });
    }
    for table in map.tables() {
        lines.extend(of_table(map, table));
    }
    if map.tables().is_empty() {
        lines.push("shards: no partitioned table has a foreign table among its partitions".into());
    }
    lines
}

fn of_table(map: &dyn ShardMap, table: &ShardedTable) -> Vec<String> {
    let about = format!("sharded table {}", table.name);
    if let Some(problem) = &table.problem {
        return vec![format!("{about}: stays on the coordinator: {problem}")];
    }
    let key = table.key_columns().iter();
    let key: Vec<String> = key
        .map(|column| format!("{} {}", column.name, column.key_type))
        .collect();
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut problems = BTreeMap::<String, Vec<&Leaf>>::new();
    for leaf in table.leaves() {
        match &leaf.placement {
            Placement::Shard(shard) => {
                let server = map.server(shard.server).map_or("?", |server| &server.name);
                *counts.entry(server).or_default() += 1;
            }
            Placement::Coordinator => *counts.entry("the coordinator").or_default() += 1,
            Placement::Unfit(problem) => {
                problems.entry(problem.to_string()).or_default().push(leaf);
            }
        }
    }
    let counts = counts.iter();
    let counts: Vec<String> = counts
        .map(|(server, count)| format!("{count} on {server}"))
        .collect();
    let mut lines = vec![format!(
        "{about}, key {}: {} partitions; {}",
        or_none(&key),
        table.leaves().len(),
        or_none(&counts),
    )];
    lines.extend(
        table
            .key_problems()
            .map(|problem| format!("{about}: statements stay on the coordinator: {problem}")),
    );
    let problems = problems.iter();
    lines.extend(problems.map(|(problem, leaves)| {
        format!(
            "{about}, partitions {}: statements stay on the coordinator: {problem}",
            named(leaves)
        )
    }));
    lines
}

fn or_none(texts: &[String]) -> String {
    match texts {
        [] => "none".to_owned(),
        texts => texts.join(", "),
    }
}

/// The names of the first partitions, and the number of the others.
fn named(leaves: &[&Leaf]) -> String {
    let names = leaves.iter().take(NAMED_MAX);
    let names: Vec<String> = names.map(|leaf| leaf.name.to_string()).collect();
    match leaves.len().checked_sub(NAMED_MAX) {
        None | Some(0) => names.join(", "),
        Some(others) => format!("{} and {others} more", names.join(", ")),
    }
}
