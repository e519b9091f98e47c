//! No client reads a number that it has not drawn: before it may, the server connection forgets what others have drawn there.
//! That goes out in front of the first statement of its tenancy, in the same packet, because within a transaction the client's own
//! numbers must stay.

use super::expect::Expect;
use super::state::{Desk, Ride};
use crate::sequences::{DISCARD, SequenceState, SequenceToken};
use bytes::BytesMut;
use paceline_sql::{SequenceUse, SessionChange};
use paceline_wire::backend::Status;
use paceline_wire::frontend;

impl Ride {
    /// The caller knows what the ride's first unit may do with sequences.
    pub fn first_unit_uses(&mut self, uses: SequenceUse) {
        self.first_uses = Some(uses);
    }

    /// A number that was to be forgotten may still be there: the client must not be served any further.
    pub fn has_strange_numbers(&self) -> bool {
        self.strange_numbers
    }

    /// A unit of messages begins. Those that come later in it are not known yet.
    pub(super) fn begins_messages(&mut self, desk: &mut Desk<'_>, out: &mut BytesMut) {
        let uses = self.first_uses.unwrap_or(SequenceUse::ANY);
        self.forget_others_numbers(uses, desk, out);
    }

    /// A statement is about to be sent that may do this.
    pub(super) fn uses_sequences(
        &mut self,
        uses: SequenceUse,
        desk: &mut Desk<'_>,
        out: &mut BytesMut,
    ) {
        let uses = self.first_uses.unwrap_or(uses);
        self.forget_others_numbers(uses, desk, out);
        self.draws(uses, desk);
    }

    /// A statement in the midst of a unit is about to be sent.
    pub(super) fn draws(&self, uses: SequenceUse, desk: &mut Desk<'_>) {
        let uses = self.first_uses.unwrap_or(uses);
        if uses.draws {
            let (sequences, client) = (&mut desk.server.sequences, &mut desk.session.sequences);
            sequences.draw(client, || desk.templates.new_id());
        }
    }

    fn forget_others_numbers(
        &mut self,
        uses: SequenceUse,
        desk: &mut Desk<'_>,
        out: &mut BytesMut,
    ) {
        let readable = desk.server.sequences.is_readable(desk.session.sequences);
        // In a transaction that has begun they are the client's own.
        if readable || !uses.reads || self.status != Status::Idle {
            return;
        }
        frontend::write_query(out, DISCARD);
        desk.server.unnamed = None;
        desk.server.sequences = SequenceState::Clean;
        self.expect.push_back(Expect::Discarding);
    }

    /// The client itself discards, if these are its changes. `alone`: nothing else is sent before the answer.
    pub(super) fn discards_sequences(
        &self,
        changes: &[SessionChange],
        alone: bool,
        desk: &mut Desk<'_>,
    ) {
        if !changes.iter().any(SessionChange::discards_sequences) {
            return;
        }
        desk.session.sequences = SequenceToken::default();
        let clean = desk.server.sequences == SequenceState::Clean;
        desk.server.sequences = match clean || (alone && self.rests()) {
            true => SequenceState::Clean,
            false => SequenceState::Mixed,
        };
    }
}
