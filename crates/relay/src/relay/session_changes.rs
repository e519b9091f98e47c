//! Applies the changes that the client's statements make in its session when they complete.

use super::expect::Expect;
use super::retry::Retry;
use super::state::{RelayContext, RelayState, RequestProgress, Untracked};
use super::state_policy::SessionStateMode;
use crate::sequences::SequenceState;
use crate::settings::{CLIENT_ENCODING, IDENTITY, SessionSettings};
use bytes::BytesMut;
use paceline_sql::{PinReason, SessionChange};
use paceline_wire::backend::Status;
use std::sync::Arc;

/// Notes that Paceline must query the value of this setting.
pub(super) fn add_to_query(to_query: &mut Vec<String>, name: &str) {
    if !to_query.iter().any(|known| known == name) {
        to_query.push(name.to_owned());
    }
}

/// Whether the meaning of the bytes of the client's texts changes.
fn changes_encoding(change: &SessionChange) -> bool {
    match change {
        SessionChange::Set { name, .. } | SessionChange::Reset { name } => name == CLIENT_ENCODING,
        SessionChange::ResetAll => true,
        _ => false,
    }
}

/// Whether this command may remove the state for which a client is pinned.
fn may_unpin(command: &[u8]) -> bool {
    let ends = [
        &b"COMMIT\0"[..],
        b"ROLLBACK\0",
        b"PREPARE TRANSACTION\0",
        b"UNLISTEN\0",
        b"DISCARD TEMP\0",
    ];
    ends.contains(&command)
        || [&b"DROP "[..], b"CLOSE CURSOR", b"DEALLOCATE"]
            .iter()
            .any(|head| command.starts_with(head))
}

impl RelayState {
    /// A statement has completed with `command`.
    pub(super) fn change(
        &mut self,
        command: &[u8],
        changes: &[SessionChange],
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
    ) {
        let instead = Self::command_instead(command, changes).is_some();
        for change in changes {
            match change {
                // The shared connection executes it.
                SessionChange::Listening(_) if instead => {}
                change => self.apply(change, context, to_client),
            }
        }
        let to_savepoint = |c: &SessionChange| matches!(c, SessionChange::RollbackTo { .. });
        match command {
            b"COMMIT\0" | b"PREPARE TRANSACTION\0" => self.settings_undo_log.commit(),
            b"ROLLBACK\0" => {
                self.resets_all = false;
                if !changes.iter().any(to_savepoint) {
                    let before = self.settings_undo_log.roll_back();
                    self.roll_back_settings(before, context);
                }
            }
            _ => {}
        }
        if !self.pinned_for.is_empty() && may_unpin(command) {
            self.request.may_unpin = true;
        }
    }

    fn apply(
        &mut self,
        change: &SessionChange,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
    ) {
        self.idle_timeout_moves(change);
        match change {
            SessionChange::Pin(reason) => self.meet_pin_reason(*reason, context, to_client),
            SessionChange::Listening(listening) => self.listened(listening, context, to_client),
            SessionChange::PinMayEnd => self.request.may_unpin = true,
            SessionChange::Anything | SessionChange::FunctionsCalled => {
                self.note_untracked(change, context)
            }
            SessionChange::Deallocate { name } => {
                context.server.forget_name(name);
                if self.is_session_pooling() {
                    context.session.statements.close(name.as_bytes());
                }
            }
            SessionChange::DeallocateAll => self.statements_dropped(context),
            SessionChange::DiscardAll => self.discard_all(context),
            // Another server would not have the setting.
            SessionChange::Set { .. } if context.session.settings.are_too_many_with(change) => {
                self.meet_pin_reason(PinReason::Setting, context, to_client);
            }
            SessionChange::Set { .. }
            | SessionChange::Reset { .. }
            | SessionChange::ResetAll
            | SessionChange::OptionDefined { .. } => self.set(change, context),
            // After a rollback to it, only the server knows the settings.
            SessionChange::Savepoint { .. } if self.settings_undo_log.is_full() => {
                self.meet_pin_reason(PinReason::Setting, context, to_client);
            }
            SessionChange::Savepoint { name } => {
                self.settings_undo_log
                    .savepoint(name, &context.session.settings);
            }
            SessionChange::Release { name } => self.settings_undo_log.release(name),
            SessionChange::RollbackTo { name } => {
                let before = self.settings_undo_log.roll_back_to(name);
                self.roll_back_settings(before, context);
            }
            // Noted when they were sent.
            SessionChange::DiscardSequences
            | SessionChange::PathUnknown
            | SessionChange::LocalSettings => {}
            SessionChange::SetUnknown { name } => add_to_query(&mut self.to_query, name),
            SessionChange::SetTo(_) | SessionChange::Next => {}
        }
    }

    pub(super) fn note_untracked(
        &mut self,
        change: &SessionChange,
        context: &mut RelayContext<'_>,
    ) {
        context.server.needs_reset = true;
        context.server.unknown_prepared |= *change == SessionChange::Anything;
        self.untracked = self.untracked.max(match change {
            SessionChange::Anything => Untracked::Anything,
            _ => Untracked::FunctionsCalled,
        });
    }

    fn set(&mut self, change: &SessionChange, context: &mut RelayContext<'_>) {
        let session = &mut *context.session;
        // Each change copies all settings.
        self.work += session.settings.len();
        self.settings_undo_log.changes(&session.settings);
        match change {
            SessionChange::Set { name, .. } => self.touches(name),
            SessionChange::ResetAll => self.resets_all = true,
            _ => {}
        }
        if changes_encoding(change) {
            for name in session.settings.encoded() {
                add_to_query(&mut self.to_query, name);
            }
        }
        self.note_taken_away(change, context);
        let session = &*context.session;
        let settings = context
            .interner
            .after(&session.settings, &session.base, change);
        context.put_in_force(settings);
        self.retire_sent(context);
    }

    /// Notes the settings that the server has reset to its own defaults, not to the client's. Its own are in force until Paceline has set
    /// the client's.
    fn note_taken_away(&mut self, change: &SessionChange, context: &mut RelayContext<'_>) {
        let taken_away = context.session.base.taken_away(change);
        if !taken_away.is_empty() {
            let interner = context.interner;
            context
                .server
                .settings_are_unknown(|| interner.unknown_id());
        }
        self.request.taken_away.extend(taken_away);
    }

    /// The settings have changed. The server parses these statements after the change, though they were sent before.
    fn retire_sent(&mut self, context: &mut RelayContext<'_>) {
        let parses = self.expect.take_parses();
        parses.for_each(|key| context.server.retire(key));
    }

    /// A rollback has restored these settings.
    fn roll_back_settings(
        &mut self,
        before: Option<Arc<SessionSettings>>,
        context: &mut RelayContext<'_>,
    ) {
        let Some(before) = before else {
            return;
        };
        let current = &context.session.settings;
        let settings = context.interner.rolled_back(&before, current);
        if settings.id != current.id {
            context.put_in_force(settings);
            self.retire_sent(context);
        }
    }

    /// All statements are dropped. (For a portal, [`RelayState::close_all_at_execute`] noted it when it was sent.)
    fn statements_dropped(&mut self, context: &mut RelayContext<'_>) {
        if let Some(Expect::Query { .. }) = self.expect.front() {
            context.session.statements.close_all();
            context.server.forget_all();
        }
    }

    fn discard_all(&mut self, context: &mut RelayContext<'_>) {
        self.statements_dropped(context);
        self.unlistens_all();
        let all = SessionChange::DiscardAll;
        self.request.taken_away.clear();
        self.note_taken_away(&all, context);
        let session = &*context.session;
        let settings = context
            .interner
            .after(&session.settings, &session.base, &all);
        context.put_in_force(settings);
        context.server.must_close |= self
            .pinned_for
            .iter()
            .any(|reason| !reason.can_be_discarded());
        self.pinned_for.clear();
    }

    /// Notes what a failed statement may have left in the session.
    pub(super) fn note_effects_of_failure(&mut self, context: &mut RelayContext<'_>) {
        let Some(front) = self.expect.front() else {
            return;
        };
        for change in front.may_leave().to_vec() {
            match change {
                SessionChange::Pin(reason) => {
                    context.server.needs_reset = true;
                    context.server.must_close |= !reason.can_be_discarded();
                    // A rollback does not release a session-level lock.
                    if reason == PinReason::AdvisoryLock
                        && context.policy.session_state == SessionStateMode::Pin
                    {
                        self.pin(reason);
                    }
                }
                SessionChange::Anything | SessionChange::FunctionsCalled => {
                    self.note_untracked(&change, context)
                }
                SessionChange::DiscardAll | SessionChange::DiscardSequences => {
                    context.server.sequences = SequenceState::Mixed;
                }
                _ => {}
            }
        }
    }

    /// The server is ready. If a transaction has ended, its settings are final, or are rolled back.
    pub(super) fn settle_settings(&mut self, context: &mut RelayContext<'_>) {
        if self.status != Status::Idle {
            return;
        }
        match self.request.failed {
            true => {
                let before = self.settings_undo_log.roll_back();
                self.roll_back_settings(before, context);
            }
            false => self.settings_undo_log.commit(),
        }
    }

    /// Sets the settings with which the client began, if its RESET has set them to the server's own defaults. Returns
    /// whether it wrote a query.
    pub(super) fn restore(
        &mut self,
        context: &mut RelayContext<'_>,
        to_server: &mut BytesMut,
    ) -> bool {
        let undone = self.request.failed && self.status == Status::Idle;
        if self.request.taken_away.is_empty() || undone || self.status == Status::Failed {
            return false;
        }
        let wanted = |name: &str| self.request.taken_away.contains(name);
        let sql = context.session.settings.sql_where(wanted);
        if sql.is_empty() {
            return false;
        }
        self.inject_query_first(&sql, Expect::InjectedRestore, context, to_server);
        true
    }

    /// The request has ended, and the client has received its answer.
    pub(super) fn settle(&mut self, context: &mut RelayContext<'_>, to_server: &mut BytesMut) {
        let request = std::mem::take(&mut self.request);
        self.status_before = self.status;
        self.wrap = super::Wrap::No;
        self.retry = Retry::No;
        self.first_uses = None;
        self.first_describes = false;
        let are_answered = self.expect.is_empty();
        self.portals.answered(request.failed, are_answered);
        if self.status != Status::Idle {
            return;
        }
        if are_answered {
            self.portals.end();
        }
        self.take_reported_values(context);
        self.follow_reported(context);
        self.unpin_settings(&request);
        self.turn_off_idle_timeout(context, to_server);
        self.query_session(&request, context, to_server);
        self.untracked = Untracked::Nothing;
        self.forget_transaction(context);
    }

    /// If no transaction is under way, and nothing that was sent is unanswered, nothing of a transaction is in force.
    pub(super) fn forget_transaction(&self, context: &mut RelayContext<'_>) {
        if self.status == Status::Idle && self.expect.is_empty() {
            context.server.transaction_has_ended();
        }
    }

    /// A `RESET ALL` that was not rolled back also resets settings that changed without a text that shows it. It leaves the
    /// identity, so Paceline queries that.
    fn unpin_settings(&mut self, request: &RequestProgress) {
        let holds = std::mem::take(&mut self.resets_all) && !request.failed;
        if holds && self.pinned_for.contains(&PinReason::Setting) {
            self.pinned_for
                .retain(|reason| *reason != PinReason::Setting);
            for name in IDENTITY {
                add_to_query(&mut self.to_query, name);
            }
        }
    }
}

impl RelayContext<'_> {
    /// The client has these settings now, and they are in force on its server.
    fn put_in_force(&mut self, settings: Arc<SessionSettings>) {
        self.server.settings = Arc::clone(&settings);
        self.session.settings = settings;
    }

    /// A setting has changed without a text that shows it.
    pub(super) fn set_untracked(&mut self, change: &SessionChange) {
        let session = &self.session;
        let settings = self
            .interner
            .after(&session.settings, &session.base, change);
        self.put_in_force(settings);
    }
}
