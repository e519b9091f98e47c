//! Servers to which tables of a database are replicated logically. Only the servers show whether they are.

use crate::hosts::ServerHost;
use paceline_sql::Name;

/// A server that may answer reads of some tables with `reads = "any"`.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscriber {
    /// Its address.
    pub at: ServerHost,
    /// The name of the database there; `None` for the same name.
    pub dbname: Option<String>,
    /// Its zone; `None` if it has none.
    pub zone: Option<String>,
    /// The replication slot of its subscription on the primary.
    pub slot: String,
    /// The tables that it has, each with its schema.
    pub tables: Vec<Name>,
}
