//! The database to which a client wants to connect.

use paceline_pool::replication::Replication;

/// The database to which a client wants to connect, and the kind of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginTarget<'a> {
    /// The database that the client names.
    pub(crate) database: &'a str,
    /// The kind of replication; `None` for an ordinary connection.
    pub(crate) replication: Option<Replication>,
}
