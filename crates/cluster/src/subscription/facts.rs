//! The monitor's facts about a logical subscriber, from both servers.

use crate::position::{Lsn, SystemId};
use std::collections::{BTreeMap, HashSet};

/// A table by its schema and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The schema.
    pub schema: String,
    /// The name in the schema.
    pub name: String,
}

impl std::fmt::Display for TableName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.schema, self.name)
    }
}

/// The answer of one of the two servers about its database, and the facts that must be equal on both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogFacts {
    /// `pg_control_system()`
    pub system: Option<SystemId>,
    /// `pg_is_in_recovery()`
    pub in_recovery: bool,
    /// The major version.
    pub version: u32,
    /// The encoding of the database.
    pub encoding: String,
    /// Provider, locale and version of the database's default collation.
    pub collation: String,
    /// The settings on which the text of an answer depends, with their values.
    pub answer_settings: String,
    /// Whether users have defined implicit casts or default operator classes for types of PostgreSQL.
    pub converts: bool,
    /// The names by which statements may mean objects that users have defined.
    pub names: UserDefinedNames,
    /// The tables, in the configured order.
    pub tables: Vec<TableFacts>,
    /// The users of pools that exist, by name.
    pub users: BTreeMap<String, UserFacts>,
}

/// Names of objects that users have defined, and that a statement could mean instead of PostgreSQL's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserDefinedNames {
    /// Functions.
    pub functions: HashSet<String>,
    /// Operators.
    pub operators: HashSet<String>,
    /// Types.
    pub types: HashSet<String>,
}

/// A table on one of the two servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableFacts {
    /// `None` if there is no such table.
    pub oid: Option<u32>,
    /// The reason why a statement that reads it may depend on more than its columns.
    pub unfit: Option<String>,
    /// Whether another schema has a relation of the same name.
    pub ambiguous: bool,
    /// The columns in their order.
    pub columns: Vec<ColumnFacts>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnFacts {
    /// `attnum`
    pub number: i16,
    /// Name, type, type modifier, and collation with its version.
    pub definition: String,
}

/// A user on one of the two servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserFacts {
    /// The places of the tables that the user may read.
    pub may_read: HashSet<usize>,
    /// The user's default settings in the database.
    pub settings: String,
}

/// The replication slot on the primary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotFacts {
    /// Whether the subscription is connected.
    pub active: bool,
    /// Whether it is a slot of this database for logical replication by PostgreSQL's own protocol.
    pub fits: bool,
    /// Up to where the subscriber has applied the log.
    pub confirmed: Option<Lsn>,
}

/// A publication on the primary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublicationFacts {
    /// Whether it publishes INSERT, UPDATE, DELETE and TRUNCATE.
    pub all_changes: bool,
    /// The places of the tables of which it has all rows and columns.
    pub whole: HashSet<usize>,
    /// The places of the tables of which it has a part.
    pub partial: HashSet<usize>,
}

/// The subscription.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubscriptionFacts {
    /// `subenabled`
    pub enabled: bool,
    /// Whether it skips a transaction, or changes that the primary itself has replicated from elsewhere.
    pub skips: bool,
    /// The tables, in the configured order.
    pub tables: Vec<SubscribedState>,
}

/// The state of a table in a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscribedState {
    /// The number of subscriptions that change it.
    pub subscriptions: usize,
    /// `r`: it has caught up.
    pub ready: bool,
    /// Whether the subscription itself has copied the rows that the table had before.
    pub copied: bool,
}

/// The result of a probe of a subscriber, on both servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberReport {
    /// The answer of the primary.
    pub primary: CatalogFacts,
    /// `None` if the slot does not exist.
    pub slot: Option<SlotFacts>,
    /// The end of the primary's log.
    pub written: Option<Lsn>,
    /// The publications of the subscription.
    pub publications: Vec<PublicationFacts>,
    /// The answer of the subscriber.
    pub own: CatalogFacts,
    /// `None` if no subscription of the database uses the slot.
    pub subscription: Option<SubscriptionFacts>,
    /// The fingerprint that each connection to the subscriber must find again when it has answered a read.
    pub fingerprint: String,
    /// The last DDL of a client that had ended when the probe began.
    pub last_ddl: u64,
}
