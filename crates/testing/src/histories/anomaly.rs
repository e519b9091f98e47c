//! The anomalies that a history may show.

use std::fmt;

/// The name of an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Versions have no order: two reads show different values at the same place.
    IncompatibleOrder,
    /// A value was written twice.
    Duplicate,
    /// A value that no client has written.
    Unwritten,
    /// A committed value is missing for a statement that began later.
    Lost,
    /// A transaction does not see its own writes, or sees those of others in a row that it has changed.
    Internal,
    /// Aborted read: a value of an aborted transaction was seen.
    G1a,
    /// Intermediate read: a value that its transaction has overwritten itself was seen.
    G1b,
    /// A cycle of writes.
    G0,
    /// A cycle of writes and of reads of what was written.
    G1c,
    /// A cycle with one read of a version that was overwritten: a read skew, lost update or stale read.
    GSingle,
    /// A cycle with several such reads: a write skew.
    G2Item,
}

/// An anomaly of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// The kind.
    pub name: Name,
    /// By their places in the history.
    pub transactions: Vec<usize>,
    /// The values that were seen, or the cycle.
    pub description: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.name, self.description)
    }
}
