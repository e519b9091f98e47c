//! The state of a relay.

use super::error_position::TextShift;
use super::expect::Expect;
use super::expect_queue::Expectations;
use super::retry::Retry;
use super::settings_undo_log::SettingsUndoLog;
use super::state_policy::StatePolicy;
use crate::analysis::ColumnsId;
use crate::local_show::ShowSource;
use crate::server::{ServerSide, StatementKey};
use crate::session::ClientSession;
use crate::settings::SettingsInterner;
use crate::template::{Template, Templates};
use bytes::{Bytes, BytesMut};
use foldhash::{HashMap, HashMapExt, HashSet};
use paceline_sql::{Hints, PinReason, SequenceUse, SessionChange};
use paceline_wire::backend::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a relay works with.
pub struct RelayContext<'a> {
    /// The client's session.
    pub session: &'a mut ClientSession,
    /// The far end of the server connection.
    pub server: &'a mut ServerSide,
    /// All templates.
    pub templates: &'a Templates,
    /// All settings.
    pub interner: &'a SettingsInterner,
    /// What Paceline itself answers.
    pub show_source: &'a dyn ShowSource,
    /// Does this template call functions that may change the session in ways its text does not tell?
    pub may_change_session: &'a dyn Fn(&Template) -> bool,
    /// What becomes of state that cannot follow its client.
    pub policy: &'a StatePolicy,
    /// What the client's query is, if somebody has found out already; its text goes to the server as it is.
    pub query: Option<&'a Arc<Template>>,
}

/// How a hinted request that is not in a transaction gets one, so that it can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// Not at all.
    No,
    /// `BEGIN` goes first: the number of rows decides between COMMIT and ROLLBACK.
    Begin,
    /// It changes one row or none, and must change one: if it changed none there is nothing to undo.
    OneRow,
}

/// A client on a server connection.
#[derive(Debug)]
pub struct RelayState {
    pub(super) expect: Expectations,
    /// Transaction status that the server reported last.
    pub(super) status: Status,
    /// Status before the request that is under way.
    pub(super) status_before: Status,
    /// The server takes CopyData from the client.
    pub(super) copy_in: bool,
    /// The copy under way has a Sync in it: the server skips it if it reads it before the copy ends, else it answers it.
    pub(super) sync_in_copy: bool,
    pub(super) extended: Extended,
    /// Rest of a message from the server whose body nobody inspects.
    pub(super) body: Body,
    /// What the request under way has shown so far.
    pub(super) request: RequestProgress,
    /// Statements bound to portals.
    pub(super) portals: HashMap<Box<[u8]>, Portal>,
    /// Settings that the transaction may still undo.
    pub(super) settings_undo_log: SettingsUndoLog,
    /// What the client keeps this server for beyond its transaction.
    pub(super) pinned_for: Vec<PinReason>,
    /// That it keeps this server has been noted.
    pub(super) pin_reported: bool,
    /// The client keeps this server whatever it does (`pool_mode` session).
    pub(super) pooling: Pooling,
    /// Its text has prepared a statement that cannot move.
    pub(super) prepares: bool,
    /// What the client was warned of.
    pub(super) warned: Vec<PinReason>,
    /// What may have changed the session since it was idle, unseen.
    pub(super) untracked: Untracked,
    /// Settings that the server has reported since the session was idle, as they were before.
    pub(super) reported: BTreeMap<String, Option<String>>,
    /// Settings that the text has set since the session was idle.
    pub(super) touched: Vec<String>,
    /// Settings that the server is to be asked for when the session is idle.
    pub(super) to_query: Vec<String>,
    /// `RESET ALL` has been carried out since the session was idle.
    pub(super) resets_all: bool,
    /// `idle_session_timeout`.
    pub(super) idle_timeout: IdleTimeoutShown,
    /// See [`RelayState::first_request_describes`].
    pub(super) first_describes: bool,
    /// Its columns, for the message that comes again.
    pub(super) just_described: Option<ColumnsId>,
    /// May the relay's first request be carried out once more?
    pub(super) retry: Retry,
    /// The wrap of the relay's first request.
    pub(super) wrap: Wrap,
    /// What the relay's first request may do with sequences, while it is under way.
    pub(super) first_uses: Option<SequenceUse>,
    /// See [`RelayState::discard_failed`].
    pub(super) discard_failed: bool,
    /// The server said that it ends the connection.
    pub(super) fatal: bool,
    pub(super) saw_error: bool,
    /// SQLSTATEs of errors that the client was told of and nobody has taken.
    pub(super) errors: Vec<[u8; 5]>,
    pub(super) accepted: Vec<StatementKey>,
    /// What is about to go to the server fails if another session is in this database.
    pub(super) exclusive: Option<String>,
    /// Bytes of answers that reached the client.
    pub(super) forwarded: u64,
    /// What the shared LISTEN has to do with it.
    pub(super) listen: ListenState,
    /// What the messages of the server have cost in the call under way, in messages.
    pub(super) work: usize,
}

/// Whether the client has sent a part of a request by the extended protocol, and not its `Sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extended {
    /// The client has sent none.
    No,
    /// The server keeps the implicit transaction of the request open.
    Open,
    /// As `Open`. Before the relay accepts the client's next message, the server describes a statement whose columns the client
    /// knows.
    Describing,
    /// The server has reported an error and skips messages up to the client's `Sync`.
    Skipping,
}

/// `pool_mode` of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// The client returns the server connection when its transaction ends, unless state pins it.
    Transaction,
    /// The client keeps the server connection until it disconnects.
    Session,
}

/// The rest of a body that passes unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Forward(usize),
    Swallow(usize),
}

/// What is known of the request under way: since the last ReadyForQuery.
#[derive(Debug, Default)]
pub(super) struct RequestProgress {
    /// An ErrorResponse came.
    pub(super) failed: bool,
    /// It may have begun a transaction block, of which the server tells at its end.
    pub(super) may_have_begun: bool,
    /// The client may have let go of what it keeps.
    pub(super) may_unpin: bool,
    /// Settings that the session began with, and a RESET took away on the server.
    pub(super) taken_away: BTreeSet<String>,
    /// Where the text that went to the server differs from the client's.
    pub(super) text_shift: Option<TextShift>,
    /// What it prepares by a query, where that passes as it is.
    pub(super) prepares: Option<(Box<[u8]>, Arc<Template>)>,
    /// The name that the client has tried to give a statement, if that was refused.
    pub(super) refused_name: Box<[u8]>,
    /// What the server reported since then: the client is told the last of it.
    pub(super) statuses: Vec<(String, Bytes)>,
    /// Hints of the last statement that completed.
    pub(super) hints: Hints,
    /// A statement that failed wants its transaction rolled back.
    pub(super) rolls_back: bool,
    /// Rows its last statement touched.
    pub(super) rows: Option<u64>,
    /// The answer from its last CommandComplete on, kept until the transaction has ended as hinted.
    pub(super) held: BytesMut,
    /// Paceline is ending the transaction.
    pub(super) ending: Option<TransactionEnd>,
}

/// How Paceline ends a hinted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionEnd {
    /// With COMMIT.
    Commit,
    /// With ROLLBACK.
    Rollback,
    /// Into the failed state.
    Fail,
}

/// What may have changed the session since it was idle, without the text telling how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Untracked {
    /// Nothing.
    #[default]
    Nothing,
    /// Functions were called.
    Called,
    /// The text itself may have done anything.
    Anything,
}

/// Is the client's value in force on its server?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum IdleTimeoutShown {
    /// No.
    #[default]
    No,
    /// It was, and may be still.
    Unknown,
    /// Yes, by Paceline.
    Yes,
}

/// The state of a relay.
#[derive(Debug, Default)]
pub(super) struct ListenState {
    /// The shared connection knows that the server carries out the client's transaction.
    pub(super) is_known: bool,
    /// … and that it changes on what its client listens …
    pub(super) changes: bool,
    /// … and listens on these channels for it.
    pub(super) reserved: HashSet<String>,
    /// The shared connection could not.
    pub(super) refused: Option<Bytes>,
    /// A statement of the transaction may have notified.
    pub(super) notifies: bool,
    /// ReadyForQuery, until notifications have been received.
    pub(super) ready: Option<Bytes>,
    /// `DISCARD ALL` has been carried out.
    pub(super) unlistens_all: bool,
}

/// A statement with its values.
#[derive(Debug)]
pub(super) struct Portal {
    pub(super) template: Arc<Template>,
    /// The statement's name.
    pub(super) statement: Box<[u8]>,
    /// Under which the server has it. `None`: it is the unnamed one.
    pub(super) key: Option<StatementKey>,
    /// What it sets, where a value decides.
    pub(super) sets: Vec<SessionChange>,
    /// It was executed here, not by a server; PostgreSQL executes such a portal once.
    pub(super) done: bool,
}

/// What happens to a message of the server.
pub(super) enum Disposition {
    Forward,
    Swallow,
    /// The client is told this instead.
    Instead(Bytes),
    /// PinReason until the transaction has ended as the hint wants.
    Hold,
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
            portals: HashMap::new(),
            settings_undo_log: SettingsUndoLog::default(),
            pinned_for: Vec::new(),
            pin_reported: false,
            pooling: Pooling::Transaction,
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
            accepted: Vec::new(),
            exclusive: None,
            forwarded: 0,
            listen: ListenState::default(),
            work: 0,
        }
    }
}
