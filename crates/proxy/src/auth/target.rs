//! The database to which a client wants to connect.

use paceline_pool::replication::Replication;

/// What a client wants to connect to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginTarget<'a> {
    /// The database that the client names.
    pub(crate) database: &'a str,
    /// The kind of replication; `None` for an ordinary connection.
    pub(crate) replication: Option<Replication>,
}
