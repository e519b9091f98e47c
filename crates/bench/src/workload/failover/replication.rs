//! The kinds of replication.

/// The replication of the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// Commits do not wait for replicas.
    Asynchronous,
    /// A commit waits until one of the replicas has written it to disk.
    Synchronous,
}

impl Replication {
    /// Name in results, and of the variant.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asynchronous => "asynchronous",
            Self::Synchronous => "synchronous",
        }
    }
}
