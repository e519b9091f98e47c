//! What cannot follow its client: whether the client keeps its server for it, and how the server is asked if it still has it.

use super::expect::Expect;
use super::idle_session_timeout::read_idle_timeout;
use super::session_query::Question;
use super::state::{RelayContext, RelayState, RequestProgress, Unseen};
use super::state_policy::SessionStateMode;
use bytes::BytesMut;
use paceline_sql::{IDLE_SESSION_TIMEOUT, Listening, PinReason, SessionChange, set_to};
use paceline_wire::backend::{self, Status};
use paceline_wire::{ErrorResponse, Frame, frontend};

impl RelayState {
    /// What cannot follow the client is there.
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
        // No reset before the next client would take it away.
        context.server.must_close |= !reason.can_be_discarded() || reason == PinReason::Prepared;
    }

    /// The client keeps its server for this.
    pub(super) fn pin(&mut self, reason: PinReason) {
        if !self.pinned_for.contains(&reason) {
            self.pinned_for.push(reason);
        }
        self.request.may_unpin = true;
    }

    /// Statements of the client may be on the server under its own names.
    pub(super) fn has_own_names(&self) -> bool {
        let unmoved = [PinReason::Prepared, PinReason::NotText];
        // What its own DO has prepared is its own, too.
        let by_itself = self.unseen == Unseen::Anything;
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

    /// Asks the server, when the client may have let go of what it keeps, or has something that nobody saw.
    pub(super) fn ask(
        &mut self,
        request: &RequestProgress,
        context: &mut RelayContext<'_>,
        to_server: &mut BytesMut,
    ) {
        let question = self.question(request, context);
        if question.kinds.is_empty() && question.settings.is_empty() {
            return;
        }
        self.asked.clear();
        // They would be taken for the client's.
        self.close_pending(context, to_server);
        frontend::write_query(to_server, &question.sql());
        context.server.unnamed = None;
        self.expect.push_back(Expect::OwnSessionQuery(question));
    }

    fn question(&self, request: &RequestProgress, context: &RelayContext<'_>) -> Question {
        // To ask would destroy such a statement; and who stays need not be asked about.
        if self.is_session_pooling() || self.pinned_for.contains(&PinReason::NotText) {
            return Question::default();
        }
        let may_be_free = !self.pinned_for.is_empty() && (request.may_unpin || request.failed);
        let kinds = match self.unseen {
            Unseen::Anything if context.policy.session_state == SessionStateMode::Pin => {
                PinReason::ASKED.to_vec()
            }
            _ if may_be_free && self.pinned_for.iter().all(|reason| reason.is_asked()) => {
                self.pinned_for.clone()
            }
            _ => Vec::new(),
        };
        let mut settings = self.asked.clone();
        if self.unseen != Unseen::Nothing {
            let extra = context.policy.extra.iter();
            let further: Vec<_> = extra.filter(|name| !settings.contains(name)).collect();
            settings.extend(further.into_iter().cloned());
        }
        Question { kinds, settings }
    }

    /// The server has not answered: the client keeps it for all that it may have, until it is asked again after the next request.
    pub(super) fn unanswered(&mut self, question: &Question, context: &mut RelayContext<'_>) {
        context.server.needs_reset = true;
        question.kinds.iter().for_each(|reason| self.pin(*reason));
        if context.policy.session_state == SessionStateMode::Pin {
            self.asked.clone_from(&question.settings);
        }
    }

    /// The server has answered.
    pub(super) fn answered(
        &mut self,
        question: Question,
        row: Frame<'_>,
        context: &mut RelayContext<'_>,
    ) {
        let values = backend::row_values(row.body()).unwrap_or_default();
        let mut values = values.into_iter();
        for (reason, value) in question.kinds.into_iter().zip(&mut values) {
            self.pinned_for.retain(|known| *known != reason);
            match value {
                Some(b"t") => self.pinned_for.push(reason),
                _ if reason == PinReason::Prepared => context.server.unknown_prepared = false,
                _ => {}
            }
        }
        for (name, value) in question.settings.iter().zip(&mut values) {
            match value.map(std::str::from_utf8) {
                Some(Ok(value)) => {
                    let changes = match name.as_str() {
                        IDLE_SESSION_TIMEOUT => read_idle_timeout(value),
                        name => set_to(name, Some(value)),
                    };
                    changes.iter().for_each(|change| context.set_unseen(change));
                }
                // In an encoding that cannot be kept as text.
                Some(Err(_)) if context.policy.session_state == SessionStateMode::Pin => {
                    self.pin(PinReason::Setting)
                }
                Some(Err(_)) | None => {}
            }
        }
    }
}
