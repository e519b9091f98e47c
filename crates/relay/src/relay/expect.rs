//! What the server owes: one expectation per message that is answered, in the order sent.

use super::refusal::RelayRefusal;
use super::text_changes::TextChanges;
use crate::server::{Closed, StatementKey};
use crate::session::Undo;
use bytes::BytesMut;
use paceline_sql::{Hints, PinReason, SessionChange};
use paceline_wire::backend::{self, tag};
use paceline_wire::frame;

/// A statement that is described to its client.
#[derive(Debug, Clone)]
pub(super) struct DescribeTarget {
    pub(super) name: Box<[u8]>,
    /// [`Analysis::parse`](crate::analysis::Analysis::parse), as the name may have become another statement's.
    pub(super) parse: u64,
    /// `None`: it is the unnamed statement.
    pub(super) key: Option<StatementKey>,
}

/// What a server is asked about the session on it.
#[derive(Debug, Default)]
pub(super) struct SessionQuery {
    pub(super) kinds: Vec<PinReason>,
    pub(super) settings: Vec<String>,
}

/// An answer that is due.
#[derive(Debug)]
pub(super) enum Expect {
    /// The client's `Query`, up to ReadyForQuery.
    Query {
        changes: TextChanges,
        hints: Hints,
        /// It executes a prepared statement by its name, and nothing else.
        by_name: bool,
    },
    /// The empty query in place of the client's DEALLOCATE.
    Deallocate,
    /// Paceline's own `Query`: nothing of its answer reaches the client unless it fails.
    OwnQuery,
    /// Paceline's own `Query` that forgets what others have drawn from sequences.
    OwnDiscardSequences,
    /// Paceline's own end of a hinted transaction.
    OwnTransactionEnd,
    /// Paceline's own `Query` that gives a client back what it began with, after its RESET.
    OwnRestore,
    /// Paceline's own `Query` about what the session has on its server.
    OwnSessionQuery(SessionQuery),
    /// The `Sync` behind what the client's `Query` needs; then that goes out.
    SyncBeforeQuery {
        query: BytesMut,
        changes: TextChanges,
        hints: Hints,
        /// As of [`Expect::Query`].
        by_name: bool,
    },
    /// Something that fails, in place of what the client may not have.
    Refused {
        why: RelayRefusal,
        query: bool,
    },
    /// The client's `Parse`, sent on, or its `PREPARE`, sent as a `Parse`.
    Parse {
        key: Option<StatementKey>,
        undo: Undo,
        reply: StatementReply,
    },
    /// A `Bind` or `Execute` that the client knows nothing of.
    OwnStep,
    /// A `Parse` that the client knows nothing of.
    OwnParse {
        key: Option<StatementKey>,
    },
    /// What no server needs to do: statements that it has already, or keeps though the client does not.
    AnsweredHere {
        undo: Option<Undo>,
        reply: StatementReply,
    },
    /// A `Close` that the client knows nothing of.
    OwnClose {
        closed: Option<Closed>,
    },
    /// The client's `Close` of a portal.
    Close,
    /// The client's `Bind` of a statement that the server has.
    Bind {
        key: Option<StatementKey>,
        /// The client may know the columns of the statement from before.
        described: bool,
    },
    Describe(Option<DescribeTarget>),
    /// Paceline's own `Describe` of a statement whose columns the client knows.
    OwnDescribe {
        /// `None`: of the unnamed one.
        key: Option<StatementKey>,
    },
    Execute {
        changes: TextChanges,
        hints: Hints,
    },
    FunctionCall,
    /// `CopyDone` or `CopyFail`.
    CopyEnd,
    Sync,
}

/// How the client is told that its wish about a statement's name was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementReply {
    /// `ParseComplete`
    Parsed,
    /// `CloseComplete`
    Closed,
    /// `CommandComplete` of `PREPARE`
    Prepared,
    /// `CommandComplete` of `DEALLOCATE`
    Deallocated,
    /// `CommandComplete` of `DEALLOCATE ALL`
    DeallocatedAll,
    /// Not at all: what is said of another name stands for it.
    Nothing,
}

impl StatementReply {
    pub(super) fn write(self, out: &mut BytesMut) {
        match self {
            Self::Parsed => frame::write_empty(out, tag::PARSE_COMPLETE),
            Self::Closed => frame::write_empty(out, tag::CLOSE_COMPLETE),
            Self::Prepared => backend::write_command_complete(out, "PREPARE"),
            Self::Deallocated => backend::write_command_complete(out, "DEALLOCATE"),
            Self::DeallocatedAll => backend::write_command_complete(out, "DEALLOCATE ALL"),
            Self::Nothing => {}
        }
    }

    /// Told before anything was carried out, and worth nothing by itself.
    pub(super) fn is_preliminary(self) -> bool {
        matches!(self, Self::Parsed | Self::Closed)
    }
}

impl Expect {
    /// Ends with ReadyForQuery.
    pub(super) fn is_boundary(&self) -> bool {
        matches!(
            self,
            Self::Query { .. }
                | Self::Deallocate
                | Self::OwnQuery
                | Self::OwnDiscardSequences
                | Self::OwnTransactionEnd
                | Self::OwnRestore
                | Self::OwnSessionQuery(_)
                | Self::SyncBeforeQuery { .. }
                | Self::Refused { query: true, .. }
                | Self::FunctionCall
                | Self::Sync
        )
    }

    /// Its answer is not for the client.
    pub(super) fn is_own(&self) -> bool {
        matches!(
            self,
            Self::OwnQuery
                | Self::OwnDiscardSequences
                | Self::OwnTransactionEnd
                | Self::OwnRestore
                | Self::OwnSessionQuery(_)
                | Self::OwnParse { .. }
                | Self::OwnClose { .. }
                | Self::OwnDescribe { .. }
                | Self::OwnStep
        )
    }

    /// Its failure rolls the transaction back (`ROLLBACK_ON_FAIL`).
    pub(super) fn rolls_back(&self) -> bool {
        match self {
            Self::Query { hints, .. } | Self::Execute { hints, .. } => hints.rollback_on_fail,
            _ => false,
        }
    }

    /// The server carries something out that may change settings.
    pub(super) fn carries_out(&self) -> bool {
        matches!(
            self,
            Self::Query { .. }
                | Self::OwnQuery
                | Self::OwnTransactionEnd
                | Self::OwnRestore
                | Self::SyncBeforeQuery { .. }
                | Self::Execute { .. }
                | Self::FunctionCall
        )
    }

    /// Even if it fails, it may leave this behind in the session.
    pub(super) fn may_leave(&self) -> &[SessionChange] {
        match self {
            Self::Query { changes, .. } | Self::Execute { changes, .. } => changes.left(),
            _ => &[],
        }
    }
}
