//! A relay: one client relayed to one server, for a request (solo) or until its transaction ends (lease).
//!
//! The relay changes only what it must: names of prepared statements, statements prepared lazily, and what the
//! hints of a statement ask for at the end of its transaction. Everything else passes as it came; bodies that
//! nobody inspects are forwarded in slices as they arrive.
//!
//! What comes back is matched with what went out by a queue of expectations (chapter "Message Flow").

mod client_messages;
mod columns;
mod copy;
mod error_position;
mod errors;
mod expect;
mod expect_queue;
mod hints;
mod idle_session_timeout;
mod listening;
mod long_messages;
mod not_yet;
mod own_statements;
mod pin;
mod portals;
mod refusal;
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
mod text_changes;
mod tokenization;

use crate::request::PartialAnswer;
use crate::request::RequestForm;
use crate::server::StatementKey;
use bytes::BytesMut;
use expect::Expect;
pub use not_yet::{ListenNeed, NotYet};
use paceline_sql::{Hints, PinReason};
use paceline_wire::backend::Status;
pub use server_messages::MESSAGES_MAX;
use state::{Body, Extended, Pooling};
pub use state::{RelayContext, RelayState, Wrap};
pub use state_policy::{ListenMode, SessionStateMode, StatePolicy};

#[cfg(test)]
mod tests;

/// Answers that a server owes to one client at most: then the client is not listened to until there are fewer.
pub const EXPECTED_MAX: usize = 16 * 1024;

/// Accepted statements that a relay keeps before its caller should take them.
const ACCEPTED_MAX: usize = 1_024;

impl RelayState {
    /// A client boards an idle server on which its settings are in force; `out` gets what must reach the server
    /// first.
    pub fn start(context: &mut RelayContext<'_>, wrap: Wrap, out: &mut BytesMut) -> Self {
        let mut relay = Self::expecting([], wrap);
        relay.close_pending(context, out);
        if wrap == Wrap::Begin {
            relay.begin_transaction(context, out);
        }
        relay
    }

    /// Of a client that keeps its server: the request that it begins now must touch an exact number of rows. Only when the server
    /// owes nothing and is in no transaction ([`RelayState::is_idle`]).
    pub fn begin_transaction(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        paceline_wire::frontend::write_query(out, "BEGIN");
        context.server.unnamed = None;
        self.wrap = Wrap::Begin;
        self.expect.push_back(Expect::OwnQuery);
    }

    /// The client has begun a request, and is in no transaction block: [`RelayState::begin_mid_request`] makes it one.
    pub fn is_mid_request(&self) -> bool {
        let alone = self.status == Status::Idle && self.wrap == Wrap::No;
        let open = matches!(self.extended, Extended::Open | Extended::Describing);
        alone && open && !self.copy_in && !self.request.may_have_begun
    }

    /// The request that the client has begun must touch an exact number of rows with what comes now. What it has done so far is part
    /// of the same transaction.
    pub fn begin_mid_request(&mut self, out: &mut BytesMut) {
        self.wrap = Wrap::Begin;
        self.own_mid_request("BEGIN", out);
    }

    /// The server owes no answer, and is in no transaction.
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && self.status == Status::Idle
    }

    /// A client takes over a server whose rows for it are coming in already; the client gets what came before.
    pub fn take_over(partial: PartialAnswer) -> (Self, BytesMut) {
        let (changes, hints) = (Vec::new().into(), Hints::default());
        let mut relay = match partial.form {
            RequestForm::Simple => {
                let query = Expect::Query {
                    changes,
                    hints,
                    by_name: false,
                };
                Self::expecting([query], Wrap::No)
            }
            RequestForm::Extended { .. } => {
                Self::expecting([Expect::Execute { changes, hints }, Expect::Sync], Wrap::No)
            }
        };
        relay.forwarded = partial.answer.len() as u64;
        (relay, partial.answer)
    }

    /// From now on the client keeps its server until it leaves.
    pub fn use_session_pooling(&mut self) {
        self.pooling = Pooling::Session;
    }

    pub(super) fn is_session_pooling(&self) -> bool {
        self.pooling == Pooling::Session
    }

    /// The server owes no answer, is in no transaction, and the client does not keep it: the relay is over.
    pub fn is_over(&self) -> bool {
        self.is_idle()
            && self.pinned_for.is_empty()
            && self.to_query.is_empty()
            && !self.is_session_pooling()
            && !self.awaits_notifications()
    }

    /// The client has got only the beginning of a message.
    pub fn is_mid_message(&self) -> bool {
        matches!(self.body, Body::Forward(left) if left > 0)
    }

    /// The server owes no answer.
    pub fn is_quiet(&self) -> bool {
        self.expect.is_empty()
            && !self.copy_in
            && self.extended == Extended::No
            && self.body == Body::Forward(0)
    }

    /// The client has more to say before anything can happen: between the requests of a transaction, in COPY IN, in a
    /// request that is relayed as it arrives.
    pub fn awaits_client(&self) -> bool {
        self.copy_in || (!self.is_describing() && !self.expect.owe_boundary())
    }

    /// The transaction status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The client keeps its server beyond its transaction, which nobody has noted.
    pub fn take_new_pin(&mut self) -> bool {
        let noted = std::mem::take(&mut self.pin_reported) && !self.pinned_for.is_empty();
        let keeps = self.is_idle() && !self.pinned_for.is_empty() && !self.is_session_pooling();
        self.pin_reported = noted || keeps;
        keeps && !noted
    }

    /// What the client keeps its server for.
    pub fn pinned_for(&self) -> &[PinReason] {
        &self.pinned_for
    }

    /// What the client was warned of (`session_state = warn`).
    pub fn warned(&self) -> &[PinReason] {
        &self.warned
    }

    /// The server ended the connection with a message.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// The client was told of an error.
    pub fn saw_error(&self) -> bool {
        self.saw_error
    }

    /// SQLSTATEs of the errors that the client was told of since this was asked last.
    pub fn take_errors(&mut self) -> Vec<[u8; 5]> {
        std::mem::take(&mut self.errors)
    }

    /// Named statements of the client that PostgreSQL has taken since this was asked last.
    pub fn take_accepted(&mut self) -> Vec<StatementKey> {
        std::mem::take(&mut self.accepted)
    }

    /// So many statements are there for [`RelayState::take_accepted`] that they should be taken before the request ends.
    pub fn has_accepted_many(&self) -> bool {
        self.accepted.len() >= ACCEPTED_MAX
    }

    /// The server owes so many answers that the client should say no more before some of them have come.
    pub fn owes_many_answers(&self) -> bool {
        self.expect.len() >= EXPECTED_MAX
    }

    /// A database in which no other session may be when what was written for the server arrives there; asked for once.
    pub fn take_exclusive(&mut self) -> Option<String> {
        self.exclusive.take()
    }

    /// Bytes of answers forwarded so far.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }
}
