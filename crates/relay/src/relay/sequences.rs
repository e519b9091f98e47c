//! `lastval` and `currval` return only values that the client itself drew. Before a client may read them, Paceline discards
//! those of other clients. In a transaction it does so before the first statement that may draw a value, because the values that
//! the client has drawn must remain for later statements. The `DISCARD SEQUENCES` precedes the client's statement in the same packet.

use super::expect::Expect;
use super::state::{ExecutedTemplate, Extended, RelayContext, RelayState};
use crate::sequences::{DISCARD, SequenceState, SequenceToken};
use crate::template::Template;
use bytes::BytesMut;
use paceline_sql::{Effect, SequenceUse, SessionChange};
use paceline_wire::backend::Status;
use paceline_wire::frontend;
use std::sync::Arc;

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

    /// A statement of a transaction whose analysis could save a `DISCARD SEQUENCES` in later ones; `None` if there is none.
    pub fn take_unanalyzed(&mut self) -> Option<ExecutedTemplate> {
        self.unanalyzed.take()
    }

    /// What a statement may do with sequences: by its analysis, or else by its text.
    pub(super) fn sequence_use(
        &mut self,
        template: Option<&Arc<Template>>,
        context: &RelayContext<'_>,
    ) -> SequenceUse {
        if let Some(uses) = self.first_uses {
            return uses;
        }
        let Some(template) = template else {
            return SequenceUse::ANY;
        };
        let by_text = template.sequences();
        if by_text == SequenceUse::NONE {
            return by_text;
        }
        (context.sequence_use)(template).unwrap_or_else(|| {
            if self.status == Status::Transaction
                && self.unanalyzed.is_none()
                && is_single(template)
            {
                let settings = Arc::clone(&context.session.settings);
                self.unanalyzed = Some((Arc::clone(template), settings));
            }
            by_text
        })
    }

    /// A `Query` or a `FunctionCall` is about to be sent that may use sequences.
    pub(super) fn uses_sequences(
        &mut self,
        uses: SequenceUse,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        if self.must_discard(uses, context) {
            self.inject_query(DISCARD, Expect::InjectedDiscardSequences, context, out);
            context.server.sequences = SequenceState::Clean;
        }
        note_draws(uses, context);
    }

    /// A function call by the protocol is about to be sent. In a transaction, a `Query` would close the client's unnamed portal.
    pub(super) fn calls_function(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        if self.status == Status::Transaction && self.must_discard(SequenceUse::ANY, context) {
            self.discard_mid_request(context, out);
            frontend::write_sync(out);
            self.expect.push_back(Expect::InjectedQuery);
        }
        self.uses_sequences(SequenceUse::ANY, context, out);
    }

    /// A `Bind` of a statement is about to be sent.
    pub(super) fn binds(
        &mut self,
        template: Option<&Arc<Template>>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let uses = self.sequence_use(template, context);
        if self.must_discard(uses, context) {
            self.discard_mid_request(context, out);
        }
    }

    /// The client's `Execute` is about to be sent.
    pub(super) fn executes(
        &mut self,
        template: Option<&Arc<Template>>,
        context: &mut RelayContext<'_>,
    ) {
        let uses = self.sequence_use(template, context);
        note_draws(uses, context);
    }

    /// A `Query` would end the implicit transaction of the client's request.
    fn discard_mid_request(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        self.inject_mid_request(DISCARD, Expect::InjectedDiscardStep, out);
        context.server.sequences = SequenceState::Clean;
        self.request.discards = true;
    }

    /// The server has answered a `DISCARD SEQUENCES` within a request.
    pub(super) fn discarded_mid_request(&mut self) {
        self.request.discards = false;
    }

    /// The server skips the rest of a request. It may still have the values of other clients.
    pub(super) fn discard_skipped(&mut self, context: &mut RelayContext<'_>) {
        if std::mem::take(&mut self.request.discards) {
            context.server.sequences = SequenceState::Mixed;
        }
    }

    /// A statement is about to be sent. A first request that is known not to touch a sequence is a read, or executes nothing.
    pub(super) fn notes_writes(&mut self, template: Option<&Template>) {
        let only_reads = template.is_some_and(Template::only_reads);
        let is_first_read = self.first_uses == Some(SequenceUse::NONE);
        self.commits.sent(only_reads || is_first_read);
    }

    /// Whether the values of other clients must be discarded before a statement with this use: it may read them, or it may draw a
    /// value that a later statement of its transaction reads.
    fn must_discard(&self, uses: SequenceUse, context: &RelayContext<'_>) -> bool {
        let sequences = context.server.sequences;
        let in_transaction = self.status == Status::Transaction
            || (self.extended == Extended::Open && self.first_uses.is_none());
        !sequences.is_readable(context.session.sequences)
            && (uses.reads || (uses.draws && in_transaction))
            && self.status != Status::Failed
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

/// Whether the text is a single statement that an analysis describes.
fn is_single(template: &Template) -> bool {
    let single = |statement: &paceline_sql::Statement| statement.statements == 1;
    template.statement.as_ref().is_some_and(single)
        && matches!(template.effect(), Some(Effect::Read | Effect::Write))
}
