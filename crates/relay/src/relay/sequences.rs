//! `lastval` and `currval` return only values that the client itself drew. Before a client may read them, Paceline discards
//! those of other clients. The `DISCARD SEQUENCES` precedes the client's first statement in the same packet, because within
//! a transaction the client's own values must remain.

use super::expect::Expect;
use super::portals::Run;
use super::state::{RelayContext, RelayState};
use crate::sequences::{DISCARD, SequenceState, SequenceToken};
use bytes::BytesMut;
use paceline_sql::{SequenceUse, SessionChange};
use paceline_wire::backend::Status;

impl RelayState {
    /// The caller knows what the relay's first request may do with sequences.
    pub fn first_request_uses(&mut self, uses: SequenceUse) {
        self.first_uses = Some(uses);
    }

    /// Whether the server may still have sequence values of another client. Then the caller must not serve the client any
    /// further.
    pub fn discard_failed(&self) -> bool {
        self.discard_failed
    }

    /// A request by the extended protocol begins. Its later messages are not known yet.
    pub(super) fn begins_messages(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        let uses = self.first_uses.unwrap_or(SequenceUse::ANY);
        self.discard_sequences_of_others(uses, context, out);
    }

    /// A statement is about to be sent that may use sequences.
    pub(super) fn uses_sequences(
        &mut self,
        uses: SequenceUse,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let uses = self.first_uses.unwrap_or(uses);
        self.discard_sequences_of_others(uses, context, out);
        note_draws(uses, context);
    }

    /// A further statement of a request is about to be sent.
    pub(super) fn note_draws(&self, uses: SequenceUse, context: &mut RelayContext<'_>) {
        note_draws(self.first_uses.unwrap_or(uses), context);
    }

    /// A statement is about to be sent. A first request that is known not to touch a sequence is a read, or executes nothing.
    pub(super) fn notes_writes(&mut self, run: Run<'_>, context: &RelayContext<'_>) {
        let only_reads = self.only_reads(run, context);
        let is_first_read = self.first_uses == Some(SequenceUse::NONE);
        self.commits.sent(only_reads || is_first_read);
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
        // In an open transaction they are the client's own.
        if readable || !uses.reads || self.status != Status::Idle {
            return;
        }
        self.inject_query(DISCARD, Expect::InjectedDiscardSequences, context, out);
        context.server.sequences = SequenceState::Clean;
    }

    /// Notes that the client itself discards sequence values, if these changes do. `alone`: no other statement is sent
    /// before the answer.
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

/// Notes that the client may draw values on the server.
pub(super) fn note_draws(uses: SequenceUse, context: &mut RelayContext<'_>) {
    if uses.draws {
        let (sequences, client) = (
            &mut context.server.sequences,
            &mut context.session.sequences,
        );
        sequences.draw(client, || context.templates.new_id());
    }
}
