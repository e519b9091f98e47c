//! The part of a client's session that follows the client from server to server: prepared statements, settings, channels.
//! The modules below decide on its requests.

use crate::parsed::ClientParse;
use crate::request::{Request, RequestForm};
use crate::sequences::SequenceToken;
use crate::settings::SessionSettings;
pub use listening::ClientListening;
pub(crate) use listening::{lists_channels, only_lists_channels};
use paceline_wire::frontend::{BindNames, Parse, tag};
pub use plan::RequestPlan;
pub(crate) use single_statement::SingleStatement;
use single_statement::{begins_parsed, described_columns};
pub use statements::{CLIENT_STATEMENTS_MAX, ClientStatements, Undo};
use std::sync::Arc;

mod commands;
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
    /// The prepared statements.
    pub statements: ClientStatements,
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

    /// A group has answered the request before the time `now`: notes the statement that the request prepared or dropped, and the
    /// columns that were described to the client.
    pub fn group_answered(&mut self, request: &Request, answer: &[u8], now: u64) {
        match request.form {
            RequestForm::Simple => self.statements.close_unnamed(),
            // An error came before the server parsed the statement.
            RequestForm::Extended { parse: true, .. } if !begins_parsed(answer) => {}
            RequestForm::Extended { parse: false, .. } => {
                let bind = request.frames().find(|f| f.tag == tag::BIND);
                let bind = bind.and_then(|f| BindNames::read(f.body()).ok());
                if let (Some(bind), Some(parse), Some(columns)) = (
                    bind,
                    &request.client_parse,
                    described_columns(request, answer),
                ) {
                    self.statements
                        .note_columns(bind.statement, parse.written, columns);
                }
            }
            RequestForm::Extended { parse: true, .. } => {
                let parse = request.frames().find(|f| f.tag == tag::PARSE);
                if let Some(Ok(parse)) = parse.map(|f| Parse::read(f.body())) {
                    let client_parse = ClientParse {
                        answered: now,
                        columns: described_columns(request, answer),
                        ..ClientParse::begun(now, request.settings.id)
                    };
                    self.statements
                        .parse(parse.name, Arc::clone(&request.template), client_parse);
                }
            }
        }
    }
}
