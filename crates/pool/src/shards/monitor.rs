//! The task that reads the map of one database's shards.

use super::coordinator::{KnownDefinitions, ask_coordinator};
use super::reading::{MapReading, ShardQuestion, shard_questions, unreachable};
use super::shard::{ShardAnswer, ask_shard};
use super::{DatabaseShards, ShardsConfig};
use crate::address::Address;
use crate::hosts::open_monitor;
use crate::server::{ServerConn, ServerError};
use crate::shared::Shared;
use paceline_cluster::{SystemId, TableName};
use paceline_shards::{ServerProblem, ShardTableFacts};
use std::collections::HashMap;
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
pub(crate) fn start(shards: &Arc<DatabaseShards>, shared: &Arc<Shared>) {
    tokio::spawn(read_again_and_again(
        Arc::downgrade(shards),
        Arc::clone(shared),
    ));
}

/// A connection that is kept for the next reading.
struct MonitorConn {
    conn: Box<ServerConn>,
    address: Arc<Address>,
    /// [`Address::moves`] when it was opened.
    moves: u64,
    system: Option<SystemId>,
    /// What was found with it on a coordinator.
    definitions: KnownDefinitions,
    /// What was found with it on a shard.
    tables: HashMap<TableName, ShardTableFacts>,
}

/// The connections of the monitor, by what they lead to.
#[derive(Default)]
struct Connections {
    coordinator: Option<MonitorConn>,
    /// By the names of the foreign servers.
    shards: HashMap<String, MonitorConn>,
}

async fn read_again_and_again(shards: Weak<DatabaseShards>, shared: Arc<Shared>) {
    let mut connections = Connections::default();
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
        let config = present.config.clone();
        // If the task held the shards while it waits for servers, it would keep itself from ending.
        drop(present);
        let began = Instant::now();
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
                present.put_in_force(reading, began, generation);
            }
            Err(error) => {
                connections.coordinator = None;
                present.log(&error, &mut failure);
            }
        }
        drop(present);
        tokio::time::sleep(began.elapsed().max(PAUSE_MIN)).await;
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
        let mut conn = open(kept, address, config.connect_timeout, shared).await?;
        let system = conn.system;
        let known = &mut conn.definitions;
        let answer = ask_coordinator(&mut conn.conn, system, roles, known, limit).await?;
        let answer = answer.with_connect_query(&config.connect_query);
        let host = &conn.address.upstream.host;
        let questions = shard_questions(&answer, &config.servers, host);
        self.coordinator = Some(conn);
        let shards = self.ask_shards(config, questions, limit, shared).await;
        Ok(MapReading::new(answer, shards))
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
            let config = config.clone();
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                let asking = ask(before, &question, &config, limit, &shared);
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
            answers.push((question, answer));
        }
        answers
    }
}

async fn ask(
    kept: Option<MonitorConn>,
    question: &ShardQuestion,
    config: &ShardsConfig,
    limit: Duration,
    shared: &Arc<Shared>,
) -> Result<(ShardAnswer, MonitorConn), ServerProblem> {
    let address = config.shard(question.upstream.clone()?);
    let asking = async {
        let mut conn = open(kept, address, config.connect_timeout, shared).await?;
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
