//! The answer to a member, written from the rows of its group's statement.

use super::messages::{write_head, write_tail};
use bytes::{Bytes, BytesMut};
use paceline_relay::request::RequestForm;
use paceline_wire::ErrorResponse;
use paceline_wire::backend::{self, tag};
use paceline_wire::frame;

/// An answer in which the rows and the end are missing.
#[derive(Debug)]
pub(super) struct MemberAnswer {
    messages: BytesMut,
    has_columns: bool,
    /// See [`RequestForm::row_limit`].
    row_limit: u32,
    rows: u32,
}

impl MemberAnswer {
    /// Begins an answer. `columns` describes the rows; it is empty if the template returns none.
    pub(super) fn begin(form: RequestForm, has_columns: bool, columns: &[u8]) -> Self {
        let mut messages = BytesMut::with_capacity(96);
        write_head(form, &mut messages);
        if form.is_described(has_columns) {
            messages.extend_from_slice(columns);
        }
        Self {
            messages,
            has_columns,
            row_limit: form.row_limit(),
            rows: 0,
        }
    }

    /// Adds a row. The client gets none beyond its row limit.
    pub(super) fn row(&mut self, values: &[Option<&[u8]>]) {
        let fits = self.row_limit == 0 || self.rows < self.row_limit;
        self.rows = self.rows.saturating_add(1);
        if self.has_columns && fits {
            backend::write_row(&mut self.messages, values.iter().copied());
        }
    }

    /// Number of rows, also those beyond the limit. PostgreSQL reports it only below the limit.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// Ends the answer. `command` is the command tag. At the row limit, PostgreSQL suspends the portal even if no rows are left
    /// (PostgreSQL documentation, section "Extended Query").
    pub(super) fn complete(mut self, command: &str) -> Bytes {
        match self.row_limit > 0 && self.rows >= self.row_limit {
            true => frame::write_empty(&mut self.messages, tag::PORTAL_SUSPENDED),
            false => backend::write_command_complete(&mut self.messages, command),
        }
        self.end()
    }

    /// Ends the answer with an error.
    pub(super) fn fail(mut self, error: &ErrorResponse) -> Bytes {
        error.write(&mut self.messages);
        self.end()
    }

    fn end(mut self) -> Bytes {
        write_tail(&mut self.messages);
        self.messages.freeze()
    }
}
