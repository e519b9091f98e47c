//! A sharded table, its leaves, and where the row with a key is.

use crate::key::{KeyType, KeyValue};
use crate::partitioning::{Found, LeafId, Partitioning};
use crate::reason::{KeyProblem, LeafProblem, Reason, TableProblem};
use crate::server::ShardServerId;
use paceline_cluster::TableName;

/// A partitioned table of the coordinator that is not a partition itself, and has a foreign table among its leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct ShardedTable {
    /// Its OID on the coordinator.
    pub oid: u32,
    /// Its name on the coordinator.
    pub name: TableName,
    /// Whether another schema has a relation of this name: then a statement must name the schema.
    pub ambiguous: bool,
    /// The columns, in the order of their numbers.
    pub columns: Vec<Column>,
    /// The reason why no statement on the table may run on a shard; `None` if that depends on the row.
    pub problem: Option<TableProblem>,
    /// The key columns of all levels, each of them once.
    pub(crate) key: Vec<KeyColumn>,
    /// The partitioning of each table with partitions; the first one is the table itself.
    pub(crate) levels: Vec<Partitioning>,
    pub(crate) leaves: Vec<Leaf>,
}

/// A column of a sharded table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name, the same on all servers.
    pub name: String,
    /// `attnum` on the coordinator.
    pub number: i16,
    /// The type, one of PostgreSQL's own unless the table has a problem.
    pub type_oid: u32,
    /// `atttypmod`
    pub type_modifier: i32,
    /// The source of its value if an INSERT leaves the column out.
    pub default: ColumnDefault,
}

/// The source of the value if an INSERT does not name the column, or a statement writes DEFAULT for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnDefault {
    /// From the shard, which has the same default, or none. On shards where it differs, no statement runs.
    Alike,
    /// Only from the coordinator: an identity, a sequence, or another expression that may have another value on a shard. An INSERT on a
    /// shard must give the value, and no statement there may write DEFAULT.
    Coordinator,
    /// `GENERATED ALWAYS AS IDENTITY`: no INSERT, and no UPDATE of the column, runs on a shard.
    Identity,
}

/// A column of a partition key, of the table or of a partition that is partitioned itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// The name.
    pub name: String,
    /// The type. The column has no type modifier, so PostgreSQL stores each value as it is.
    pub key_type: KeyType,
}

/// A partition that is not partitioned itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its OID on the coordinator.
    pub oid: u32,
    /// Its name on the coordinator.
    pub name: TableName,
    /// The place of its rows.
    pub placement: Placement,
}

/// The place of the rows of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// On the coordinator.
    Coordinator,
    /// On a shard, where statements may run.
    Shard(Box<ShardTable>),
    /// Elsewhere, and statements must run on the coordinator.
    Unfit(LeafProblem),
}

/// The table of a leaf on its shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardTable {
    /// The server.
    pub server: ShardServerId,
    /// The name there.
    pub name: TableName,
    /// The OID there.
    pub oid: u32,
    /// For each column its number on the shard, and the number that the sharded table has for it on the coordinator.
    pub columns: Vec<(i16, i16)>,
    /// The proof that the table is the same as when the map was made.
    pub fingerprint: Fingerprint,
    /// The unique keys that `ON CONFLICT` may name.
    pub keys: Vec<UniqueKey>,
}

/// Identifies the definition of a shard's table: it changes with each change of the definition, and if the name gets another OID, or the
/// server is in recovery. It does not identify the server: see [`ShardServer::system`](crate::ShardServer::system).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// SQL expression of type `text`. It needs no privileges. Its value holds until the end of the transaction if the transaction has
    /// a lock on the table before it evaluates the expression.
    pub sql: String,
    /// The value when the map was made.
    pub value: String,
}

/// A primary key, unique constraint or unique index of a shard's table: not deferrable, without expressions and without condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UniqueKey {
    /// The names of the columns, sorted.
    pub columns: Vec<String>,
    /// The name of the index, and of the constraint if there is one, on the shard.
    pub name: String,
    /// Whether it is a constraint, so that `ON CONFLICT ON CONSTRAINT` may name it.
    pub is_constraint: bool,
}

/// The server on which a statement may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// On the shard of this leaf, whose placement is [`Placement::Shard`].
    Shard(LeafId),
    /// On the coordinator.
    Coordinator(Reason),
}

impl ShardedTable {
    /// The columns of the partition keys of all levels. Which of them [`ShardedTable::route`] asks for depends on the row.
    #[must_use]
    pub fn key_columns(&self) -> &[KeyColumn] {
        &self.key
    }

    /// Whether a column is part of a partition key at any level.
    #[must_use]
    pub fn is_key_column(&self, name: &str) -> bool {
        self.key.iter().any(|column| column.name == name)
    }

    /// The reason why Paceline does not find partitions of the table, or of partitions that are partitioned themselves.
    pub fn key_problems(&self) -> impl Iterator<Item = &KeyProblem> {
        self.levels.iter().filter_map(Partitioning::problem)
    }

    /// The column with this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// All leaves, in the order of their numbers.
    #[must_use]
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// A leaf.
    #[must_use]
    pub fn leaf(&self, LeafId(id): LeafId) -> Option<&Leaf> {
        self.leaves.get(id)
    }

    /// The shard's table of a leaf, if statements may run there.
    #[must_use]
    pub fn shard_table(&self, id: LeafId) -> Option<&ShardTable> {
        match &self.leaf(id)?.placement {
            Placement::Shard(table) => Some(table),
            Placement::Coordinator | Placement::Unfit(_) => None,
        }
    }

    /// The server of the row with this key. `value` returns the value of a key column, or `None` if the statement does not fix it. Only
    /// NULL that is inserted is [`KeyValue::Null`].
    ///
    /// The caller makes sure that the statement compares with the column's own type, and that text is sent to the server in UTF-8.
    pub fn route<'v>(&self, value: impl Fn(&KeyColumn) -> Option<KeyValue<'v>>) -> Route {
        if let Some(problem) = &self.problem {
            return Route::Coordinator(Reason::Table(problem.clone()));
        }
        match self.find(value) {
            Ok(id) => self.route_to(id),
            Err(reason) => Route::Coordinator(reason),
        }
    }

    fn find<'v>(
        &self,
        value: impl Fn(&KeyColumn) -> Option<KeyValue<'v>>,
    ) -> Result<LeafId, Reason> {
        let mut level = self.levels.first();
        while let Some(partitioning) = level {
            let key = partitioning.key().map(|place| {
                let column = self.key.get(place).ok_or(Reason::NoPartition)?;
                let value = value(column).ok_or_else(|| Reason::KeyOpen(column.name.clone()))?;
                match column.key_type.has(&value) {
                    true => Ok(value),
                    false => Err(Reason::KeyValue(column.name.clone())),
                }
            });
            let key: Vec<KeyValue<'v>> = key.collect::<Result<_, _>>()?;
            match partitioning.find(&key)? {
                Found::Leaf(id) => return Ok(id),
                Found::Level(next) => level = self.levels.get(next),
            }
        }
        Err(Reason::NoPartition)
    }

    fn route_to(&self, id: LeafId) -> Route {
        let Some(leaf) = self.leaf(id) else {
            return Route::Coordinator(Reason::NoPartition);
        };
        match &leaf.placement {
            Placement::Shard(_) => Route::Shard(id),
            Placement::Coordinator => Route::Coordinator(Reason::LocalLeaf(leaf.name.clone())),
            Placement::Unfit(problem) => Route::Coordinator(Reason::Leaf {
                leaf: leaf.name.clone(),
                problem: Box::new(problem.clone()),
            }),
        }
    }

    /// The keys with these columns, in any order, if every leaf is on a shard and has one, and it includes the whole partition key: then
    /// rows with equal values can only be on one shard, and `ON CONFLICT` on this shard decides for the whole table. One for each leaf.
    #[must_use]
    pub fn unique_keys(&self, columns: &[&str]) -> Option<Vec<&UniqueKey>> {
        let includes_key = self
            .key
            .iter()
            .all(|column| columns.contains(&column.name.as_str()));
        if !includes_key || self.leaves.is_empty() {
            return None;
        }
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        let ids = (0..self.leaves.len()).map(LeafId);
        let of_leaf = |id| {
            let mut keys = self.shard_table(id)?.keys.iter();
            keys.find(|key| key.columns == sorted)
        };
        ids.map(of_leaf).collect()
    }
}
