//! The progress of a batch that is one statement, or two in one transaction: the messages of the server that concern all members.

use super::messages::sqlstate;
use super::outcome::is_refusal;
use bytes::BytesMut;
use paceline_relay::server::{Injected, ServerSide};
use paceline_wire::Frame;
use paceline_wire::backend::tag;

/// The progress of a statement.
#[derive(Debug)]
pub(super) struct StatementProgress {
    injected: Injected,
    bound: bool,
    error: Option<StatementError>,
}

/// The error that has undone a statement.
#[derive(Debug)]
pub(super) struct StatementError {
    pub(super) sqlstate: String,
    /// The whole `ErrorResponse`.
    pub(super) response: BytesMut,
    /// Whether the server had accepted `Bind`, so that the error was raised during execution.
    pub(super) in_execution: bool,
}

/// The meaning of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementEvent {
    /// A row of the result.
    Row,
    /// A statement is complete.
    Complete,
    /// The transaction has ended: its effects are committed, unless there was an error.
    End,
    /// Anything else.
    Other,
}

impl StatementProgress {
    /// `injected` are the messages that were sent.
    pub(super) fn new(injected: Injected) -> Self {
        Self {
            injected,
            bound: false,
            error: None,
        }
    }

    /// Takes a message from the server.
    pub(super) fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> StatementEvent {
        match frame.tag {
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::BIND_COMPLETE => self.bound = true,
            tag::DATA_ROW => return StatementEvent::Row,
            tag::COMMAND_COMPLETE => return StatementEvent::Complete,
            tag::ERROR_RESPONSE => {
                self.error = Some(StatementError {
                    sqlstate: sqlstate(frame.body()).to_owned(),
                    response: BytesMut::from(frame.bytes),
                    in_execution: self.bound,
                });
            }
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                return StatementEvent::End;
            }
            _ => {}
        }
        StatementEvent::Other
    }

    /// The error that has undone the statement.
    pub(super) fn error(&self) -> Option<&StatementError> {
        self.error.as_ref()
    }
}

impl StatementError {
    /// The reason why the template must not use this statement any more, if the server rejects the statement itself.
    pub(super) fn refusal(&self) -> Option<String> {
        let sqlstate = &self.sqlstate;
        is_refusal(sqlstate)
            .then(|| format!("the server refuses the statement with SQLSTATE {sqlstate}"))
    }
}
