//! The progress of a group that is one statement: what the server says of the statement as a whole.

use super::messages::sqlstate;
use super::outcome::Invalidation;
use bytes::BytesMut;
use paceline_relay::server::{Injected, ServerSide};
use paceline_wire::Frame;
use paceline_wire::backend::tag;

/// How far a statement has come.
#[derive(Debug)]
pub(super) struct StatementProgress {
    injected: Injected,
    begun: bool,
    /// SQLSTATE and message of the error that undid it.
    error: Option<(String, BytesMut)>,
    /// The tables are not what the plan takes them for: the statement has done nothing.
    pub(super) facts_changed: bool,
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementEvent {
    /// A row of the result.
    Row,
    /// The end: what was done is committed.
    End,
    /// Something else.
    Other,
}

impl StatementProgress {
    /// Of a statement that was sent with these on the way.
    pub(super) fn new(injected: Injected) -> Self {
        Self {
            injected,
            begun: false,
            error: None,
            facts_changed: false,
        }
    }

    /// Takes a message.
    pub(super) fn receive(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> StatementEvent {
        match frame.tag {
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::BIND_COMPLETE => self.begun = true,
            tag::DATA_ROW => return StatementEvent::Row,
            tag::ERROR_RESPONSE => {
                let sqlstate = sqlstate(frame.body()).to_owned();
                self.error = Some((sqlstate, BytesMut::from(frame.bytes)));
            }
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                return StatementEvent::End;
            }
            _ => {}
        }
        StatementEvent::Other
    }

    /// The server has taken the statement: an error is one of carrying it out.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// SQLSTATE and whole message of the error that undid the statement.
    pub(super) fn error(&self) -> Option<(&str, &[u8])> {
        let (sqlstate, message) = self.error.as_ref()?;
        Some((sqlstate, message))
    }

    /// What no longer holds of the template. `refused` says why an error speaks against the statement itself.
    pub(super) fn invalidation(
        &self,
        refused: impl FnOnce(&str, &[u8]) -> Option<String>,
    ) -> Option<Invalidation> {
        if self.facts_changed {
            return Some(Invalidation::Changed);
        }
        let (sqlstate, message) = self.error()?;
        let why = refused(sqlstate, message)?;
        Some(Invalidation::Refused(why))
    }
}

/// What is said of a statement that the server does not take.
pub(super) fn refusal(sqlstate: &str) -> String {
    format!("the server refuses the statement with SQLSTATE {sqlstate}")
}
