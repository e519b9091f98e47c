//! The tables of which a logical subscriber may answer reads, and which statements these are.

use super::facts::{TableName, UserDefinedNames};
use std::collections::{BTreeMap, HashSet};

/// The names in a statement that a subscriber may answer.
#[derive(Debug, Clone, Default)]
pub struct StatementNames<'a> {
    /// The relations, each with the schema if the text has one.
    pub relations: Vec<(Option<&'a str>, &'a str)>,
    /// The functions.
    pub functions: Vec<&'a str>,
    /// The operators.
    pub operators: Vec<&'a str>,
    /// The types of casts.
    pub types: Vec<&'a str>,
    /// Names in positions of a field of a row, which may be functions.
    pub fields: Vec<&'a str>,
}

/// A subscriber's tables, while it serves reads.
#[derive(Debug, PartialEq, Eq)]
pub struct SubscribedTables {
    pub(super) tables: Vec<SubscribedTable>,
    pub(super) names: [UserDefinedNames; 2],
    /// The places of the tables that users may read on the primary, for those whose settings are alike.
    pub(super) users: BTreeMap<String, HashSet<usize>>,
    /// See [`SubscriberReport::fingerprint`](super::SubscriberReport::fingerprint).
    pub fingerprint: String,
    /// See [`SubscriberReport::last_ddl`](super::SubscriberReport::last_ddl).
    pub last_ddl: u64,
}

/// A table on both servers.
#[derive(Debug, PartialEq, Eq)]
pub struct SubscribedTable {
    pub(super) name: TableName,
    /// Whether the name needs its schema.
    pub(super) ambiguous: bool,
    /// The OID on the subscriber.
    pub own: u32,
    /// The OID on the primary.
    pub primary: u32,
    /// The numbers of the columns on the subscriber and on the primary.
    pub columns: Vec<(i16, i16)>,
}

impl SubscribedTables {
    /// The tables.
    pub fn tables(&self) -> &[SubscribedTable] {
        &self.tables
    }

    /// Whether the statement reads only these tables, at least one of them, as the primary would for this user, and names nothing
    /// that users have defined on one of the servers.
    #[must_use]
    pub fn may_answer(&self, user: &str, statement: &StatementNames<'_>) -> bool {
        let Some(may_read) = self.users.get(user) else {
            return false;
        };
        let mut relations = statement.relations.iter();
        let readable = |(schema, name): &(Option<&str>, &str)| {
            let place = self.place(*schema, name);
            place.is_some_and(|place| may_read.contains(&place))
        };
        let apart = |names: &UserDefinedNames| {
            let mut functions = statement.functions.iter().chain(&statement.fields);
            !functions.any(|name| names.functions.contains(*name))
                && !statement
                    .operators
                    .iter()
                    .any(|name| names.operators.contains(*name))
                && !statement
                    .types
                    .iter()
                    .any(|name| names.types.contains(*name))
        };
        !statement.relations.is_empty() && relations.all(readable) && self.names.iter().all(apart)
    }

    /// The place of the only table that these names can mean.
    fn place(&self, schema: Option<&str>, name: &str) -> Option<usize> {
        let is_meant = |table: &SubscribedTable| {
            table.name.name == name
                && match schema {
                    Some(schema) => table.name.schema == schema,
                    None => !table.ambiguous,
                }
        };
        self.tables.iter().position(is_meant)
    }
}
