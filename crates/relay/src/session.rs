//! A client's session as far as it must follow the client across servers: prepared statements and settings; and
//! what Paceline does with each request the client sends.

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

/// A client's session.
#[derive(Debug)]
pub struct ClientSession {
    statements: ClientStatements,
    /// Settings in force.
    pub settings: Arc<SessionSettings>,
    /// Settings the session began with: what RESET goes back to.
    pub base: Arc<SessionSettings>,
    /// Names the server connection on which it has drawn numbers of sequences last.
    pub sequences: SequenceToken,
    /// Its channels.
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

    /// The statement the client knows by that name.
    pub fn statement(&self, name: &[u8]) -> Option<&Arc<Template>> {
        self.statements.get(name)
    }

    /// When the statement of that name was analysed, and what the client knows of it.
    pub fn analysis(&self, name: &[u8]) -> Option<&Analysis> {
        self.statements.analysis(name)
    }

    /// The statement of that name, and its analysis.
    pub(crate) fn prepared(&self, name: &[u8]) -> Option<(&Arc<Template>, &Analysis)> {
        self.statements.prepared(name)
    }

    /// The client has this statement under a name, by its [`Template::statement_id`].
    pub fn has_named(&self, statement: u64) -> bool {
        self.statements.has(statement)
    }

    /// A name under which the client knows a statement, by its [`Template::statement_id`].
    pub fn name_of(&self, statement: u64) -> Option<&[u8]> {
        self.statements.name_of(statement)
    }

    /// It has no room for another statement.
    pub fn is_full(&self) -> bool {
        self.statements.is_full()
    }

    /// Named statements that the client has prepared.
    pub fn named(&self) -> usize {
        self.statements.named()
    }

    /// The client prepared a statement, which no server has seen.
    pub fn prepare(&mut self, name: &[u8], template: Arc<Template>) -> Undo {
        self.parse(name, template, Analysis::default())
    }

    /// The client's `Parse` is being written to a server.
    pub fn parse(&mut self, name: &[u8], template: Arc<Template>, analysis: Analysis) -> Undo {
        self.statements.insert(name, template, analysis)
    }

    /// A server has taken the `Parse` that has returned this, before the time `now`.
    pub fn is_analysed(&mut self, undo: &Undo, now: u64) {
        self.statements.is_analysed(undo, now);
    }

    /// The client closed a statement.
    pub fn close(&mut self, name: &[u8]) -> Undo {
        self.statements.remove(name)
    }

    /// The server sends the client the types of a statement's parameters.
    pub fn note_types(&mut self, name: &[u8], parse: u64, types: &[u8]) {
        self.statements.note_types(name, parse, types);
    }

    /// The server sends the client the columns of a statement.
    pub fn note_columns(&mut self, name: &[u8], parse: u64, columns: ColumnsId) {
        self.statements.note_columns(name, parse, columns);
    }

    /// What [`ClientSession::prepare`], [`ClientSession::close`] or [`ClientSession::close_named`] did has not taken place. What was done last is
    /// undone first.
    pub fn undo(&mut self, undo: Undo) {
        self.statements.undo(undo);
    }

    /// The client drops all statements that have names. However many there are, it takes no longer.
    pub fn close_named(&mut self) -> Undo {
        self.statements.remove_named()
    }

    /// The client dropped all statements.
    pub fn close_all(&mut self) {
        self.statements.clear();
    }

    /// A simple query destroys the unnamed statement.
    pub fn close_unnamed(&mut self) {
        self.statements.remove_unnamed();
    }

    /// A request that travelled with others was answered before the time `now`: what it says of prepared statements holds.
    pub fn group_answered(&mut self, request: &Request, answer: &[u8], now: u64) {
        match request.form {
            RequestForm::Simple => self.close_unnamed(),
            // Not parsed: the error came first.
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
