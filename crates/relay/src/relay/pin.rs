//! State that cannot follow its client: whether the client is pinned to its server, warned, or rejected.

use super::expect::{Expect, StatementReply};
use super::refusal::RelayRefusal;
use super::state::{RelayContext, RelayState, Untracked};
use super::state_policy::SessionStateMode;
use bytes::BytesMut;
use paceline_sql::{Listening, PinReason, SessionChange};
use paceline_wire::ErrorResponse;
use paceline_wire::backend::Status;
use paceline_wire::frontend::Parse;

impl RelayState {
    /// A statement has created such state.
    pub(super) fn meet_pin_reason(
        &mut self,
        reason: PinReason,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
    ) {
        context.server.needs_reset = true;
        self.prepares |= reason == PinReason::Prepared;
        if self.is_session_pooling() {
            context.server.must_close |= !reason.can_be_discarded();
            return self.pin(reason);
        }
        match context.policy.session_state {
            SessionStateMode::Pin => return self.pin(reason),
            SessionStateMode::Warn => {
                if !self.warned.contains(&reason) {
                    self.warned.push(reason);
                }
                let message = format!("{reason} is lost at the end of the transaction");
                ErrorResponse::warning("01000", message)
                    .with_hint("Other statements of the session may run on other server connections (session_state = warn).")
                    .write(to_client);
            }
            _ => {}
        }
        // No reset removes it before the next client.
        let is_statement = matches!(reason, PinReason::Prepared | PinReason::NotText);
        context.server.must_close |= !reason.can_be_discarded() || is_statement;
    }

    /// The client keeps its server connection for this reason.
    pub(super) fn pin(&mut self, reason: PinReason) {
        if reason == PinReason::Setting {
            // An earlier RESET ALL does not reset it.
            self.resets_all = false;
        }
        if !self.pinned_for.contains(&reason) {
            self.pinned_for.push(reason);
        }
        self.request.may_unpin = true;
    }

    /// A text in another encoding than UTF-8. Only PostgreSQL knows what the statement does, and no other server connection can be given
    /// it.
    pub(super) fn parse_not_text(
        &mut self,
        parse: Parse<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let is_named = !parse.name.is_empty();
        let mode = context.policy.session_state;
        let reply = match (self.is_session_pooling(), mode) {
            (true, _) | (false, SessionStateMode::Pin) => {
                self.pin(PinReason::NotText);
                StatementReply::Parsed
            }
            (false, SessionStateMode::Refuse) if is_named => {
                return self.refuse_message(RelayRefusal::Unmovable(PinReason::NotText), out);
            }
            (false, _) => {
                // A Bind of this request may name it.
                self.prepares = true;
                match is_named {
                    true => StatementReply::ParsedNotText,
                    false => StatementReply::Parsed,
                }
            }
        };
        self.renew(parse.name, context);
        if !is_named {
            let written = context.templates.new_id();
            context.server.parse_unnamed(written);
            self.own_unnamed = Some(written);
        }
        let undo = context.session.statements.close(parse.name);
        parse.write(out);
        let key = None;
        self.expect.push_back(Expect::Parse { key, undo, reply });
    }

    /// Whether the server's unnamed statement is that of the client, and only the server knows its text.
    pub(super) fn has_own_unnamed(&self, context: &RelayContext<'_>) -> bool {
        self.own_unnamed.is_some() && self.own_unnamed == context.server.unnamed
    }

    /// Whether the server may have statements under the client's own names.
    pub(super) fn has_own_names(&self) -> bool {
        let unmoved = [PinReason::Prepared, PinReason::NotText];
        // A DO may have prepared statements.
        let by_itself = self.untracked == Untracked::Anything;
        self.is_session_pooling()
            || self.prepares
            || by_itself
            || self
                .pinned_for
                .iter()
                .any(|reason| unmoved.contains(reason))
    }

    /// The first of these changes that the client may not make.
    pub(super) fn refused(
        &self,
        changes: &[SessionChange],
        context: &RelayContext<'_>,
    ) -> Option<PinReason> {
        if context.policy.session_state != SessionStateMode::Refuse
            || self.is_session_pooling()
            || self.status == Status::Failed
        {
            return None;
        }
        changes.iter().find_map(|change| match change {
            SessionChange::Pin(reason) => Some(*reason),
            SessionChange::Listening(Listening::Listen(_)) if !self.shares_listen(context) => {
                Some(PinReason::Listening)
            }
            _ => None,
        })
    }
}
