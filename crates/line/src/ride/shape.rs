//! The columns of a statement that a client was told. It takes the rows of later executions for such columns, so before it executes
//! the statement on a server that has prepared it anew, that server describes it. If the columns are others, the client is told
//! what PostgreSQL tells whose plan has other columns now; drivers recover from that.

use super::outward::Known;
use super::{Desk, Expect, Ride};
use crate::ride::keep::Refusal;
use crate::server::{Shape, StatementKey};
use crate::template::Unparsed;
use bytes::BytesMut;
use paceline_wire::backend::{self, tag};
use paceline_wire::frontend::{self, Target};
use paceline_wire::{Frame, frame};

/// Why a message of the client cannot be taken now. It comes again.
#[derive(Debug)]
pub enum NotYet {
    /// A text must be parsed elsewhere first. Nothing has been written.
    Unparsed(Unparsed),
    /// The server describes a statement first.
    Describing,
}

impl From<Unparsed> for NotYet {
    fn from(unparsed: Unparsed) -> Self {
        Self::Unparsed(unparsed)
    }
}

/// A statement with a name that is described.
#[derive(Debug, Clone, Copy)]
pub(super) struct Described {
    /// Its [`statement_id`](crate::template::Template::statement_id).
    pub(super) statement: u64,
    pub(super) key: Option<StatementKey>,
}

impl Ride {
    /// The ride's first unit is one statement, and asks for its columns: then it reads the rows by those.
    pub fn first_unit_describes(&mut self) {
        self.first_describes = true;
    }

    /// The client binds a statement: what the server has must have the columns that the client knows.
    ///
    /// # Errors
    /// The server must describe it first.
    pub(super) fn check_shape(
        &mut self,
        name: &[u8],
        desk: &mut Desk<'_>,
        out: &mut BytesMut,
    ) -> Result<(), NotYet> {
        let template = desk.session.statement(name).filter(|_| !name.is_empty());
        let template = template.filter(|_| !self.first_describes).cloned();
        let Some(template) = template else {
            return Ok(());
        };
        let Some(known) = desk.session.shape(template.statement_id) else {
            return Ok(());
        };
        let Known { name, key, .. } = self.make_known(name, desk, out);
        let Some(key) = key else {
            return Ok(());
        };
        match desk.server.shape(key) {
            Some(shape) if shape == known => Ok(()),
            Some(_) => {
                // Whoever prepares the text now has a statement of its own, which no server has with the old columns.
                desk.templates.retire(&template);
                self.refuse_message(Refusal::OtherColumns, out);
                Ok(())
            }
            None => {
                Target::Statement(&name).write(out, frontend::tag::DESCRIBE);
                frame::write_empty(out, frontend::tag::FLUSH);
                self.expect.push_back(Expect::Shape { key });
                self.describing = true;
                Err(NotYet::Describing)
            }
        }
    }

    /// The server describes a statement; until then it gets nothing more of the client.
    pub fn is_describing(&self) -> bool {
        self.describing
    }

    /// The server has described the statement.
    pub(super) fn shape_is(&mut self, frame: Frame<'_>, desk: &mut Desk<'_>) {
        if let Some(Expect::Shape { key }) = self.expect.pop_front() {
            desk.server.has_shape(key, read_shape(frame));
        }
        self.describing = false;
    }

    /// The client is told the columns of a statement.
    pub(super) fn note_shape(&self, frame: Frame<'_>, described: Described, desk: &mut Desk<'_>) {
        let shape = read_shape(frame);
        desk.session.describe(described.statement, shape);
        if let Some(key) = described.key {
            desk.server.has_shape(key, shape);
        }
    }
}

/// What a client goes by when it reads rows: names and types, but not the format.
fn read_shape(frame: Frame<'_>) -> Shape {
    match frame.tag {
        tag::ROW_DESCRIPTION => Shape::of(backend::columns(frame.body())),
        _ => Shape::of(std::iter::empty()),
    }
}
