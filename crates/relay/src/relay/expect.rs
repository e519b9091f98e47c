//! Expected answers of the server, one for each message that it answers.

use super::refusal::RelayRefusal;
use super::targeted_portal::TargetedExecution;
use super::text_changes::TextChanges;
use crate::server::{Closed, StatementKey};
use crate::session::Undo;
use bytes::BytesMut;
use paceline_sql::{Hints, PinReason, SessionChange};
use paceline_wire::backend::{self, tag};
use paceline_wire::frame;

/// A statement whose columns the server describes to the client.
#[derive(Debug, Clone)]
pub(super) struct DescribeTarget {
    pub(super) name: Box<[u8]>,
    /// [`ClientParse::written`](crate::parsed::ClientParse::written) of the statement. Meanwhile another statement may have the
    /// name.
    pub(super) parse: u64,
    /// `None` for the unnamed statement.
    pub(super) key: Option<StatementKey>,
}

/// Paceline's query to a server about its session: whether it has state of these kinds, and the values of these settings.
#[derive(Debug, Default)]
pub(super) struct SessionQuery {
    pub(super) kinds: Vec<PinReason>,
    pub(super) settings: Vec<String>,
}

/// The changes by the statements that the server executes for a message, and the hints of the last one.
#[derive(Debug, Default)]
pub(super) struct Execution {
    pub(super) changes: TextChanges,
    pub(super) hints: Hints,
    /// The execution of a portal whose statement must affect an exact number of rows.
    pub(super) targeted: Option<Box<TargetedExecution>>,
}

impl From<(Vec<SessionChange>, Hints)> for Execution {
    fn from((changes, hints): (Vec<SessionChange>, Hints)) -> Self {
        Self {
            changes: changes.into(),
            hints,
            targeted: None,
        }
    }
}

impl Execution {
    /// The server has sent rows.
    pub(super) fn has_rows(&mut self) {
        if let Some(targeted) = &mut self.targeted {
            targeted.has_rows = true;
        }
    }
}

/// An expected answer.
#[derive(Debug)]
pub(super) enum Expect {
    /// To the client's `Query`, up to ReadyForQuery.
    Query {
        execution: Execution,
        /// The text only executes a prepared statement.
        by_name: bool,
    },
    /// To an empty query in place of the client's DEALLOCATE.
    Deallocate,
    /// To a `Query` of Paceline's own. The client receives only its error.
    InjectedQuery,
    /// To Paceline's own `DISCARD SEQUENCES`.
    InjectedDiscardSequences,
    /// To Paceline's own COMMIT or ROLLBACK of a hinted transaction.
    InjectedTransactionEnd,
    /// To Paceline's own `Query` that sets what the client's RESET has reset on the server only.
    InjectedRestore,
    /// To Paceline's own query about the state of the session.
    InjectedSessionQuery(SessionQuery),
    /// To the `Sync` that Paceline sends before the client's `Query`. Then the `Query` is sent.
    SyncBeforeQuery {
        message: BytesMut,
        /// [`Expect::Query`]
        query: Box<Expect>,
    },
    /// To a message that fails, in place of a request that Paceline rejects.
    Refused {
        why: RelayRefusal,
        query: bool,
    },
    /// To the client's `Parse`, or to a `Parse` in place of its PREPARE.
    Parse {
        key: Option<StatementKey>,
        undo: Undo,
        reply: StatementReply,
    },
    /// To Paceline's own `Bind` or `Execute`.
    InjectedStep,
    /// To Paceline's own `Parse`.
    InjectedParse {
        key: Option<StatementKey>,
    },
    /// None: Paceline itself answers the message after the answers to earlier messages.
    AnsweredHere {
        undo: Option<Undo>,
        reply: StatementReply,
    },
    /// To Paceline's own `Close`.
    InjectedClose {
        closed: Option<Closed>,
    },
    /// To the client's `Close` of a portal.
    Close,
    /// To the client's `Bind`.
    Bind {
        key: Option<StatementKey>,
        /// The columns of the statement may have been described to the client earlier.
        described: bool,
    },
    Describe(Option<DescribeTarget>),
    /// To Paceline's own `Describe` of a statement whose columns the client knows.
    InjectedDescribe {
        /// `None` for the unnamed statement.
        key: Option<StatementKey>,
    },
    Execute(Execution),
    FunctionCall {
        /// The function is one for large objects, whose descriptors end with the transaction.
        large_object: bool,
    },
    /// To `CopyDone` or `CopyFail`.
    CopyEnd,
    Sync,
}

/// The answer to a client that prepares, closes or deallocates a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementReply {
    /// `ParseComplete`
    Parsed,
    /// `ParseComplete` of a named statement that is lost at the end of the transaction, because its text is not UTF-8.
    ParsedNotText,
    /// `CloseComplete`
    Closed,
    /// `CommandComplete` of `PREPARE`
    Prepared,
    /// `CommandComplete` of `DEALLOCATE`
    Deallocated,
    /// `CommandComplete` of `DEALLOCATE ALL`
    DeallocatedAll,
    /// No answer, because another message is answered.
    Nothing,
}

impl StatementReply {
    pub(super) fn write(self, out: &mut BytesMut) {
        match self {
            Self::Parsed | Self::ParsedNotText => frame::write_empty(out, tag::PARSE_COMPLETE),
            Self::Closed => frame::write_empty(out, tag::CLOSE_COMPLETE),
            Self::Prepared => backend::write_command_complete(out, "PREPARE"),
            Self::Deallocated => backend::write_command_complete(out, "DEALLOCATE"),
            Self::DeallocatedAll => backend::write_command_complete(out, "DEALLOCATE ALL"),
            Self::Nothing => {}
        }
    }

    /// Whether the answer precedes the execution of statements, so that the request may still be retried.
    pub(super) fn is_preliminary(self) -> bool {
        matches!(self, Self::Parsed | Self::ParsedNotText | Self::Closed)
    }
}

impl Expect {
    /// To a `Query` whose text does not only execute a prepared statement.
    pub(super) fn query(execution: impl Into<Execution>) -> Self {
        let (execution, by_name) = (execution.into(), false);
        Self::Query { execution, by_name }
    }

    /// Whether the answer ends with ReadyForQuery.
    pub(super) fn is_boundary(&self) -> bool {
        matches!(
            self,
            Self::Query { .. }
                | Self::Deallocate
                | Self::InjectedQuery
                | Self::InjectedDiscardSequences
                | Self::InjectedTransactionEnd
                | Self::InjectedRestore
                | Self::InjectedSessionQuery(_)
                | Self::SyncBeforeQuery { .. }
                | Self::Refused { query: true, .. }
                | Self::FunctionCall { .. }
                | Self::Sync
        )
    }

    /// Whether the answer is not for the client.
    pub(super) fn is_injected(&self) -> bool {
        matches!(
            self,
            Self::InjectedQuery
                | Self::InjectedDiscardSequences
                | Self::InjectedTransactionEnd
                | Self::InjectedRestore
                | Self::InjectedSessionQuery(_)
                | Self::InjectedParse { .. }
                | Self::InjectedClose { .. }
                | Self::InjectedDescribe { .. }
                | Self::InjectedStep
        )
    }

    /// Whether the transaction is rolled back if the statement fails (`ROLLBACK_ON_FAIL`).
    pub(super) fn rolls_back(&self) -> bool {
        match self {
            Self::Query { execution, .. } | Self::Execute(execution) => {
                execution.hints.rollback_on_fail
            }
            _ => false,
        }
    }

    /// Whether the server executes something that may change settings.
    pub(super) fn carries_out(&self) -> bool {
        matches!(
            self,
            Self::Query { .. }
                | Self::InjectedQuery
                | Self::InjectedTransactionEnd
                | Self::InjectedRestore
                | Self::SyncBeforeQuery { .. }
                | Self::Execute(_)
                | Self::FunctionCall { .. }
        )
    }

    /// Changes that may remain in the session even if the statement fails.
    pub(super) fn may_leave(&self) -> &[SessionChange] {
        match self {
            Self::Query { execution, .. } | Self::Execute(execution) => execution.changes.left(),
            _ => &[],
        }
    }
}
