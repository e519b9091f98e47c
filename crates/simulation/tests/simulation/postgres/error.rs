//! Errors of statements of the simulated PostgreSQL.

use super::value::RowId;

/// An error that the client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SqlError {
    pub(crate) sqlstate: &'static str,
    pub(crate) message: String,
}

/// The reason why the execution of a statement stops.
#[derive(Debug)]
pub(crate) enum Stop {
    Error(SqlError),
    /// Another transaction has locked this row, or has inserted it and not ended. The statement is executed again, with the same
    /// snapshot, when that transaction has ended; until then it keeps the row locks that it has.
    Waits(RowId),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

pub(crate) fn failed(sqlstate: &'static str, message: &str) -> SqlError {
    SqlError {
        sqlstate,
        message: message.to_owned(),
    }
}
