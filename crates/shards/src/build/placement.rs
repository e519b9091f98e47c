//! The place of the rows of a leaf, and whether statements may run there.

use crate::definition::{compare_defaults, compare_lines};
use crate::facts::{
    ColumnFacts, DatabaseFacts, PartitionFacts, RootFacts, ServerFacts, ShardFacts,
};
use crate::reason::{LeafProblem, ServerProblem};
use crate::server::ShardServerId;
use crate::table::{Placement, ShardTable};
use std::collections::HashMap;

/// The shards of a map, by the names of the foreign servers.
pub(super) struct Shards<'a> {
    by_name: HashMap<&'a str, Shard<'a>>,
}

struct Shard<'a> {
    id: ShardServerId,
    found: Result<&'a ShardFacts, ServerProblem>,
}

impl<'a> Shards<'a> {
    pub(super) fn new(coordinator: &DatabaseFacts, servers: &'a [ServerFacts]) -> Self {
        let shards = servers.iter().enumerate().map(|(id, server)| {
            let found = server.found.as_ref().map_err(Clone::clone);
            let found = found.and_then(|facts| facts.database.compare(coordinator).map(|()| facts));
            let id = ShardServerId(id);
            (server.name.as_str(), Shard { id, found })
        });
        Self {
            by_name: shards.collect(),
        }
    }

    /// The reason why statements do not go to a server.
    pub(super) fn problem(&self, name: &str) -> Option<ServerProblem> {
        self.by_name.get(name)?.found.as_ref().err().cloned()
    }
}

/// The first property of the partition that the whole table does not have.
pub(super) fn leaf_problem(root: &RootFacts, partition: &PartitionFacts) -> Option<LeafProblem> {
    if let Some(why) = &partition.unfit {
        return Some(LeafProblem::Partition(why.clone()));
    }
    let lines = partition.lines.as_ref()?;
    let differs = compare_lines(&root.definition.lines, lines).err()?;
    let (LeafProblem::OnlyCoordinator(line) | LeafProblem::OnlyShard(line)) = differs else {
        return Some(differs);
    };
    let why = format!("its definition differs from that of the table in: {line}");
    Some(LeafProblem::Partition(why))
}

/// The place of the rows of a leaf. With a `problem`, no statement runs on the shard.
pub(super) fn placement(
    root: &RootFacts,
    leaf: &PartitionFacts,
    problem: Option<LeafProblem>,
    shards: &Shards<'_>,
) -> Placement {
    if leaf.foreign.is_none() {
        return Placement::Coordinator;
    }
    match problem {
        Some(problem) => Placement::Unfit(problem),
        None => on_shard(root, leaf, shards)
            .map_or_else(Placement::Unfit, |table| Placement::Shard(Box::new(table))),
    }
}

fn on_shard(
    root: &RootFacts,
    leaf: &PartitionFacts,
    shards: &Shards<'_>,
) -> Result<ShardTable, LeafProblem> {
    let foreign = leaf
        .foreign
        .as_ref()
        .filter(|foreign| foreign.is_postgres_fdw);
    let foreign = foreign.ok_or(LeafProblem::Wrapper)?;
    if let Some(why) = &foreign.unfit {
        return Err(LeafProblem::Partition(why.clone()));
    }
    let server = &foreign.server;
    let of_server = |problem| LeafProblem::Server {
        server: server.clone(),
        problem,
    };
    let shard = shards.by_name.get(server.as_str());
    let shard = shard.ok_or_else(|| of_server(ServerProblem::NoLogin))?;
    let facts = shard
        .found
        .as_ref()
        .map_err(|problem| of_server(problem.clone()))?;
    let table = facts.tables.get(&foreign.table);
    let table = table.ok_or_else(|| LeafProblem::NoTable {
        server: server.clone(),
        table: foreign.table.clone(),
    })?;
    let unfit = |why: &str| LeafProblem::Unfit {
        server: server.clone(),
        table: foreign.table.clone(),
        why: why.to_owned(),
    };
    if let Some(why) = &table.definition.unfit {
        return Err(unfit(why));
    }
    compare_lines(&root.definition.lines, &table.definition.lines)?;
    Ok(ShardTable {
        server: shard.id,
        name: foreign.table.clone(),
        oid: table.oid,
        columns: columns(&root.columns, &table.columns)?,
        fingerprint: table.fingerprint.clone(),
        keys: table.keys.clone(),
    })
}

/// The numbers of the columns on the shard and on the coordinator. Their definitions are equal; their order must be, too, because `*`,
/// an INSERT without a list of columns, and the texts of errors depend on it.
fn columns(root: &[ColumnFacts], shard: &[ColumnFacts]) -> Result<Vec<(i16, i16)>, LeafProblem> {
    let pairs = root.iter().zip(shard).map(|(column, own)| {
        if own.name != column.name {
            return Err(LeafProblem::OtherOrder(column.name.clone()));
        }
        compare_defaults(column, own)?;
        Ok((own.number, column.number))
    });
    pairs.collect()
}
