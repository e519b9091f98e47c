//! The reasons why a statement runs on the coordinator, in the words of users.

use paceline_cluster::TableName;
use thiserror::Error;

/// The reason why a statement on a sharded table runs on the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// Holds for the whole table.
    #[error(transparent)]
    Table(#[from] TableProblem),
    /// A level of the partitions.
    #[error(transparent)]
    Key(#[from] KeyProblem),
    /// The statement does not determine the value of a key column.
    #[error("the statement does not fix the key column {0}")]
    KeyOpen(String),
    /// The value is none of the column's type.
    #[error("the value for the key column {0} is not one of its type")]
    KeyValue(String),
    /// PostgreSQL finds no row, or raises an error.
    #[error("no partition has this key")]
    NoPartition,
    /// The coordinator has the rows itself.
    #[error("partition {0} is on the coordinator")]
    LocalLeaf(TableName),
    /// The rows are on a shard to which statements do not go.
    #[error("partition {leaf}: {problem}")]
    Leaf {
        /// The leaf on the coordinator.
        leaf: TableName,
        /// The reason why statements do not go there.
        problem: Box<LeafProblem>,
    },
    /// The client's role.
    #[error(transparent)]
    Role(#[from] RoleProblem),
    /// A name may mean another object on one of the two servers.
    #[error(
        "{0} is the name of an object that users have defined on the coordinator or on the shard"
    )]
    Name(String),
}

/// The reason why no statement on a table runs on a shard.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableProblem {
    /// The definition has something that depends on more than the row: triggers, row security, foreign keys and so on.
    #[error("table on the coordinator: {0}")]
    Unfit(String),
    /// The coordinator's database.
    #[error("the coordinator: {0}")]
    Coordinator(ServerProblem),
    /// More partitions than a map holds.
    #[error("the table has more than {0} partitions")]
    TooManyPartitions(usize),
}

/// The reason why Paceline does not find the partition for a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyProblem {
    /// Only columns are supported.
    #[error("the partition key of {0} has an expression")]
    Expression(TableName),
    /// The type has no hash or order that Paceline knows.
    #[error("the key column {0} has a type that Paceline does not compare")]
    Type(String),
    /// PostgreSQL rounds or cuts a value when it stores it.
    #[error("the type of key column {0} has a precision or length")]
    Modifier(String),
    /// Text has another order for each collation.
    #[error("partitions by range of the text column {0}")]
    Order(String),
    /// Different texts may be equal.
    #[error("the collation of key column {0} is not deterministic")]
    Collation(String),
    /// Users decide what is equal.
    #[error("key column {0} has another operator class than the default")]
    OperatorClass(String),
    /// The text of a bound is not understood.
    #[error("the bounds of partition {0} cannot be read")]
    Bound(TableName),
    /// A partition is being detached.
    #[error("partition {0} is being detached")]
    Detaching(TableName),
}

/// The reason why statements on a leaf run on the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LeafProblem {
    /// Another foreign data wrapper.
    #[error("its server does not use postgres_fdw")]
    Wrapper,
    /// The partition on the coordinator, or a partition above it.
    #[error("{0}")]
    Partition(String),
    /// The server.
    #[error("shard {server}: {problem}")]
    Server {
        /// Its name.
        server: String,
        /// The problem of the server.
        problem: ServerProblem,
    },
    /// The table is missing on the shard.
    #[error("shard {server} has no table {table}")]
    NoTable {
        /// The shard.
        server: String,
        /// The table.
        table: TableName,
    },
    /// The shard's table has something that depends on more than the row.
    #[error("table {table} on shard {server}: {why}")]
    Unfit {
        /// The shard.
        server: String,
        /// The table.
        table: TableName,
        /// The feature on which the answer may depend.
        why: String,
    },
    /// A line of the definition that the shard does not have.
    #[error("only the coordinator has: {0}")]
    OnlyCoordinator(String),
    /// A line of the definition that the coordinator does not have.
    #[error("only the shard has: {0}")]
    OnlyShard(String),
    /// Its columns have another order.
    #[error("the shard has another column in the place of column {0}")]
    OtherOrder(String),
    /// A column has another default.
    #[error("the default of column {column} is {coordinator}, on the shard {shard}")]
    OtherDefault {
        /// The column.
        column: String,
        /// The coordinator's default.
        coordinator: String,
        /// The shard's default.
        shard: String,
    },
}

/// The reason why statements do not go to a server, or not to any shard.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServerProblem {
    /// The monitor has no answer.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// The foreign server has no address.
    #[error("the foreign server has no option {0}; set it in [[databases.NAME.shard_servers]]")]
    NoOption(&'static str),
    /// An option that Paceline does not follow.
    #[error(
        "Paceline does not know the option {0} of the foreign server; set the address in [[databases.NAME.shard_servers]]"
    )]
    UnknownOption(String),
    /// On the coordinator, the name means another machine than for Paceline.
    #[error(
        "host {0} means the coordinator's own machine; set host in [[databases.NAME.shard_servers]]"
    )]
    Loopback(String),
    /// The monitor has no login.
    #[error(
        "no login is known: the catalog shows no user mapping with user and password; set user and password in [[databases.NAME.shard_servers]]"
    )]
    NoLogin,
    /// It cannot write.
    #[error("the server is in recovery")]
    InRecovery,
    /// The catalog does not show enough, or the server is too old.
    #[error("PostgreSQL {0} or later is needed")]
    OldVersion(u32),
    /// Functions may differ.
    #[error("the server has major version {own}, the coordinator {coordinator}")]
    OtherVersion {
        /// The shard's.
        own: u32,
        /// The coordinator's.
        coordinator: u32,
    },
    /// The texts of keys have other bytes.
    #[error("the encoding of the database is {0}, not UTF8")]
    Encoding(String),
    /// Text may sort in another order.
    #[error("the default collation of the database is {own}, on the coordinator {coordinator}")]
    OtherCollation {
        /// The shard's.
        own: String,
        /// The coordinator's.
        coordinator: String,
    },
    /// A statement may convert or compare in another way.
    #[error("users have defined implicit casts or default operator classes for PostgreSQL's types")]
    Converts,
    /// A setting without which no statement runs on a shard.
    #[error("the default of {name} is {value}, not {wanted}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The value that is needed.
        wanted: &'static str,
    },
    /// The text of an answer, or the meaning of a statement, may differ.
    #[error("the setting {name} is {own}, on the coordinator {coordinator}")]
    OtherSetting {
        /// The setting.
        name: String,
        /// The shard's value.
        own: String,
        /// The coordinator's value.
        coordinator: String,
    },
    /// A query that only the coordinator's connections run may change what statements mean.
    #[error("connect_query is set, and connections to shards do not run it")]
    ConnectQuery,
    /// The machine has another order of bytes.
    #[error("the server computes other hashes than Paceline")]
    OtherHashes,
}

/// The reason why the statements of a role run on the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RoleProblem {
    /// The map has been made without it.
    #[error("the privileges of role {0} are not known yet")]
    Unknown(String),
    /// The coordinator decides about the error.
    #[error("role {role} lacks a privilege on {table}")]
    Privilege {
        /// The client's role.
        role: String,
        /// The table.
        table: TableName,
    },
    /// No user mapping.
    #[error(
        "role {role} has no login on shard {server}: the catalog shows no user mapping with user and password; set them in [[databases.NAME.shard_servers]]"
    )]
    NoLogin {
        /// The client's role.
        role: String,
        /// The shard.
        server: String,
    },
    /// The role has a default of its own for a setting that must have PostgreSQL's.
    #[error("role {role} has a default of its own for {name}")]
    Setting {
        /// The client's role.
        role: String,
        /// The setting.
        name: &'static str,
    },
    /// A default setting of the role is not that of the mapped user.
    #[error(
        "role {role} has the default settings {own}, and its user on shard {server} has {mapped}"
    )]
    Settings {
        /// The client's role.
        role: String,
        /// The shard.
        server: String,
        /// The settings of the role.
        own: String,
        /// The settings of the mapped user.
        mapped: String,
    },
}
