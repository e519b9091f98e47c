//! What the catalogs of the coordinator and of the shards say, as it is read.

use crate::access::Privileges;
use crate::reason::ServerProblem;
use crate::table::{Column, Fingerprint, UniqueKey};
use paceline_cluster::{TableName, UserDefinedNames};
use std::collections::{BTreeMap, HashMap};

/// What the coordinator says.
#[derive(Debug, Clone, Default)]
pub struct CoordinatorFacts {
    /// The database.
    pub database: DatabaseFacts,
    /// The partitioned tables that are no partitions themselves, and have foreign tables among their leaves.
    pub roots: Vec<RootFacts>,
    /// The roles of clients, by name.
    pub roles: BTreeMap<String, RoleFacts>,
}

/// What a server says about itself and the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseFacts {
    /// The major version.
    pub version: u32,
    /// `pg_is_in_recovery()`
    pub in_recovery: bool,
    /// The encoding.
    pub encoding: String,
    /// Provider, locale and version of the default collation.
    pub collation: String,
    /// Whether users have defined implicit casts or default operator classes for types of PostgreSQL.
    pub converts: bool,
    /// The answer to [`HASH_PROBE`](crate::HASH_PROBE).
    pub hashes: String,
    /// The values that settings have for a role without settings of its own; `None` if the role of the monitor has its own.
    pub settings: BTreeMap<String, Option<String>>,
    /// The names by which statements may mean objects that users have defined.
    pub names: UserDefinedNames,
}

/// The definition of a table, to be compared with that of another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definition {
    /// What makes an answer depend on more than the row; `None` if nothing does.
    pub unfit: Option<String>,
    /// A line for each column and each CHECK constraint, as a user would write them. Equal lines mean equal definitions.
    pub lines: Vec<String>,
}

/// A partitioned table that is no partition.
#[derive(Debug, Clone)]
pub struct RootFacts {
    /// Its OID.
    pub oid: u32,
    /// Its name.
    pub name: TableName,
    /// Whether another schema has a relation of this name.
    pub ambiguous: bool,
    /// The columns, in the order of their numbers.
    pub columns: Vec<Column>,
    /// The definition.
    pub definition: Definition,
    /// How it is partitioned.
    pub key: PartitionKeyFacts,
    /// All partitions at all levels, each behind the table of which it is a partition.
    pub partitions: Vec<PartitionFacts>,
    /// Whether there are more partitions than were read.
    pub truncated: bool,
}

/// How a table is partitioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionKeyFacts {
    /// `partstrat`: `h`, `l` or `r`
    pub strategy: char,
    /// The parts of the key, in order.
    pub parts: Vec<KeyPartFacts>,
}

/// A part of a partition key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPartFacts {
    /// The name of the column; `None` for an expression.
    pub column: Option<String>,
    /// Whether the operator class is PostgreSQL's default for the type.
    pub default_class: bool,
    /// Whether the collation is deterministic. True for types without collations.
    pub deterministic: bool,
}

/// A partition.
#[derive(Debug, Clone)]
pub struct PartitionFacts {
    /// Its OID.
    pub oid: u32,
    /// Of which table.
    pub parent: u32,
    /// Its name.
    pub name: TableName,
    /// Its bounds, as `pg_get_expr` writes them with the settings of [`decode::text`](crate::decode::text).
    pub bound: String,
    /// Whether it is being detached.
    pub detaching: bool,
    /// What makes an answer depend on more than the row.
    pub unfit: Option<String>,
    /// The lines of its definition if they are not those of the root.
    pub lines: Option<Vec<String>>,
    /// How it is partitioned, if it is.
    pub key: Option<PartitionKeyFacts>,
    /// What the catalog says of it as a foreign table, if it is one.
    pub foreign: Option<ForeignFacts>,
}

/// A foreign table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignFacts {
    /// The name of its server.
    pub server: String,
    /// Whether the server uses `postgres_fdw`.
    pub is_postgres_fdw: bool,
    /// The table on the shard.
    pub table: TableName,
    /// An option that gives the foreign table another meaning than the table on the shard.
    pub unfit: Option<String>,
}

/// A role of clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleFacts {
    /// The default settings of the role in the database, as text; empty for none.
    pub settings: String,
    /// Its privileges by the OIDs of roots.
    pub privileges: HashMap<u32, Privileges>,
    /// By the names of the servers on which the role has a login: the default settings of the user there.
    pub logins: BTreeMap<String, String>,
}

/// A foreign server, and what it says.
#[derive(Debug, Clone)]
pub struct ServerFacts {
    /// The name of the foreign server.
    pub name: String,
    /// `HOST:PORT/DATABASE`
    pub address: String,
    /// What it answers, or why it does not.
    pub found: Result<ShardFacts, ServerProblem>,
}

/// What a shard says.
#[derive(Debug, Clone, Default)]
pub struct ShardFacts {
    /// The database.
    pub database: DatabaseFacts,
    /// The tables that exist there.
    pub tables: HashMap<TableName, ShardTableFacts>,
}

/// A table on a shard.
#[derive(Debug, Clone)]
pub struct ShardTableFacts {
    /// Its OID.
    pub oid: u32,
    /// The definition.
    pub definition: Definition,
    /// The numbers of the columns, in the order of their names, by bytes.
    pub numbers: Vec<i16>,
    /// The unique keys.
    pub keys: Vec<UniqueKey>,
    /// The fingerprint, which was asked for before the definition, or in the same snapshot.
    pub fingerprint: Fingerprint,
}
