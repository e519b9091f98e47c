//! Builds a map from the facts in the catalogs.

mod levels;
mod placement;
#[cfg(test)]
mod tests;

use crate::facts::{ColumnFacts, CoordinatorFacts, RootFacts, ServerFacts};
use crate::map::PartitionMap;
use crate::reason::{ServerProblem, TableProblem};
use crate::server::ShardServer;
use crate::table::{Column, ShardedTable};
use levels::Tree;
use placement::Shards;

/// Maximum number of partitions of a table, at all levels. Statements on a larger table run on the coordinator.
pub const PARTITIONS_MAX: usize = 10_000;

impl PartitionMap {
    /// The map that follows from these answers. Each of them may be of another moment: statements on a shard compare the
    /// [`Fingerprint`](crate::Fingerprint), and the age of the map limits for how long it may be behind the coordinator.
    #[must_use]
    pub fn build(coordinator: CoordinatorFacts, servers: Vec<ServerFacts>) -> Self {
        let problem = coordinator.problem.clone();
        let problem = problem.or_else(|| coordinator.database.check().err());
        let shards = Shards::new(&coordinator.database, &servers);
        let roots = coordinator.roots.iter();
        let tables: Vec<ShardedTable> = roots
            .map(|root| table(root, problem.as_ref(), &shards))
            .collect();
        let of_server = servers.iter().map(|server| ShardServer {
            name: server.name.clone(),
            address: server.address.clone(),
            system: server
                .found
                .as_ref()
                .ok()
                .and_then(|facts| facts.database.system),
            problem: shards.problem(&server.name),
        });
        let of_server = of_server.collect();
        let names = tables.iter().enumerate();
        let by_name = names.map(|(place, table)| (table.name.clone(), place));
        let by_name = by_name.collect();
        let bare = tables.iter().enumerate();
        let bare = bare.filter(|(_, table)| !table.ambiguous);
        let by_bare_name = bare.map(|(place, table)| (table.name.name.clone(), place));
        let by_bare_name = by_bare_name.collect();
        let shard_names = servers.into_iter().map(|server| {
            let names = server.found.map(|facts| facts.database.names);
            names.unwrap_or_default()
        });
        Self {
            by_name,
            by_bare_name,
            tables,
            servers: of_server,
            roles: coordinator.roles,
            coordinator_names: coordinator.database.names,
            shard_names: shard_names.collect(),
        }
    }
}

fn table(
    root: &RootFacts,
    coordinator: Option<&ServerProblem>,
    shards: &Shards<'_>,
) -> ShardedTable {
    let problem = match (coordinator, &root.definition.unfit) {
        (Some(problem), _) => Some(TableProblem::Coordinator(problem.clone())),
        (None, Some(why)) => Some(TableProblem::Unfit(why.clone())),
        (None, None) if root.truncated => Some(TableProblem::TooManyPartitions(PARTITIONS_MAX)),
        (None, None) => None,
    };
    let Tree {
        key,
        levels,
        leaves,
    } = Tree::grow(root, shards);
    ShardedTable {
        oid: root.oid,
        name: root.name.clone(),
        ambiguous: root.ambiguous,
        columns: root.columns.iter().map(column).collect(),
        problem,
        key,
        levels,
        leaves,
    }
}

fn column(facts: &ColumnFacts) -> Column {
    Column {
        name: facts.name.clone(),
        number: facts.number,
        type_oid: facts.type_oid,
        type_modifier: facts.type_modifier,
        default: facts.column_default(),
    }
}
