//! The reasons why a logical subscriber serves no reads.

use super::facts::TableName;
use thiserror::Error;

/// The oldest major version whose catalog shows row filters, column lists, and the version of a database's collation.
pub const SUBSCRIBER_VERSION_MIN: u32 = 15;

/// The reason why a subscriber serves no reads.
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
    #[error("subscribers need PostgreSQL {SUBSCRIBER_VERSION_MIN} or later")]
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
    /// The slot does not exist.
    #[error("the primary has no replication slot {0}")]
    NoSlot(String),
    /// The slot belongs to another database or output plugin.
    #[error("the slot is not one of this database for pgoutput")]
    OtherSlot,
    /// Nothing reads from the slot.
    #[error("the slot is not active: the subscription is not connected")]
    SlotInactive,
    /// The subscriber has not confirmed any position.
    #[error("the slot has confirmed no position yet")]
    Unconfirmed,
    /// The subscription does not exist.
    #[error("no subscription of the database uses slot {0}")]
    NoSubscription(String),
    /// The subscription does not apply changes.
    #[error("the subscription is disabled")]
    Disabled,
    /// The subscription leaves changes out.
    #[error("the subscription skips changes (SKIP, or origin = none)")]
    Skips,
    /// A publication leaves kinds of changes out.
    #[error("a publication of {0} does not publish insert, update, delete and truncate")]
    Publishes(TableName),
    /// A publication leaves rows or columns out.
    #[error("a publication has a row filter or a column list for {0}")]
    Partial(TableName),
    /// No publication has the table.
    #[error("no publication of the subscription has {0}")]
    NotPublished(TableName),
    /// The subscription does not know the table.
    #[error("{0} is not part of the subscription")]
    NotSubscribed(TableName),
    /// The rows come from more than one server.
    #[error("several subscriptions change {0}")]
    SubscribedTwice(TableName),
    /// The initial copy has not ended.
    #[error("{0} has not caught up: it is copied, or waits for that")]
    NotReady(TableName),
    /// Rows from before the subscription may be missing.
    #[error("the subscription has not copied the rows of {0} (copy_data = false)")]
    NotCopied(TableName),
    /// The table is missing on a server.
    #[error("{0} does not exist on {1}")]
    NoTable(TableName, &'static str),
    /// Reads of the table may depend on more than its rows.
    #[error("{table} on {server}: {why}")]
    Unfit {
        /// The table.
        table: TableName,
        /// The server with the table.
        server: &'static str,
        /// The reason why reads of it may depend on more.
        why: String,
    },
    /// The table has other columns.
    #[error("the columns of {0} are not those of the primary")]
    OtherColumns(TableName),
}
