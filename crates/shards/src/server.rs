//! The servers that have the rows.

use crate::reason::ServerProblem;
use paceline_cluster::SystemId;
use std::fmt;

/// The number of a server in one map. Another map may give the server another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardServerId(pub usize);

/// A foreign server of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardServer {
    /// Its name on the coordinator.
    pub name: String,
    /// Its address, for operators: `HOST:PORT/DATABASE`.
    pub address: String,
    /// The system identifier that each connection must find when it is opened; `None` if it is not known.
    pub system: Option<SystemId>,
    /// The reason why it gets no statements; `None` if it may.
    pub problem: Option<ServerProblem>,
}

impl fmt::Display for ShardServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.name, self.address)
    }
}
