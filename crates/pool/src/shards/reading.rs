//! One reading of the map: the questions to each server, and the map that follows from the answers.

use super::coordinator::CoordinatorAnswer;
use super::servers::{Reached, reached};
use super::shard::ShardAnswer;
use crate::server::ServerError;
use paceline_cluster::TableName;
use paceline_config::{Host, ShardServer, Upstream};
use paceline_shards::{PartitionMap, ServerFacts, ServerProblem};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The map, and where its servers are.
#[derive(Debug, PartialEq)]
pub struct MapReading {
    /// The map.
    pub map: Arc<PartitionMap>,
    /// By the names of the foreign servers and the roles.
    upstreams: BTreeMap<(String, String), Upstream>,
}

/// The questions to a shard.
#[derive(Debug)]
pub struct ShardQuestion {
    server: Reached,
    /// The destination of the connection: one of these hosts, the primary.
    ///
    /// # Errors
    /// The reason why there can be none.
    pub upstreams: Result<Vec<Upstream>, ServerProblem>,
    /// The tables that its foreign tables name.
    pub tables: Vec<TableName>,
    /// The users of the roles.
    pub users: Vec<String>,
}

/// The questions to the shards that follow from an answer of the coordinator, which is at `coordinator`.
pub fn shard_questions(
    answer: &CoordinatorAnswer,
    configured: &[ShardServer],
    coordinator: &Host,
) -> Vec<ShardQuestion> {
    let mut tables = BTreeMap::<&str, HashSet<&TableName>>::new();
    let partitions = answer.facts.roots.iter().flat_map(|root| &root.partitions);
    for foreign in partitions.filter_map(|partition| partition.foreign.as_ref()) {
        let of_server = tables.entry(&foreign.server).or_default();
        of_server.insert(&foreign.table);
    }
    let servers = reached(answer, configured, coordinator).into_iter();
    let questions = servers.map(|server| {
        let roles = answer.facts.roles.keys();
        let users = roles.filter_map(|role| server.upstream(role)?.user);
        let users: BTreeSet<String> = users.collect();
        let tables = tables.remove(server.name.as_str()).unwrap_or_default();
        ShardQuestion {
            upstreams: server.monitored(),
            tables: tables.into_iter().cloned().collect(),
            users: users.into_iter().collect(),
            server,
        }
    });
    questions.collect()
}

impl ShardQuestion {
    /// The name of the foreign server.
    pub fn name(&self) -> &str {
        &self.server.name
    }
}

impl MapReading {
    /// The map that follows from the answers of the coordinator and of the shards.
    pub fn new(
        mut coordinator: CoordinatorAnswer,
        shards: Vec<(ShardQuestion, Result<ShardAnswer, ServerProblem>)>,
    ) -> Self {
        let mut upstreams = BTreeMap::new();
        let mut servers = Vec::new();
        for (ShardQuestion { server, .. }, answer) in shards {
            for (role, facts) in &mut coordinator.facts.roles {
                let Some(upstream) = server.upstream(role) else {
                    continue;
                };
                let user = upstream.user.as_deref().unwrap_or_default();
                // A user who begins as another role is not among those of the answer.
                let settings = answer.as_ref().ok().and_then(|found| found.users.get(user));
                if let Some(settings) = settings {
                    facts.logins.insert(server.name.clone(), settings.clone());
                    upstreams.insert((server.name.clone(), role.clone()), upstream);
                }
            }
            servers.push(ServerFacts {
                name: server.name,
                address: server.address,
                found: answer.map(|found| found.facts),
            });
        }
        Self {
            map: Arc::new(PartitionMap::build(coordinator.facts, servers)),
            upstreams,
        }
    }

    /// The destination of connections to a server for a role.
    pub(super) fn upstream(&self, server: &str, role: &str) -> Option<&Upstream> {
        let key = (server.to_owned(), role.to_owned());
        self.upstreams.get(&key)
    }
}

/// The problem of a server that does not answer.
pub fn unreachable(error: &ServerError) -> ServerProblem {
    ServerProblem::Unreachable(error.to_string())
}
