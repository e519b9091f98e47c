//! `LISTEN` by the shared connection ([`shared_listen`](crate::shared_listen)): what the client's server executes in place
//! of LISTEN and UNLISTEN, and when ReadyForQuery waits for notifications.
//!
//! A client that listens receives its own notifications before the ReadyForQuery of the transaction that sent them. Nearly
//! any statement may send some (triggers, functions, views that call functions). Therefore the relay holds ReadyForQuery
//! until the shared connection has received all notifications that were committed before. That takes one round trip, for all
//! clients that wait at the same time.

use super::not_yet::{ListenNeed, NotYet};
use super::refusal::RelayRefusal;
use super::state::{RelayContext, RelayState};
use super::state_policy::ListenMode;
use crate::session::{lists_channels, only_lists_channels};
use crate::shared_listen::Marker;
use crate::template::Template;
use bytes::{BufMut, Bytes, BytesMut};
use paceline_sql::facts::FIRST_USER_DEFINED_OID;
use paceline_sql::{
    Effect, Listening, Named, PinReason, SessionChange, listening_changes, replace_listening,
};
use paceline_wire::Frame;
use paceline_wire::backend::{self, Status};
use std::borrow::Cow;

impl RelayState {
    /// Whether LISTEN of this client uses the shared connection.
    pub(super) fn shares_listen(&self, context: &RelayContext<'_>) -> bool {
        let session = &context.session;
        let shared = context.policy.listen_mode == ListenMode::Shared;
        let fits = shared && session.listening.fits(&session.settings);
        !self.is_session_pooling()
            && !self.listens_itself()
            && (fits || session.listening.is_listening())
    }

    /// Whether the client is pinned because its own server listens.
    fn listens_itself(&self) -> bool {
        self.pinned_for.contains(&PinReason::Listening)
    }

    /// A statement is about to be sent. `None` if its text is unknown.
    ///
    /// # Errors
    /// The shared connection must act first.
    pub(super) fn await_listening(
        &mut self,
        template: Option<&Template>,
        context: &mut RelayContext<'_>,
    ) -> Result<(), NotYet> {
        if self.is_session_pooling() {
            return Ok(());
        }
        let is_listening = context.session.listening.is_listening();
        if context.policy.listen_mode == ListenMode::Session && !is_listening {
            // After a reload, other clients of the pool may use the shared connection.
            context.server.notified = true;
            return Ok(());
        }
        let may_notify = template.is_none_or(may_notify);
        let changes = match template.and_then(Template::effect) {
            Some(Effect::Session(changes)) => changes.as_slice(),
            _ => &[],
        };
        let mut need = ListenNeed::default();
        for listening in listening_changes(changes) {
            match listening {
                Listening::Listen(channel) => {
                    if !self.listen.reserved.contains(channel) {
                        need.channels.push(channel.clone());
                    }
                    need.changes = true;
                }
                Listening::Unlisten(_) | Listening::UnlistenAll => need.changes |= is_listening,
            }
        }
        if need.changes && !self.shares_listen(context) {
            need = ListenNeed::default();
        }
        let known = self.listen.registered || !(is_listening && may_notify);
        let done = self.listen.changes || !need.changes;
        if !(known && done && need.channels.is_empty()) && self.listen.refused.is_none() {
            return Err(NotYet::Listening(need));
        }
        context.server.notified |= may_notify;
        self.listen.notifies |= may_notify;
        Ok(())
    }

    /// The shared connection has done what was needed, or has failed.
    pub fn listen_done(&mut self, need: ListenNeed, outcome: Result<(), Bytes>) {
        match outcome {
            Ok(()) => {
                self.listen.registered = true;
                self.listen.changes |= need.changes;
                self.listen.reserved.extend(need.channels);
            }
            Err(error) => self.listen.refused = Some(error),
        }
    }

    /// Whether the shared connection knows which server executes the client's transaction.
    pub fn is_registered_for_listen(&self) -> bool {
        self.listen.registered
    }

    /// The reason why Paceline rejects the statement that is about to be sent. (If a server executes a prepared LISTEN, the shared
    /// connection does not listen.)
    pub(super) fn listen_refusal(
        &mut self,
        template: Option<&Template>,
        context: &RelayContext<'_>,
    ) -> Option<RelayRefusal> {
        if let Some(error) = self.listen.refused.take() {
            return Some(RelayRefusal::Listen(error));
        }
        let of_session = |t: &Template| matches!(t.effect(), Some(Effect::Session(_)));
        let executes = |t: &Template| matches!(t.named(), Some(Named::Execute { .. }));
        if let Some(template) = template.filter(|t| of_session(t) || executes(t))
            && listening_changes(&context.effects(Some(template)).0)
                .next()
                .is_some()
        {
            if executes(template) && self.shares_listen(context) {
                return Some(RelayRefusal::ExecutesListen);
            }
            if self.listens_itself() && context.session.listening.is_listening() {
                return Some(RelayRefusal::ListensTwice);
            }
        }
        let may_change = |t: &Template| {
            t.statement.is_none() && !t.is_bulk() && paceline_sql::may_listen(&t.text)
        };
        let listens = self.listen.changes || context.session.listening.is_listening();
        if listens && !self.is_session_pooling() && template.is_some_and(may_change) {
            return Some(RelayRefusal::ListensUnread);
        }
        let lists =
            context.session.listening.is_listening() && template.is_some_and(lists_channels);
        (lists && !self.is_session_pooling()).then_some(RelayRefusal::ListsChannels)
    }

    /// The text of a query in which NOTIFY replaces LISTEN and UNLISTEN.
    pub(super) fn shared_text<'a>(
        &self,
        text: Cow<'a, str>,
        changes: &[SessionChange],
        context: &mut RelayContext<'_>,
    ) -> Cow<'a, str> {
        if !self.listen.changes || listening_changes(changes).next().is_none() {
            return text;
        }
        let listening = &mut context.session.listening;
        let replaced = replace_listening(&text, |change| listening.marker(change));
        replaced.map_or(text, Cow::Owned)
    }

    /// A portal with these changes is about to be executed. Sends markers first: the statement itself was prepared once, and
    /// PostgreSQL drops a notification that equals an earlier one of its transaction.
    pub(super) fn marks_listening(
        &mut self,
        changes: &[SessionChange],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        if !self.listen.changes {
            return;
        }
        for change in listening_changes(changes) {
            let marker = context.session.listening.marker(change);
            self.inject_mid_request(&marker, out);
        }
    }

    /// The text that a server prepares in place of a LISTEN or UNLISTEN.
    pub(super) fn shared_statement(
        &self,
        template: &Template,
        context: &RelayContext<'_>,
    ) -> Option<String> {
        let Some(Effect::Session(changes)) = template.effect() else {
            return None;
        };
        listening_changes(changes).next()?;
        if !self.shares_listen(context) {
            return None;
        }
        let marker = &context.session.listening.marker;
        replace_listening(&template.text, |change| {
            Marker::prepared_sql(marker, change)
        })
        .ok()
    }

    /// The command of the client's LISTEN or UNLISTEN, if the NOTIFY in its place has completed.
    pub(super) fn command_instead(
        command: &[u8],
        changes: &[SessionChange],
    ) -> Option<&'static str> {
        let change = listening_changes(changes).next()?;
        (command == b"NOTIFY\0").then(|| change.command())
    }

    /// A LISTEN has completed on the client's own server.
    pub(super) fn listened(
        &mut self,
        listening: &Listening,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
    ) {
        if let Listening::Listen(_) = listening {
            self.meet_pin_reason(PinReason::Listening, context, to_client);
        }
    }

    pub(super) fn unlistens_all(&mut self) {
        self.listen.unlistens_all = true;
    }

    /// Whether `DISCARD ALL` has completed since the last call.
    pub fn take_unlistens_all(&mut self) -> bool {
        std::mem::take(&mut self.listen.unlistens_all)
    }

    /// The server has sent ReadyForQuery. Returns whether it waits for notifications.
    pub(super) fn hold_ready(&mut self, ready: Frame<'_>) -> bool {
        let ends = self.status == Status::Idle;
        if ends && self.listen.registered && (self.listen.notifies || self.listen.changes) {
            self.listen.ready = Some(Bytes::copy_from_slice(ready.bytes));
            return true;
        }
        if ends {
            self.listen.notifies = false;
        }
        false
    }

    /// Whether the client's ReadyForQuery waits for notifications.
    pub fn awaits_notifications(&self) -> bool {
        self.listen.ready.is_some()
    }

    /// Takes the ReadyForQuery. The caller writes it when the notifications have been received. The relay has ended.
    pub fn take_held_ready(&mut self) -> Option<Bytes> {
        std::mem::take(&mut self.listen).ready
    }

    /// The notifications have been received, and `to_client` has them. Writes the ReadyForQuery.
    pub fn notifications_received(&mut self, to_client: &mut BytesMut) {
        let unlistens_all = self.listen.unlistens_all;
        let listens = std::mem::take(&mut self.listen);
        self.listen.unlistens_all = unlistens_all;
        if let Some(ready) = listens.ready {
            self.forwarded += ready.len() as u64;
            to_client.put_slice(&ready);
        }
    }
}

/// Whether a statement may notify when its transaction commits. Nearly every statement may execute user-defined functions:
/// tables have triggers, views call functions, and so do operators, casts and domains. Only a SELECT of a constant or a
/// parameter does not.
pub(super) fn may_notify(template: &Template) -> bool {
    let mut words = template.text.split_ascii_whitespace();
    let (first, second, third) = (words.next(), words.next(), words.next());
    let selects = first.is_some_and(|word| word.eq_ignore_ascii_case("select"));
    let value = second.map(|word| word.strip_suffix(';').unwrap_or(word));
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    // A parameter may have the type of a domain, whose checks call functions.
    let is_builtin = |oid: &[u8; 4]| u32::from_be_bytes(*oid) < FIRST_USER_DEFINED_OID;
    let types = template.types.get(2..).unwrap_or_default();
    let builtin = types.as_chunks().0.iter().all(is_builtin);
    let is_harmless = |word: &str| is_number(word) || (word == "$1" && builtin);
    !(selects && value.is_some_and(is_harmless) && third.is_none())
}

/// A SELECT with the client's channels, if the text only asks for them.
pub(super) fn list_of_channels(text: &str, context: &RelayContext<'_>) -> Option<String> {
    let listening = &context.session.listening;
    let asks = listening.is_listening() && only_lists_channels(text);
    asks.then(|| listening.to_select())
}

/// Writes a `NotificationResponse` of the client's own server. If the client sent the notification, the process id is the
/// one that the client knows.
pub(super) fn write_notification(
    message: Frame<'_>,
    context: &RelayContext<'_>,
    out: &mut BytesMut,
) {
    let read = backend::read_notification(message.body());
    let client = context.session.listening.process;
    let renamed = read.ok().and_then(|(author, ..)| {
        let own = author == context.server.process;
        backend::own_notification(message.bytes, author, own, client)
    });
    match renamed {
        Some(renamed) => out.put_slice(&renamed),
        None => out.put_slice(message.bytes),
    }
}
