//! Reads the rows of answers about shards. What cannot be read is an error: a part of an answer might hide a difference.

use crate::server::ServerError;
use std::io;
use std::str::FromStr;

/// A row of an answer.
pub(super) struct Row<'a>(pub(super) &'a [Option<String>]);

impl<'a> Row<'a> {
    /// The text of a column; `None` for NULL.
    pub(super) fn text(&self, column: usize) -> Option<&'a str> {
        self.0.get(column)?.as_deref()
    }

    /// The text of a column that is not NULL.
    pub(super) fn required(&self, column: usize) -> Result<&'a str, ServerError> {
        self.text(column).ok_or_else(unreadable)
    }

    /// A number.
    pub(super) fn number<T: FromStr>(&self, column: usize) -> Result<T, ServerError> {
        self.required(column)?.parse().map_err(|_| unreadable())
    }

    pub(super) fn is_true(&self, column: usize) -> bool {
        self.text(column) == Some("t")
    }

    /// The value of a JSON text; the default for NULL.
    pub(super) fn json<T>(&self, column: usize) -> Result<T, ServerError>
    where
        T: serde::de::DeserializeOwned + Default,
    {
        match self.text(column) {
            Some(text) => serde_json::from_str(text).map_err(|_| unreadable()),
            None => Ok(T::default()),
        }
    }
}

pub(super) fn unreadable() -> ServerError {
    let why = "the server's answer about shards cannot be read";
    ServerError::Io(io::Error::new(io::ErrorKind::InvalidData, why))
}
