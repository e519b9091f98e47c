//! Whether a logical subscriber has what the primary has: the tables of the publication, whole and defined alike, and nothing that
//! gives a statement another meaning there.

use crate::position::{Lsn, SystemId};
use std::collections::{BTreeMap, HashSet};
use thiserror::Error;

#[cfg(test)]
pub(crate) mod tests;

/// The first OID of objects that users define. Lower ones are equal on all servers of a major version.
pub const FIRST_USER_DEFINED_OID: u32 = 16_384;

/// The oldest major version whose catalog shows row filters, column lists, and the version of a database's collation.
const VERSION_MIN: u32 = 15;

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

/// What one of the two servers answers about its database, and what must be alike.
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
    /// Why a statement that reads it may depend on more than its columns.
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

/// What a probe of a subscriber has found, on both servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberReport {
    /// What the primary answers.
    pub primary: CatalogFacts,
    /// `None` if the slot does not exist.
    pub slot: Option<SlotFacts>,
    /// The end of the primary's log.
    pub written: Option<Lsn>,
    /// The publications of the subscription.
    pub publications: Vec<PublicationFacts>,
    /// What the subscriber answers.
    pub own: CatalogFacts,
    /// `None` if no subscription of the database uses the slot.
    pub subscription: Option<SubscriptionFacts>,
    /// What each connection to the subscriber must find again when it has answered a read.
    pub fingerprint: String,
    /// The last DDL of a client that had ended when the probe began.
    pub last_ddl: u64,
}

/// Why a subscriber serves no reads.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubscriberProblem {
    /// No copy by logical replication.
    #[error("the server is in recovery: it is a replica, no subscriber")]
    InRecovery,
    /// Functions may differ.
    #[error("the server has major version {own}, the primary {primary}")]
    OtherVersion {
        /// The subscriber's.
        own: u32,
        /// The primary's.
        primary: u32,
    },
    /// The catalog does not show enough.
    #[error("subscribers need PostgreSQL {VERSION_MIN} or later")]
    OldVersion,
    /// Text may compare in another way.
    #[error("the encoding of the database is {own}, on the primary {primary}")]
    OtherEncoding {
        /// The subscriber's.
        own: String,
        /// The primary's.
        primary: String,
    },
    /// Text may sort in another order.
    #[error("the default collation of the database is {own}, on the primary {primary}")]
    OtherCollation {
        /// The subscriber's.
        own: String,
        /// The primary's.
        primary: String,
    },
    /// A statement may convert or compare in another way.
    #[error(
        "users have defined implicit casts or default operator classes for PostgreSQL's types on {0}"
    )]
    Converts(&'static str),
    /// The slot.
    #[error("the primary has no replication slot {0}")]
    NoSlot(String),
    /// The slot.
    #[error("the slot is not one of this database for pgoutput")]
    OtherSlot,
    /// The slot.
    #[error("the slot is not active: the subscription is not connected")]
    SlotInactive,
    /// The slot.
    #[error("the slot has confirmed no position yet")]
    Unconfirmed,
    /// The subscription.
    #[error("no subscription of the database uses slot {0}")]
    NoSubscription(String),
    /// The subscription.
    #[error("the subscription is disabled")]
    Disabled,
    /// The subscription.
    #[error("the subscription skips changes (SKIP, or origin = none)")]
    Skips,
    /// A publication.
    #[error("a publication of {0} does not publish insert, update, delete and truncate")]
    Publishes(TableName),
    /// A publication.
    #[error("a publication has a row filter or a column list for {0}")]
    Partial(TableName),
    /// A publication.
    #[error("no publication of the subscription has {0}")]
    NotPublished(TableName),
    /// A table.
    #[error("{0} is not part of the subscription")]
    NotSubscribed(TableName),
    /// A table.
    #[error("several subscriptions change {0}")]
    SubscribedTwice(TableName),
    /// A table.
    #[error("{0} has not caught up: it is copied, or waits for that")]
    NotReady(TableName),
    /// A table.
    #[error("the subscription has not copied the rows of {0} (copy_data = false)")]
    NotCopied(TableName),
    /// A table.
    #[error("{0} does not exist on {1}")]
    NoTable(TableName, &'static str),
    /// A table.
    #[error("{table} on {server}: {why}")]
    Unfit {
        /// The table.
        table: TableName,
        /// Where.
        server: &'static str,
        /// What is in the way.
        why: String,
    },
    /// A table.
    #[error("the columns of {0} are not those of the primary")]
    OtherColumns(TableName),
}

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
    tables: Vec<SubscribedTable>,
    names: [UserDefinedNames; 2],
    /// The places of the tables that users may read on the primary, for those whose settings are alike.
    users: BTreeMap<String, HashSet<usize>>,
    /// See [`SubscriberReport::fingerprint`].
    pub fingerprint: String,
    /// See [`SubscriberReport::last_ddl`].
    pub last_ddl: u64,
}

/// A table on both servers.
#[derive(Debug, PartialEq, Eq)]
pub struct SubscribedTable {
    name: TableName,
    /// Whether the name needs its schema.
    ambiguous: bool,
    /// The OID on the subscriber.
    pub own: u32,
    /// The OID on the primary.
    pub primary: u32,
    /// The numbers of the columns on the subscriber and on the primary.
    pub columns: Vec<(i16, i16)>,
}

const PRIMARY: &str = "the primary";
const SUBSCRIBER: &str = "the subscriber";

impl SubscriberReport {
    /// The tables of which the subscriber may answer reads.
    ///
    /// # Errors
    /// The first reason for which it may answer none.
    pub fn check(
        &self,
        slot: &str,
        tables: &[TableName],
    ) -> Result<SubscribedTables, SubscriberProblem> {
        self.check_servers()?;
        self.check_subscription(slot)?;
        let tables = tables.iter().enumerate();
        let tables = tables.map(|(at, name)| self.check_table(at, name));
        let tables: Vec<SubscribedTable> = tables.collect::<Result<_, _>>()?;
        let users = self.primary.users.iter().filter_map(|(name, primary)| {
            let own = self.own.users.get(name)?;
            let alike = own.settings == primary.settings;
            alike.then(|| (name.clone(), primary.may_read.clone()))
        });
        Ok(SubscribedTables {
            tables,
            names: [self.primary.names.clone(), self.own.names.clone()],
            users: users.collect(),
            fingerprint: self.fingerprint.clone(),
            last_ddl: self.last_ddl,
        })
    }

    fn check_servers(&self) -> Result<(), SubscriberProblem> {
        let (own, primary) = (&self.own, &self.primary);
        if own.in_recovery {
            return Err(SubscriberProblem::InRecovery);
        }
        if own.version != primary.version {
            return Err(SubscriberProblem::OtherVersion {
                own: own.version,
                primary: primary.version,
            });
        }
        if own.version < VERSION_MIN {
            return Err(SubscriberProblem::OldVersion);
        }
        if own.encoding != primary.encoding {
            return Err(SubscriberProblem::OtherEncoding {
                own: own.encoding.clone(),
                primary: primary.encoding.clone(),
            });
        }
        if own.collation != primary.collation {
            return Err(SubscriberProblem::OtherCollation {
                own: own.collation.clone(),
                primary: primary.collation.clone(),
            });
        }
        match (primary.converts, own.converts) {
            (true, _) => Err(SubscriberProblem::Converts(PRIMARY)),
            (false, true) => Err(SubscriberProblem::Converts(SUBSCRIBER)),
            (false, false) => Ok(()),
        }
    }

    fn check_subscription(&self, name: &str) -> Result<(), SubscriberProblem> {
        let no_slot = || SubscriberProblem::NoSlot(name.to_owned());
        let slot = self.slot.as_ref().ok_or_else(no_slot)?;
        let no_subscription = || SubscriberProblem::NoSubscription(name.to_owned());
        let subscription = self.subscription.as_ref().ok_or_else(no_subscription)?;
        if !slot.fits {
            return Err(SubscriberProblem::OtherSlot);
        }
        if !subscription.enabled {
            return Err(SubscriberProblem::Disabled);
        }
        if subscription.skips {
            return Err(SubscriberProblem::Skips);
        }
        if !slot.active {
            return Err(SubscriberProblem::SlotInactive);
        }
        match slot.confirmed {
            None => Err(SubscriberProblem::Unconfirmed),
            Some(_) => Ok(()),
        }
    }

    fn check_table(
        &self,
        at: usize,
        name: &TableName,
    ) -> Result<SubscribedTable, SubscriberProblem> {
        let name = || name.clone();
        let mut published = false;
        for publication in &self.publications {
            if publication.partial.contains(&at) {
                return Err(SubscriberProblem::Partial(name()));
            }
            let whole = publication.whole.contains(&at);
            if whole && !publication.all_changes {
                return Err(SubscriberProblem::Publishes(name()));
            }
            published |= whole;
        }
        let states = self.subscription.as_ref().map(|all| all.tables.as_slice());
        let state = states.and_then(|states| states.get(at));
        let state = state.copied().unwrap_or_default();
        match state {
            _ if !published => return Err(SubscriberProblem::NotPublished(name())),
            SubscribedState {
                subscriptions: 0, ..
            } => return Err(SubscriberProblem::NotSubscribed(name())),
            SubscribedState {
                subscriptions: 1, ..
            } => {}
            _ => return Err(SubscriberProblem::SubscribedTwice(name())),
        }
        if !state.ready {
            return Err(SubscriberProblem::NotReady(name()));
        }
        if !state.copied {
            return Err(SubscriberProblem::NotCopied(name()));
        }
        let on = |facts: &CatalogFacts, server| {
            let table = facts.tables.get(at).cloned().unwrap_or_default();
            match (table.oid, table.unfit.clone()) {
                (None, _) => Err(SubscriberProblem::NoTable(name(), server)),
                (Some(_), Some(why)) => Err(SubscriberProblem::Unfit {
                    table: name(),
                    server,
                    why,
                }),
                (Some(oid), None) => Ok((oid, table)),
            }
        };
        let (primary_oid, primary) = on(&self.primary, PRIMARY)?;
        let (own_oid, own) = on(&self.own, SUBSCRIBER)?;
        let definitions = |table: &TableFacts| {
            let columns = table.columns.iter();
            columns
                .map(|column| column.definition.clone())
                .collect::<Vec<_>>()
        };
        if definitions(&own) != definitions(&primary) {
            return Err(SubscriberProblem::OtherColumns(name()));
        }
        let columns = own.columns.iter().zip(&primary.columns);
        Ok(SubscribedTable {
            name: name(),
            ambiguous: own.ambiguous || primary.ambiguous,
            own: own_oid,
            primary: primary_oid,
            columns: columns
                .map(|(own, primary)| (own.number, primary.number))
                .collect(),
        })
    }
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
