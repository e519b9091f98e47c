//! The columns of a statement that were described to the client.
//!
//! The client reads the rows of later executions by these columns. So before another server executes the statement, that
//! server describes it. If the columns differ, the client receives PostgreSQL's own error for a plan whose columns have
//! changed. Drivers handle that error.

use super::expect::{DescribeTarget, Expect};
use super::not_yet::NotYet;
use super::refusal::RelayRefusal;
use super::state::{Extended, RelayContext, RelayState};
use super::statement_names::ServerStatement;
use crate::parsed::ColumnsId;
use crate::server::StatementKey;
use bytes::BytesMut;
use paceline_wire::frontend::{self, Target};
use paceline_wire::{Frame, frame};

impl DescribeTarget {
    /// The client's statement with this name. `None` if there is none.
    pub(super) fn of(
        name: &[u8],
        key: Option<StatementKey>,
        context: &RelayContext<'_>,
    ) -> Option<Self> {
        let parse = context.session.statements.client_parse(name)?.written;
        let name = name.into();
        Some(Self { name, parse, key })
    }
}

impl RelayState {
    /// The relay's first request is one statement and describes its columns. The client reads the rows by that description.
    pub fn first_request_describes(&mut self) {
        self.first_describes = true;
    }

    /// Ensures that the server has the statement with the columns that were described to the client.
    ///
    /// # Errors
    /// The server must describe the statement first.
    pub(super) fn ensure_with_known_columns(
        &mut self,
        name: &[u8],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<ServerStatement, NotYet> {
        let known = self.ensure_statement(name, context, out);
        let Some(described) = known
            .columns
            .filter(|_| !self.first_describes && !known.is_utility())
        else {
            return Ok(known);
        };
        // If the statement is private to this client, its key may have changed since the server described it.
        match self
            .just_described
            .take()
            .or(context.server.columns(known.key))
        {
            Some(columns) if columns == described => {}
            Some(_) => self.refuse_message(RelayRefusal::OtherColumns, out),
            None => {
                Target::Statement(&known.name).write(out, frontend::tag::DESCRIBE);
                frame::write_empty(out, frontend::tag::FLUSH);
                self.expect
                    .push_back(Expect::InjectedDescribe { key: known.key });
                self.extended = Extended::Describing;
                return Err(NotYet::Describing);
            }
        }
        Ok(known)
    }

    /// Whether the server describes a statement. Until then the relay sends it no message of the client.
    pub fn is_describing(&self) -> bool {
        self.extended == Extended::Describing
    }

    /// The server has described the statement.
    pub(super) fn columns_described(&mut self, frame: Frame<'_>, context: &mut RelayContext<'_>) {
        if let Some(Expect::InjectedDescribe { key }) = self.expect.pop_front() {
            let columns = ColumnsId::described(frame);
            context.server.set_columns(key, columns);
            self.just_described = Some(columns);
        }
        if self.is_describing() {
            self.extended = Extended::Open;
        }
    }

    /// The server has described the parameters of the statement.
    pub(super) fn types_described(&self, frame: Frame<'_>, context: &mut RelayContext<'_>) {
        if let Some(Expect::InjectedDescribe { key }) = self.expect.front() {
            context.server.set_types(*key, frame.body());
        }
    }

    /// The server describes the parameters of a statement to the client.
    pub(super) fn note_types(
        frame: Frame<'_>,
        described: &DescribeTarget,
        context: &mut RelayContext<'_>,
    ) {
        let DescribeTarget { name, parse, key } = described;
        context
            .session
            .statements
            .note_types(name, *parse, frame.body());
        context.server.set_types(*key, frame.body());
    }

    /// The server describes the columns of a statement to the client.
    pub(super) fn note_columns(
        frame: Frame<'_>,
        described: &DescribeTarget,
        context: &mut RelayContext<'_>,
    ) {
        let columns = ColumnsId::described(frame);
        let DescribeTarget { name, parse, key } = described;
        context
            .session
            .statements
            .note_columns(name, *parse, columns);
        if key.is_some() || context.server.unnamed == Some(*parse) {
            context.server.set_columns(*key, columns);
        }
    }
}
