//! What the server owes: one expectation per message that is answered, in the order sent.

use crate::server::{Closed, StatementKey};
use crate::session::Undo;
use paceline_sql::{Hints, SessionChange};

/// An answer that is due.
#[derive(Debug)]
pub(super) enum Expect {
    /// The client's `Query`, up to ReadyForQuery.
    Query {
        changes: Vec<SessionChange>,
        hints: Hints,
    },
    /// The empty query in place of the client's DEALLOCATE.
    Deallocate,
    /// Paceline's own `Query`: nothing of its answer reaches the client unless it fails.
    OwnQuery,
    /// Paceline's own end of a hinted transaction.
    Ending,
    /// The client's `Parse`, sent on.
    Parse {
        key: Option<StatementKey>,
        undo: Undo,
    },
    /// A `Parse` that the client knows nothing of.
    OwnParse {
        key: Option<StatementKey>,
    },
    /// The client's `Parse` of a statement that the server has already.
    ParseDone {
        undo: Undo,
    },
    /// A `Close` that the client knows nothing of.
    OwnClose {
        closed: Option<Closed>,
    },
    /// The client's `Close` of a portal.
    Close,
    /// The client's `Close` of a statement: servers keep theirs.
    CloseDone {
        undo: Undo,
    },
    /// The client's `Bind` of a statement that the server has.
    Bind {
        key: Option<StatementKey>,
    },
    Describe,
    Execute {
        changes: Vec<SessionChange>,
        hints: Hints,
    },
    FunctionCall,
    /// `CopyDone` or `CopyFail`.
    CopyEnd,
    Sync,
}

impl Expect {
    /// Ends with ReadyForQuery.
    pub(super) fn is_boundary(&self) -> bool {
        matches!(
            self,
            Self::Query { .. }
                | Self::Deallocate
                | Self::OwnQuery
                | Self::Ending
                | Self::FunctionCall
                | Self::Sync
        )
    }

    /// Its answer is not for the client.
    pub(super) fn is_own(&self) -> bool {
        matches!(
            self,
            Self::OwnQuery | Self::Ending | Self::OwnParse { .. } | Self::OwnClose { .. }
        )
    }

    /// Its failure rolls the transaction back (`ROLLBACK_ON_FAIL`).
    pub(super) fn rolls_back(&self) -> bool {
        match self {
            Self::Query { hints, .. } | Self::Execute { hints, .. } => hints.rollback_on_fail,
            _ => false,
        }
    }

    /// Even if it fails, it may leave something behind in the session.
    pub(super) fn may_leave_something(&self) -> bool {
        let leaves = |c: &SessionChange| matches!(c, SessionChange::Pin(_) | SessionChange::Taint);
        match self {
            Self::Query { changes, .. } | Self::Execute { changes, .. } => {
                changes.iter().any(leaves)
            }
            _ => false,
        }
    }
}
