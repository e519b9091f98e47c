//! The reasons why an UPDATE cannot be folded.

use crate::parser::NotParsed;

/// Reason why an UPDATE cannot be folded. Users see it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldRefusal {
    /// The table does not permit it.
    #[error("table: {0}")]
    Table(String),
    /// WHERE contains no equality on all columns of a unique key.
    #[error("no equality on a unique key")]
    Key,
    /// A key column has a type or collation under which equal values may have different bytes.
    #[error("key column {0} has a type or collation that cannot be compared here")]
    KeyType(String),
    /// SET assigns a column that a key, index, foreign key or partition depends on.
    #[error("column {0} is part of a key, an index or a foreign key")]
    Assigned(String),
    /// A type that a fold does not support.
    #[error("type of {0}")]
    Type(String),
    /// An expression compares the new value of a column under a collation that the rewritten statement cannot name.
    #[error("the user-defined collation of column {0}")]
    Collation(String),
    /// A member sets a column to the time, which the members share, and the next one reads it.
    #[error("column {0} is set to the time, and read")]
    Time(String),
    /// The table does not have this column.
    #[error("unknown column {0}")]
    Column(String),
    /// An expression cannot be rewritten.
    #[error("an expression that cannot be rewritten")]
    Expression,
}

impl From<NotParsed> for FoldRefusal {
    fn from(_: NotParsed) -> Self {
        Self::Expression
    }
}
