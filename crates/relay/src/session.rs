//! The part of a client's session that follows the client from server to server: prepared statements,
//! settings, channels. The modules below decide what becomes of its requests.

use crate::analysis::{Analysis, ColumnsId};
use crate::request::{Request, RequestForm};
use crate::sequences::SequenceToken;
use crate::settings::SessionSettings;
use crate::template::Template;
pub use listening::ClientListening;
pub(crate) use listening::{lists_channels, only_lists_channels};
use paceline_wire::frontend::{Parse, tag};
pub use plan::RequestPlan;
use single_statement::begins_parsed;
use statements::ClientStatements;
pub use statements::{CLIENT_STATEMENTS_MAX, Undo};
use std::sync::Arc;

mod exact_rows;
mod listening;
mod local_answers;
mod plan;
mod single_statement;
mod statements;

#[cfg(test)]
mod tests;

/// The part of a client's session that Paceline tracks.
#[derive(Debug)]
pub struct ClientSession {
    statements: ClientStatements,
    /// The settings in force.
    pub settings: Arc<SessionSettings>,
    /// The settings with which the session began. RESET returns to them.
    pub base: Arc<SessionSettings>,
    /// Identifies the server connection on which the client drew sequence values last.
    pub sequences: SequenceToken,
    /// The channels on which the client listens.
    pub listening: ClientListening,
}

impl ClientSession {
    /// A session that begins with these settings.
    pub fn new(settings: Arc<SessionSettings>) -> Self {
        Self {
            statements: ClientStatements::default(),
            base: Arc::clone(&settings),
            settings,
            sequences: SequenceToken::default(),
            listening: ClientListening::default(),
        }
    }

    /// The client's prepared statement with this name.
    pub fn statement(&self, name: &[u8]) -> Option<&Arc<Template>> {
        self.statements.get(name)
    }

    /// The analysis of the client's prepared statement with this name.
    pub fn analysis(&self, name: &[u8]) -> Option<&Analysis> {
        self.statements.analysis(name)
    }

    /// The client's prepared statement with this name, and its analysis.
    pub(crate) fn prepared(&self, name: &[u8]) -> Option<(&Arc<Template>, &Analysis)> {
        self.statements.prepared(name)
    }

    /// Whether the client has a named statement with this [`Template::statement_id`].
    pub fn has_named(&self, statement: u64) -> bool {
        self.statements.has(statement)
    }

    /// A name under which the client has the statement with this [`Template::statement_id`].
    pub fn name_of(&self, statement: u64) -> Option<&[u8]> {
        self.statements.name_of(statement)
    }

    /// Whether the client has [`CLIENT_STATEMENTS_MAX`] statements.
    pub fn is_full(&self) -> bool {
        self.statements.is_full()
    }

    /// Number of the client's named statements.
    pub fn named(&self) -> usize {
        self.statements.named()
    }

    /// The client has prepared a statement, and no server has parsed it.
    pub fn prepare(&mut self, name: &[u8], template: Arc<Template>) -> Undo {
        self.parse(name, template, Analysis::default())
    }

    /// The client's `Parse` is being written to a server.
    pub fn parse(&mut self, name: &[u8], template: Arc<Template>, analysis: Analysis) -> Undo {
        self.statements.insert(name, template, analysis)
    }

    /// A server accepted the `Parse` for which `undo` was returned, before the time `now`.
    pub fn is_analysed(&mut self, undo: &Undo, now: u64) {
        self.statements.is_analysed(undo, now);
    }

    /// The client has closed a statement.
    pub fn close(&mut self, name: &[u8]) -> Undo {
        self.statements.remove(name)
    }

    /// The server describes the parameters of a statement to the client. `parse`: the [`Analysis::parse`] of
    /// that statement.
    pub fn note_types(&mut self, name: &[u8], parse: u64, types: &[u8]) {
        self.statements.note_types(name, parse, types);
    }

    /// The server describes the columns of a statement to the client. `parse`: as of
    /// [`ClientSession::note_types`].
    pub fn note_columns(&mut self, name: &[u8], parse: u64, columns: ColumnsId) {
        self.statements.note_columns(name, parse, columns);
    }

    /// Undoes the call that returned `undo`. The caller undoes the last call first.
    pub fn undo(&mut self, undo: Undo) {
        self.statements.undo(undo);
    }

    /// The client drops all named statements. The cost does not depend on their number.
    pub fn close_named(&mut self) -> Undo {
        self.statements.remove_named()
    }

    /// The client has dropped all statements.
    pub fn close_all(&mut self) {
        self.statements.clear();
    }

    /// A simple query drops the unnamed statement.
    pub fn close_unnamed(&mut self) {
        self.statements.remove_unnamed();
    }

    /// A group has answered the request before the time `now`: notes the statement that the request prepared
    /// or dropped.
    pub fn group_answered(&mut self, request: &Request, answer: &[u8], now: u64) {
        match request.form {
            RequestForm::Simple => self.close_unnamed(),
            // An error came before the server parsed the statement.
            RequestForm::Extended { .. } if !begins_parsed(answer) => {}
            RequestForm::Extended { parse: false, .. } => {}
            RequestForm::Extended { parse: true, .. } => {
                let parse = request.frames().find(|f| f.tag == tag::PARSE);
                if let Some(Ok(parse)) = parse.map(|f| Parse::read(f.body())) {
                    let analysis = Analysis {
                        since: now,
                        ..Analysis::begun(now, request.settings.id)
                    };
                    self.parse(parse.name, Arc::clone(&request.template), analysis);
                }
            }
        }
    }
}
