//! The state of a relay.

use super::commits::CommitProgress;
use super::ddl::DdlProgress;
use super::error_position::TextShift;
use super::expect::Expect;
use super::expect_queue::Expectations;
use super::portal_map::Portals;
use super::retry::Retry;
use super::settings_undo_log::SettingsUndoLog;
use super::state_policy::StatePolicy;
use super::targeted_portal::AffectedRows;
use crate::local_show::ShowSource;
use crate::parsed::ColumnsId;
use crate::server::{AcceptedParse, ServerSide};
use crate::session::ClientSession;
use crate::settings::SettingsInterner;
use crate::template::{Template, Templates};
use bytes::{Bytes, BytesMut};
use foldhash::HashSet;
use paceline_sql::{Hints, PinReason, SequenceUse};
use paceline_wire::backend::Status;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The session, the server and the process, as the relay needs them.
pub struct RelayContext<'a> {
    /// The client's session.
    pub session: &'a mut ClientSession,
    /// The state of the server connection.
    pub server: &'a mut ServerSide,
    /// The templates of the process.
    pub templates: &'a Templates,
    /// The settings of the process.
    pub interner: &'a SettingsInterner,
    /// The source for `SHOW` commands that Paceline answers.
    pub show_source: &'a dyn ShowSource,
    /// Whether the functions that a template calls may change the session in a way that its text does not show.
    pub may_change_session: &'a dyn Fn(&Template) -> bool,
    /// The treatment of state that cannot follow its client.
    pub policy: &'a StatePolicy,
    /// The template of the client's query, if the caller knows it. The text is sent to the server as it is.
    pub query: Option<&'a Arc<Template>>,
}

/// The way in which Paceline can undo a request that must change an exact number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// It does not.
    No,
    /// By a transaction. The number of rows decides between COMMIT and ROLLBACK.
    Begin,
}

impl Wrap {
    /// The wrap of a single statement that is relayed alone. The catalog analysis has no influence: the table may have changed since,
    /// and only PostgreSQL knows the number of rows.
    pub fn of(hints: Hints) -> Self {
        match hints.target_affect_row {
            Some(_) => Self::Begin,
            None => Self::No,
        }
    }
}

/// A client on a server connection.
#[derive(Debug)]
pub struct RelayState {
    pub(super) expect: Expectations,
    /// The transaction status that the server reported last.
    pub(super) status: Status,
    /// The status before the current request.
    pub(super) status_before: Status,
    /// The server reads CopyData from the client.
    pub(super) copy_in: bool,
    /// The client sent a Sync in the current copy. The server skips it if it reads it before the copy ends, else it answers
    /// it.
    pub(super) sync_in_copy: bool,
    pub(super) extended: Extended,
    /// The rest of a message of the server that is forwarded without being read.
    pub(super) body: Body,
    pub(super) request: RequestProgress,
    /// Statements bound to portals.
    pub(super) portals: Portals,
    /// The settings to which the transaction may roll back.
    pub(super) settings_undo_log: SettingsUndoLog,
    /// The state for which the client keeps the server connection beyond its transaction.
    pub(super) pinned_for: Vec<PinReason>,
    /// The client's unnamed statement whose text is not UTF-8. The server has it while its own unnamed statement is this one.
    pub(super) own_unnamed: Option<u64>,
    /// The caller knows that the client is pinned.
    pub(super) pin_reported: bool,
    pub(super) mode: RelayMode,
    /// A text of the client has prepared a statement that cannot follow it.
    pub(super) prepares: bool,
    /// The state of which the client was warned.
    pub(super) warned: Vec<PinReason>,
    /// Possible causes of changes of the session since it was idle, apart from texts that show the change.
    pub(super) untracked: Untracked,
    /// Settings that the server has reported since the session was idle, with their values before.
    pub(super) reported: BTreeMap<String, Option<String>>,
    /// Settings that texts have set since the session was idle.
    pub(super) touched: Vec<String>,
    /// Settings for which the server must be asked when the session is idle.
    pub(super) to_query: Vec<String>,
    /// A `RESET ALL` has completed since the session was idle, and after it no setting has changed without a text that shows it.
    pub(super) resets_all: bool,
    pub(super) idle_timeout: IdleTimeoutShown,
    /// See [`RelayState::first_request_describes`].
    pub(super) first_describes: bool,
    /// The columns that the server has just described, for the message that the caller passes again.
    pub(super) just_described: Option<ColumnsId>,
    pub(super) retry: Retry,
    /// The wrap of the relay's first request.
    pub(super) wrap: Wrap,
    /// The possible use of sequences by the relay's current first request.
    pub(super) first_uses: Option<SequenceUse>,
    /// See [`RelayState::discard_failed`].
    pub(super) discard_failed: bool,
    /// The server has ended the connection with an error.
    pub(super) fatal: bool,
    pub(super) saw_error: bool,
    /// Errors forwarded to the client, for [`RelayState::take_errors`].
    pub(super) errors: Vec<RelayedError>,
    /// Requests whose ReadyForQuery has been forwarded.
    pub(super) answered: u64,
    /// See [`RelayState::transactions_ended`].
    pub(super) transactions_ended: u64,
    pub(super) accepted: Vec<AcceptedParse>,
    pub(super) commits: CommitProgress,
    pub(super) ddl: DdlProgress,
    /// The database that must have no other session when the written messages arrive.
    pub(super) exclusive: Option<String>,
    /// Bytes of answers forwarded to the client.
    pub(super) forwarded: u64,
    pub(super) listen: ListenState,
    /// The cost of the messages that the current call has processed, in messages.
    pub(super) work: usize,
}

/// An error that was forwarded to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayedError {
    /// The SQLSTATE.
    pub state: [u8; 5],
    /// The number of requests that the relay had answered before that of the error.
    pub request: u64,
}

/// Whether the client has sent a part of a request by the extended protocol, and not its `Sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extended {
    /// The client has sent none.
    No,
    /// The client has sent a part. The server keeps the implicit transaction of the request open.
    Open,
    /// As `Open`. Before the relay processes the client's next message, the server describes a statement whose columns the
    /// client knows.
    Describing,
    /// The server has reported an error and skips messages up to the client's `Sync`.
    Skipping,
}

/// `pool_mode` of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelayMode {
    /// The client returns the server connection when its transaction ends, unless state pins it.
    Transaction,
    /// The client keeps the server connection until it disconnects.
    Session,
}

/// The rest of a body that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Forward(usize),
    Swallow(usize),
}

/// The progress of the current request, since the last ReadyForQuery.
#[derive(Debug, Default)]
pub(super) struct RequestProgress {
    /// The server has sent an error.
    pub(super) failed: bool,
    /// The request may have begun a transaction block. The server reports it when the request ends.
    pub(super) may_have_begun: bool,
    /// The client may have removed the state for which it is pinned.
    pub(super) may_unpin: bool,
    /// Settings with which the session began, and which a RESET has set to the server's default.
    pub(super) taken_away: FxHashSet<String>,
    /// The difference between the text on the server and the client's.
    pub(super) text_shift: Option<TextShift>,
    /// The statement that a PREPARE creates that is forwarded as it is.
    pub(super) prepares: Option<(Box<[u8]>, Arc<Template>)>,
    /// The name of the statement whose `Parse` the server has rejected.
    pub(super) refused_name: Box<[u8]>,
    /// The last report of each setting. The client receives them when the request ends.
    pub(super) statuses: Vec<(String, Bytes)>,
    /// The hints of the last completed statement.
    pub(super) hints: Hints,
    /// A failed statement has the hint `ROLLBACK_ON_FAIL`.
    pub(super) rolls_back: bool,
    /// Number of rows that the last statement with hints has changed.
    pub(super) rows: Option<AffectedRows>,
    /// The answer from the last CommandComplete on, until the transaction has ended as the hint demands.
    pub(super) held: BytesMut,
    /// The end of the transaction that Paceline has begun.
    pub(super) ending: Option<TransactionEnd>,
}

/// The way in which Paceline ends a hinted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionEnd {
    /// With COMMIT.
    Commit,
    /// With ROLLBACK.
    Rollback,
    /// By putting it into the failed state.
    Fail,
}

/// The possible causes of a change of the session since it was idle, apart from texts that show the change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Untracked {
    #[default]
    Nothing,
    /// Functions were called.
    FunctionsCalled,
    /// A text that may have done anything.
    Anything,
}

/// Whether the client's `idle_session_timeout` is in force on the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum IdleTimeoutShown {
    #[default]
    No,
    /// A statement may have changed it.
    Unknown,
    /// Paceline has set it.
    Yes,
}

/// The relay's part of the shared `LISTEN`.
#[derive(Debug, Default)]
pub(super) struct ListenState {
    /// The shared connection knows which server executes the client's transaction.
    pub(super) registered: bool,
    /// The shared connection knows that the transaction changes the client's channels.
    pub(super) changes: bool,
    /// The shared connection has reserved these channels for the transaction.
    pub(super) reserved: HashSet<String>,
    /// The error of the shared connection.
    pub(super) refused: Option<Bytes>,
    /// A statement of the transaction may have notified.
    pub(super) notifies: bool,
    /// ReadyForQuery, until the notifications have been received.
    pub(super) ready: Option<Bytes>,
    /// `DISCARD ALL` has completed.
    pub(super) unlistens_all: bool,
}

/// The treatment of a message of the server.
pub(super) enum Disposition {
    Forward,
    Swallow,
    /// The client receives this instead.
    Instead(Bytes),
    /// The message is held until the transaction has ended as the hint demands.
    Hold,
}

impl Disposition {
    /// Of a message that answers Paceline's own message, or one of the client's.
    pub(super) fn of(own: bool) -> Self {
        match own {
            true => Self::Swallow,
            false => Self::Forward,
        }
    }
}

impl RelayState {
    pub(super) fn expecting<const N: usize>(expect: [Expect; N], wrap: Wrap) -> Self {
        Self {
            expect: expect.into(),
            status: Status::Idle,
            status_before: Status::Idle,
            copy_in: false,
            sync_in_copy: false,
            extended: Extended::No,
            body: Body::Forward(0),
            request: RequestProgress::default(),
            portals: Portals::default(),
            settings_undo_log: SettingsUndoLog::default(),
            pinned_for: Vec::new(),
            own_unnamed: None,
            pin_reported: false,
            mode: RelayMode::Transaction,
            prepares: false,
            warned: Vec::new(),
            untracked: Untracked::default(),
            reported: BTreeMap::new(),
            touched: Vec::new(),
            to_query: Vec::new(),
            resets_all: false,
            just_described: None,
            idle_timeout: IdleTimeoutShown::No,
            first_describes: false,
            retry: Retry::default(),
            wrap,
            first_uses: None,
            discard_failed: false,
            fatal: false,
            saw_error: false,
            errors: Vec::new(),
            answered: 0,
            transactions_ended: 0,
            accepted: Vec::new(),
            commits: CommitProgress::default(),
            ddl: DdlProgress::default(),
            exclusive: None,
            forwarded: 0,
            listen: ListenState::default(),
            work: 0,
        }
    }
}
