//! No client reads a number that it has not drawn: before it may, the server connection forgets what others have drawn there.
//! That goes out in front of the first statement of its tenancy, in the same packet, because within a transaction the client's own
//! numbers must stay.

use super::expect::Expect;
use super::state::{RelayContext, RelayState};
use crate::sequences::{DISCARD, SequenceState, SequenceToken};
use bytes::BytesMut;
use paceline_sql::{SequenceUse, SessionChange};
use paceline_wire::backend::Status;
use paceline_wire::frontend;

impl RelayState {
    /// The caller knows what the relay's first request may do with sequences.
    pub fn first_request_uses(&mut self, uses: SequenceUse) {
        self.first_uses = Some(uses);
    }

    /// A number that was to be forgotten may still be there: the client must not be served any further.
    pub fn discard_failed(&self) -> bool {
        self.discard_failed
    }

    /// A request of messages begins. Those that come later in it are not known yet.
    pub(super) fn begins_messages(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        let uses = self.first_uses.unwrap_or(SequenceUse::ANY);
        self.discard_sequences_of_others(uses, context, out);
    }

    /// A statement is about to be sent that may do this.
    pub(super) fn uses_sequences(
        &mut self,
        uses: SequenceUse,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let uses = self.first_uses.unwrap_or(uses);
        self.discard_sequences_of_others(uses, context, out);
        self.note_draws(uses, context);
    }

    /// A statement in the midst of a request is about to be sent.
    pub(super) fn note_draws(&self, uses: SequenceUse, context: &mut RelayContext<'_>) {
        let uses = self.first_uses.unwrap_or(uses);
        if uses.draws {
            let (sequences, client) = (
                &mut context.server.sequences,
                &mut context.session.sequences,
            );
            sequences.draw(client, || context.templates.new_id());
        }
    }

    fn discard_sequences_of_others(
        &mut self,
        uses: SequenceUse,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let readable = context
            .server
            .sequences
            .is_readable(context.session.sequences);
        // In a transaction that has begun they are the client's own.
        if readable || !uses.reads || self.status != Status::Idle {
            return;
        }
        frontend::write_query(out, DISCARD);
        context.server.unnamed = None;
        context.server.sequences = SequenceState::Clean;
        self.expect.push_back(Expect::OwnDiscardSequences);
    }

    /// The client itself discards, if these are its changes. `alone`: nothing else is sent before the answer.
    pub(super) fn discards_sequences(
        &self,
        changes: &[SessionChange],
        alone: bool,
        context: &mut RelayContext<'_>,
    ) {
        if !changes.iter().any(SessionChange::discards_sequences) {
            return;
        }
        context.session.sequences = SequenceToken::default();
        let clean = context.server.sequences == SequenceState::Clean;
        context.server.sequences = match clean || (alone && self.is_idle()) {
            true => SequenceState::Clean,
            false => SequenceState::Mixed,
        };
    }
}
