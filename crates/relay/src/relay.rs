//! A relay: one client on one server connection, for one request or until the transaction ends.
//!
//! The relay forwards messages as they are, except for three things: it renames prepared statements, it prepares statements
//! that the server does not have, and it ends transactions as hints demand. It forwards the bodies of rows and COPY data in
//! slices as they arrive.
//!
//! From the client: `client_messages` reads each message, `long_messages` those that are too long to be read as a whole.
//! `statements_by_name` (PREPARE and EXECUTE), `statement_names` and `portals` (with `portal_map`) handle prepared statements, `session_pooling`
//! the same for `pool_mode` session. `injected_statements` writes Paceline's own statements.
//!
//! `plain` is the short way of most single statements: without a relay, if PostgreSQL answers with nothing but rows.
//!
//! For each message sent, `expect_queue` holds an `Expect` (chapter "Message Flow").
//!
//! From the server: `server_messages` matches each message with the queue. `commits` and `ddl` note committed writes and changes of the
//! catalog. `errors`, `error_position` and `hints` handle errors and the end of hinted transactions, `targeted_portal` row limits of
//! statements that must affect an exact number of rows, `columns` the columns that a client knows, `copy` COPY FROM STDIN, and `retry`
//! plans that no longer fit. `listening` holds answers until notifications have arrived.
//!
//! State: `state` holds all of it. `effects` determines what a statement changes, and `text_changes` distributes that among the
//! statements of a text. `session_changes` applies it (`settings_undo_log`, `reported_settings`, `sequences`,
//! `idle_session_timeout`), `pin` decides whether the client keeps its server, and `session_query` asks the server, by
//! `state_policy`. `tokenization` says which texts have unknown effects. `refusal` holds the errors that Paceline raises,
//! `not_yet` why a message must be passed again.

mod client_messages;
mod columns;
mod commits;
mod copy;
mod ddl;
mod effects;
mod error_position;
mod errors;
mod expect;
mod expect_queue;
mod hints;
mod idle_session_timeout;
mod injected_statements;
mod listening;
mod long_messages;
mod not_yet;
mod pin;
mod plain;
mod portal_map;
mod portals;
mod refusal;
mod reported_settings;
mod retry;
mod sequences;
mod server_messages;
mod session_changes;
mod session_pooling;
mod session_query;
mod settings_undo_log;
mod state;
mod state_policy;
mod statement_names;
mod statements_by_name;
mod targeted_portal;
mod text_changes;
mod tokenization;

use crate::commits::CommitCounts;
use crate::request::{PartialAnswer, RequestForm};
use crate::server::AcceptedParse;
use bytes::BytesMut;
pub use ddl::Ddl;
use expect::{Execution, Expect};
pub use not_yet::{ListenNeed, NotYet};
use paceline_sql::PinReason;
use paceline_wire::backend::Status;
pub use plain::PlainStatement;
use retry::Retry;
pub use server_messages::MESSAGES_MAX;
use state::{Body, Extended, RelayMode};
pub use state::{RelayContext, RelayState, RelayedError, Wrap};
pub use state_policy::{ListenMode, SessionStateMode, StatePolicy};

#[cfg(test)]
mod tests;

/// Maximum number of answers that a server may owe to one client. The caller reads no more from the client until there are
/// fewer.
pub const EXPECTED_MAX: usize = 16 * 1024;

/// Number of accepted statements from which on the caller should take them.
const ACCEPTED_MAX: usize = 1_024;

impl RelayState {
    /// Starts the relay of a client on an idle server connection that has the client's settings. Appends to `out` what the
    /// server must receive first.
    pub fn start(context: &mut RelayContext<'_>, wrap: Wrap, out: &mut BytesMut) -> Self {
        let mut relay = Self::expecting([], wrap);
        relay.close_pending(context, out);
        if wrap == Wrap::Begin {
            relay.begin_transaction(context, out);
        }
        relay
    }

    /// The request that a pinned client begins now must change an exact number of rows. The relay must be idle
    /// ([`RelayState::is_idle`]).
    pub fn begin_transaction(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        self.wrap = Wrap::Begin;
        self.inject_query("BEGIN", Expect::InjectedQuery, context, out);
    }

    /// Whether the client has sent a part of a request, and no transaction block is open. Then the caller may call
    /// [`RelayState::begin_mid_request`].
    pub fn is_mid_request(&self) -> bool {
        let alone = self.status == Status::Idle && self.wrap == Wrap::No;
        let open = matches!(self.extended, Extended::Open | Extended::Describing);
        alone && open && !self.copy_in && !self.request.may_have_begun
    }

    /// The next statement of the request must change an exact number of rows. Begins a transaction, which includes the
    /// request's earlier statements.
    pub fn begin_mid_request(&mut self, out: &mut BytesMut) {
        self.wrap = Wrap::Begin;
        self.inject_mid_request("BEGIN", out);
    }

    /// Whether the server owes no answer and no transaction is open.
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && self.status == Status::Idle
    }

    /// A client takes over a server connection whose answer to a group is under way. Returns the beginning of that answer,
    /// for the client.
    pub fn take_over(partial: PartialAnswer) -> (Self, BytesMut) {
        let execution = Execution::default();
        let mut relay = match partial.form {
            RequestForm::Simple => Self::expecting([Expect::query(execution)], Wrap::No),
            RequestForm::Extended { .. } => {
                Self::expecting([Expect::Execute(execution), Expect::Sync], Wrap::No)
            }
        };
        relay.forwarded = partial.answer.len() as u64;
        (relay, partial.answer)
    }

    /// The client keeps its server connection until it disconnects.
    pub fn use_session_pooling(&mut self) {
        self.mode = RelayMode::Session;
    }

    pub(super) fn is_session_pooling(&self) -> bool {
        self.mode == RelayMode::Session
    }

    /// Whether the relay has ended: it is idle, and the client does not keep the server connection.
    pub fn is_over(&self) -> bool {
        self.is_idle()
            && self.pinned_for.is_empty()
            && self.to_query.is_empty()
            && !self.is_session_pooling()
            && !self.awaits_notifications()
    }

    /// Whether only a part of a message has been forwarded to the client.
    pub fn is_mid_message(&self) -> bool {
        matches!(self.body, Body::Forward(left) if left > 0)
    }

    /// Whether the server owes no answer and the client has sent no part of a request.
    pub fn is_quiet(&self) -> bool {
        self.expect.is_empty()
            && !self.copy_in
            && self.extended == Extended::No
            && self.body == Body::Forward(0)
    }

    /// Whether the client must send more before the server answers: between the requests of a transaction, in COPY IN, and
    /// in a request that is relayed while it arrives.
    pub fn awaits_client(&self) -> bool {
        self.copy_in || (!self.is_describing() && !self.expect.owe_boundary())
    }

    /// The transaction status that the server reported last.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the client has been pinned beyond its transaction since the last call.
    pub fn take_new_pin(&mut self) -> bool {
        let noted = std::mem::take(&mut self.pin_reported) && !self.pinned_for.is_empty();
        let keeps = self.is_idle() && !self.pinned_for.is_empty() && !self.is_session_pooling();
        self.pin_reported = noted || keeps;
        keeps && !noted
    }

    /// The state for which the client keeps its server connection.
    pub fn pinned_for(&self) -> &[PinReason] {
        &self.pinned_for
    }

    /// The state of which the client was warned (`session_state = warn`).
    pub fn warned(&self) -> &[PinReason] {
        &self.warned
    }

    /// Whether the server has ended the connection with an error.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// Whether an error was forwarded to the client.
    pub fn saw_error(&self) -> bool {
        self.saw_error
    }

    /// The errors forwarded to the client since the last call.
    pub fn take_errors(&mut self) -> Vec<RelayedError> {
        std::mem::take(&mut self.errors)
    }

    /// Number of requests that are answered: the client has their ReadyForQuery, or waits only for notifications.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Number of transactions, and requests outside transactions, that have ended.
    pub fn transactions_ended(&self) -> u64 {
        self.transactions_ended
    }

    /// Named statements of the client that PostgreSQL has accepted since the last call.
    pub fn take_accepted(&mut self) -> Vec<AcceptedParse> {
        std::mem::take(&mut self.accepted)
    }

    /// The commits that the server has acknowledged since the last call.
    pub fn take_commits(&mut self) -> CommitCounts {
        self.commits.take()
    }

    /// The change of the catalog that transactions may have made which have ended since the last call.
    pub fn take_ended_ddl(&mut self) -> Option<Ddl> {
        self.ddl.ended.take()
    }

    /// The change of the catalog that the open transaction may have made. If the connection is lost, it may be committed.
    pub fn open_ddl(&self) -> Option<Ddl> {
        self.ddl.open
    }

    /// Whether the caller should call [`RelayState::take_accepted`] before the request ends.
    pub fn has_accepted_many(&self) -> bool {
        self.accepted.len() >= ACCEPTED_MAX
    }

    /// Whether the server owes so many answers that the caller should read no more from the client.
    pub fn owes_many_answers(&self) -> bool {
        self.expect.len() >= EXPECTED_MAX
    }

    /// The database that must have no other session when the written messages arrive at the server. Returned once.
    pub fn take_exclusive(&mut self) -> Option<String> {
        self.exclusive.take()
    }

    /// Bytes of answers forwarded so far.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// The first request is complete, and the caller can repeat it.
    pub fn allow_retry(&mut self) {
        self.retry = Retry::Allowed { answered: 0 };
    }

    /// The client has sent more than the first request.
    pub fn forbid_retry(&mut self) {
        self.retry.answered();
    }

    /// Whether the caller must repeat the first request. True once.
    pub fn take_retry(&mut self) -> bool {
        let Retry::Ready { answered } = self.retry else {
            return false;
        };
        self.retry = Retry::Running {
            replies: answered,
            messages: answered,
        };
        true
    }
}
