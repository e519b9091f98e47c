//! The columns of a statement that a client was told. It takes the rows of later executions for such columns, so before it executes
//! the statement on a server that has prepared it anew, that server describes it. If the columns are others, the client is told
//! what PostgreSQL tells whose plan has other columns now; drivers recover from that.

use super::expect::{DescribeTarget, Expect};
use super::not_yet::NotYet;
use super::refusal::RelayRefusal;
use super::state::{Extended, RelayContext, RelayState};
use super::statement_names::ServerStatement;
use crate::analysis::ColumnsId;
use crate::server::StatementKey;
use bytes::BytesMut;
use paceline_wire::backend::{self, tag};
use paceline_wire::frontend::{self, Target};
use paceline_wire::{Frame, frame};

impl DescribeTarget {
    /// The client's statement of that name, which the server has by this key. `None`: there is none.
    pub(super) fn of(
        name: &[u8],
        key: Option<StatementKey>,
        context: &RelayContext<'_>,
    ) -> Option<Self> {
        let parse = context.session.analysis(name)?.parse;
        let name = name.into();
        Some(Self { name, parse, key })
    }
}

impl RelayState {
    /// The relay's first request is one statement, and asks for its columns: then it reads the rows by those.
    pub fn first_request_describes(&mut self) {
        self.first_describes = true;
    }

    /// The client binds a statement: makes it known to the server, which must have it with the columns that the client knows.
    ///
    /// # Errors
    /// The server must describe it first.
    pub(super) fn ensure_with_known_columns(
        &mut self,
        name: &[u8],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<ServerStatement, NotYet> {
        let known = self.ensure_statement(name, context, out);
        let Some(told) = known
            .columns
            .filter(|_| !self.first_describes && !known.is_utility())
        else {
            return Ok(known);
        };
        // If only this client may use the statement, its key may have changed since the server described it.
        match self
            .just_described
            .take()
            .or(context.server.columns(known.key))
        {
            Some(columns) if columns == told => {}
            Some(_) => self.refuse_message(RelayRefusal::OtherColumns, out),
            None => {
                Target::Statement(&known.name).write(out, frontend::tag::DESCRIBE);
                frame::write_empty(out, frontend::tag::FLUSH);
                self.expect
                    .push_back(Expect::OwnDescribe { key: known.key });
                self.extended = Extended::Describing;
                return Err(NotYet::Describing);
            }
        }
        Ok(known)
    }

    /// The server describes a statement; until then it gets nothing more of the client.
    pub fn is_describing(&self) -> bool {
        self.extended == Extended::Describing
    }

    /// The server has described the statement.
    pub(super) fn columns_described(&mut self, frame: Frame<'_>, context: &mut RelayContext<'_>) {
        if let Some(Expect::OwnDescribe { key }) = self.expect.pop_front() {
            let columns = read_columns(frame);
            context.server.set_columns(key, columns);
            self.just_described = Some(columns);
        }
        if self.is_describing() {
            self.extended = Extended::Open;
        }
    }

    /// The server has described the parameters of the statement.
    pub(super) fn types_described(&self, frame: Frame<'_>, context: &mut RelayContext<'_>) {
        if let Some(Expect::OwnDescribe { key }) = self.expect.front() {
            context.server.set_types(*key, frame.body());
        }
    }

    /// The server sends the client the types of a statement's parameters.
    pub(super) fn note_types(
        frame: Frame<'_>,
        described: &DescribeTarget,
        context: &mut RelayContext<'_>,
    ) {
        let DescribeTarget { name, parse, key } = described;
        context.session.note_types(name, *parse, frame.body());
        context.server.set_types(*key, frame.body());
    }

    /// The server sends the client the columns of a statement.
    pub(super) fn note_columns(
        frame: Frame<'_>,
        described: &DescribeTarget,
        context: &mut RelayContext<'_>,
    ) {
        let columns = read_columns(frame);
        let DescribeTarget { name, parse, key } = described;
        context.session.note_columns(name, *parse, columns);
        if key.is_some() || context.server.unnamed == Some(*parse) {
            context.server.set_columns(*key, columns);
        }
    }
}

/// What a client goes by when it reads rows: names and types, but not the format.
fn read_columns(frame: Frame<'_>) -> ColumnsId {
    match frame.tag {
        tag::ROW_DESCRIPTION => ColumnsId::of(backend::columns(frame.body())),
        _ => ColumnsId::of(std::iter::empty()),
    }
}
