//! The task that reads the map of one database's shards.

use super::coordinator::{KnownDefinitions, ask_coordinator};
use super::reading::{MapReading, ShardQuestion, shard_questions, unreachable};
use super::shard::{ShardAnswer, ask_shard};
use super::{DatabaseShards, HostsOfShards, MonitorHosts, ShardsConfig};
use crate::address::Address;
use crate::clock;
use crate::hosts::{DatabaseHosts, HostsConfig, open_monitor};
use crate::server::{ServerConn, ServerError};
use crate::shared::Shared;
use paceline_cluster::{SystemId, TableName};
use paceline_shards::{ServerProblem, ShardTableFacts};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Minimum time between two readings; a reading that takes longer is followed by a pause of its own length. So statements that shards
/// reject do not keep the coordinator busy with its catalog.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Limits of the time of a reading. Between them it is half of `shard_map_max_age`, so that a map is never older than that.
const LIMIT_MIN: Duration = Duration::from_millis(100);
const LIMIT_MAX: Duration = Duration::from_secs(30);

/// Starts the task. It ends when the shards are dropped.
pub(crate) fn start(
    shards: &Arc<DatabaseShards>,
    shared: &Arc<Shared>,
    monitor_hosts: Box<MonitorHosts>,
) {
    let connections = Connections {
        coordinator: None,
        shards: HashMap::new(),
        hosts: Arc::default(),
        answers: HashMap::new(),
        monitor_hosts,
    };
    tokio::spawn(read_again_and_again(
        Arc::downgrade(shards),
        Arc::clone(shared),
        connections,
    ));
}

/// A connection that is kept for the next reading.
struct MonitorConn {
    conn: Box<ServerConn>,
    address: Arc<Address>,
    /// [`Address::moves`] when it was opened.
    moves: u64,
    system: Option<SystemId>,
    /// The definitions that it has read on a coordinator.
    definitions: KnownDefinitions,
    /// The tables that it has read on a shard.
    tables: HashMap<TableName, ShardTableFacts>,
}

/// The connections of the monitor, by their servers.
struct Connections {
    coordinator: Option<MonitorConn>,
    /// By the names of the foreign servers.
    shards: HashMap<String, MonitorConn>,
    hosts: Arc<HostsOfShards>,
    /// The last answers of shards that have several hosts, and when they came.
    answers: HashMap<String, (ShardAnswer, Instant)>,
    monitor_hosts: Box<MonitorHosts>,
}

async fn read_again_and_again(
    shards: Weak<DatabaseShards>,
    shared: Arc<Shared>,
    mut connections: Connections,
) {
    let mut failure = String::new();
    let Some(mut wanted) = shards.upgrade().map(|shards| shards.wanted.subscribe()) else {
        return;
    };
    loop {
        let Some(present) = shards.upgrade() else {
            return;
        };
        let (roles, generation) = {
            let state = present.lock();
            let roles: Vec<String> = state.roles.iter().cloned().collect();
            (roles, state.generation)
        };
        wanted.borrow_and_update();
        let config = present.config.load_full();
        // If the task held the shards while it waits for servers, it would keep itself from ending.
        drop(present);
        let began = clock::now();
        let pause = (config.max_age / 2).max(LIMIT_MIN);
        let limit = pause.min(LIMIT_MAX);
        let reading = connections.read(&config, &roles, limit, &shared);
        let read = tokio::time::timeout(limit, reading).await;
        let read = read.unwrap_or(Err(ServerError::QueryTimeout));
        let Some(present) = shards.upgrade() else {
            return;
        };
        match read {
            Ok(reading) => {
                failure.clear();
                let hosts = Arc::clone(&connections.hosts);
                present.put_in_force(reading, hosts, began, generation);
            }
            Err(error) => {
                connections.coordinator = None;
                present.log(&error, &mut failure);
            }
        }
        drop(present);
        tokio::time::sleep(clock::elapsed(began).max(PAUSE_MIN)).await;
        tokio::select! {
            () = tokio::time::sleep_until((began + pause).into()) => {}
            asked = wanted.changed() => if asked.is_err() { return },
        }
    }
}

impl DatabaseShards {
    /// Logs a failure that is not the last one.
    fn log(&self, error: &ServerError, last: &mut String) {
        let now = error.to_string();
        if *last != now {
            let database = self.name.as_str();
            tracing::warn!(database, %error, "the map of the shards cannot be read: all statements use the coordinator");
            *last = now;
        }
    }
}

impl Connections {
    async fn read(
        &mut self,
        config: &ShardsConfig,
        roles: &[String],
        limit: Duration,
        shared: &Arc<Shared>,
    ) -> Result<MapReading, ServerError> {
        let address = config.coordinator().ok_or_else(no_coordinator)?;
        let kept = self.coordinator.take();
        let mut conn = open(kept, address, config.limits.connect_timeout, shared).await?;
        let system = conn.system;
        let known = &mut conn.definitions;
        let answer = ask_coordinator(&mut conn.conn, system, roles, known, limit).await?;
        let answer = answer.with_connect_query(&config.connect_query);
        let host = &conn.address.upstream.host;
        let questions = shard_questions(&answer, &config.servers, host);
        self.coordinator = Some(conn);
        self.find_hosts(config, &questions);
        let shards = self.ask_shards(config, questions, limit, shared).await;
        Ok(MapReading::new(answer, shards))
    }

    /// Monitors the hosts of the shards that have several, and of no others.
    fn find_hosts(&mut self, config: &ShardsConfig, questions: &[ShardQuestion]) {
        let mut hosts = BTreeMap::new();
        for question in questions {
            let Some(several) = question.upstreams.as_ref().ok().filter(|all| all.len() > 1) else {
                continue;
            };
            let addresses = several.iter().cloned().map(|host| config.shard(host));
            let name = question.name();
            let wanted = HostsConfig::of_shard(name, addresses.collect(), config.limits);
            let before = self.hosts.get(name);
            let found = match before.filter(|before| before.are_those_of(&wanted)) {
                Some(same) => Some(Arc::clone(same)),
                None => (self.monitor_hosts)(wanted, before.map(|before| &**before)),
            };
            hosts.extend(found.map(|found| (name.to_owned(), found)));
        }
        self.answers.retain(|name, _| hosts.contains_key(name));
        self.hosts = Arc::new(hosts);
    }

    /// Asks all shards at the same time. A shard has half of the time that is left to the coordinator and to all shards together, so that
    /// one that does not answer does not keep the map from being read.
    async fn ask_shards(
        &mut self,
        config: &ShardsConfig,
        questions: Vec<ShardQuestion>,
        limit: Duration,
        shared: &Arc<Shared>,
    ) -> Vec<(ShardQuestion, Result<ShardAnswer, ServerProblem>)> {
        let limit = limit / 2;
        let mut kept = std::mem::take(&mut self.shards);
        let tasks = questions.into_iter().map(|question| {
            let before = kept.remove(question.name());
            let hosts = self.hosts.get(question.name()).map(Arc::clone);
            let config = config.clone();
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                let asking = ask(before, &question, &config, hosts, limit, &shared);
                let asked = tokio::time::timeout(limit, asking).await;
                let asked = asked.unwrap_or(Err(ServerProblem::Unreachable(
                    ServerError::QueryTimeout.to_string(),
                )));
                (question, asked)
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut answers = Vec::new();
        for task in tasks {
            // A task ends only when the runtime does.
            let Ok((question, asked)) = task.await else {
                continue;
            };
            let answer = asked.map(|(answer, conn)| {
                self.shards.insert(question.name().to_owned(), conn);
                answer
            });
            let answer = self.or_last_answer(config, question.name(), answer);
            answers.push((question, answer));
        }
        answers
    }

    /// The answer of a shard. If a shard with several hosts gives none, its last one holds for `failover_timeout`: statements wait for its
    /// next primary, which compares the definitions of their tables, in place of using the coordinator.
    fn or_last_answer(
        &mut self,
        config: &ShardsConfig,
        name: &str,
        answer: Result<ShardAnswer, ServerProblem>,
    ) -> Result<ShardAnswer, ServerProblem> {
        let Some(hosts) = self.hosts.get(name) else {
            return answer;
        };
        let now = clock::now();
        if let Ok(answer) = &answer
            && !answer.is_in_recovery()
        {
            self.answers.insert(name.to_owned(), (answer.clone(), now));
        } else {
            hosts.suspect();
        }
        let limit = config.limits.failover_timeout;
        let limit = limit.saturating_add(config.max_age);
        let last = self.answers.get(name);
        let last = last.filter(|(_, at)| now.duration_since(*at) <= limit);
        last.map_or(answer, |(last, _)| Ok(last.clone()))
    }
}

async fn ask(
    kept: Option<MonitorConn>,
    question: &ShardQuestion,
    config: &ShardsConfig,
    hosts: Option<Arc<DatabaseHosts>>,
    limit: Duration,
    shared: &Arc<Shared>,
) -> Result<(ShardAnswer, MonitorConn), ServerProblem> {
    let upstreams = question.upstreams.as_ref().map_err(Clone::clone)?;
    let address = match (hosts, upstreams.first()) {
        (Some(hosts), _) => primary_of(&hosts).await,
        (None, Some(only)) => Some(config.shard(only.clone())),
        (None, None) => None,
    };
    let address = address.ok_or(ServerProblem::NoOption("host"))?;
    let asking = async {
        let mut conn = open(kept, address, config.limits.connect_timeout, shared).await?;
        let (system, tables, users) = (conn.system, &question.tables, &question.users);
        let known = std::mem::take(&mut conn.tables);
        let answer = ask_shard(&mut conn.conn, system, tables, users, known, limit).await?;
        conn.tables.clone_from(answer.tables());
        Ok((answer, conn))
    };
    asking
        .await
        .map_err(|error: ServerError| unreachable(&error))
}

/// The address of the monitor at the primary, once there is one. `None`: the hosts are not monitored any more.
async fn primary_of(hosts: &DatabaseHosts) -> Option<Arc<Address>> {
    let mut changes = hosts.primary_changes();
    loop {
        if let Some(primary) = hosts.monitored_primary() {
            return Some(primary);
        }
        changes.changed().await.ok()?;
    }
}

/// The connection that was kept, if it leads there and is alive; else a new one.
async fn open(
    kept: Option<MonitorConn>,
    address: Arc<Address>,
    connect_timeout: Duration,
    shared: &Arc<Shared>,
) -> Result<MonitorConn, ServerError> {
    let moves = address.moves();
    let same = kept.filter(|kept| kept.address.leads_to(&address) && kept.moves == moves);
    if let Some(mut same) = same
        && same.conn.query("").await.is_ok()
    {
        return Ok(same);
    }
    let mut conn = open_monitor(&address, connect_timeout, shared).await?;
    let system = conn.system().await?;
    Ok(MonitorConn {
        conn,
        address,
        moves,
        system,
        definitions: KnownDefinitions::new(),
        tables: HashMap::new(),
    })
}

fn no_coordinator() -> ServerError {
    let why = "no host is the primary";
    ServerError::Io(io::Error::new(io::ErrorKind::NotConnected, why))
}
