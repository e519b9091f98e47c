//! `LISTEN` by the shared connection ([`shared_listen`](crate::shared_listen)): what goes to the client's server in place of its
//! LISTEN and UNLISTEN, and when its answer waits for notifications.
//!
//! A client that listens hears its own notifications before the ReadyForQuery of the transaction that sent them. Nearly any
//! statement may have sent some (triggers, functions, views that call functions), so that ReadyForQuery is kept until the shared
//! connection has received what was committed before. That takes one message to it and back, for all clients that wait together.

use super::keep::Refusal;
use super::{Desk, NotYet, Ride};
use crate::session::{lists_channels, only_lists_channels};
use crate::shared_listen::Marker;
use crate::template::Template;
use bytes::{BufMut, Bytes, BytesMut};
use paceline_sql::{
    Effect, Listening, PinReason as Kept, SessionChange, listening_changes, replace_listening,
};
use paceline_wire::Frame;
use paceline_wire::backend::{self, Status};
use std::borrow::Cow;

/// How clients listen (`listen_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenMode {
    /// It is state of their session.
    #[default]
    Session,
    /// By one connection for all.
    Shared,
}

/// What the shared connection must do before a message of the client is sent to its server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenNeed {
    /// Listen on these channels.
    pub channels: Vec<String>,
    /// The transaction changes on what its client listens.
    pub changes: bool,
}

/// The state of a ride.
#[derive(Debug, Default)]
pub(super) struct Listens {
    /// The shared connection knows that the server carries out the client's transaction.
    is_known: bool,
    /// … and that it changes on what its client listens …
    changes: bool,
    /// … and listens on these channels for it.
    reserved: Vec<String>,
    /// The shared connection could not.
    refused: Option<Bytes>,
    /// A statement of the transaction may have notified.
    notifies: bool,
    /// ReadyForQuery, until notifications have been received.
    ready: Option<Bytes>,
    /// `DISCARD ALL` has been carried out.
    unlistens_all: bool,
}

impl Ride {
    /// LISTEN of this client goes to the shared connection.
    pub(super) fn shares_listen(&self, desk: &Desk<'_>) -> bool {
        let session = &desk.session;
        let shared = desk.state.listen_mode == ListenMode::Shared;
        let fits = shared && session.listening.fits(&session.settings);
        !self.stays && (fits || session.listening.is_listening())
    }

    /// A statement is about to be sent; `None`: it has not been read.
    ///
    /// # Errors
    /// The shared connection must do something first.
    pub(super) fn await_listening(
        &mut self,
        template: Option<&Template>,
        desk: &mut Desk<'_>,
    ) -> Result<(), NotYet> {
        if self.stays {
            return Ok(());
        }
        let is_listening = desk.session.listening.is_listening();
        if desk.state.listen_mode == ListenMode::Session && !is_listening {
            // Another client of the pool may share after a reload.
            desk.server.notified = true;
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
                    if !self.listens.reserved.contains(channel) {
                        need.channels.push(channel.clone());
                    }
                    need.changes = true;
                }
                Listening::Unlisten(_) | Listening::UnlistenAll => need.changes |= is_listening,
            }
        }
        if need.changes && !self.shares_listen(desk) {
            need = ListenNeed::default();
        }
        let known = self.listens.is_known || !(is_listening && may_notify);
        let done = self.listens.changes || !need.changes;
        if !(known && done && need.channels.is_empty()) && self.listens.refused.is_none() {
            return Err(NotYet::Listening(need));
        }
        desk.server.notified |= may_notify;
        self.listens.notifies |= may_notify;
        Ok(())
    }

    /// The shared connection has done what was needed, or could not.
    pub fn listens(&mut self, need: ListenNeed, outcome: Result<(), Bytes>) {
        match outcome {
            Ok(()) => {
                self.listens.is_known = true;
                self.listens.changes |= need.changes;
                self.listens.reserved.extend(need.channels);
            }
            Err(error) => self.listens.refused = Some(error),
        }
    }

    /// The shared connection knows of the client's transaction.
    pub fn is_listened_for(&self) -> bool {
        self.listens.is_known
    }

    /// Why the statement that is about to be sent cannot be.
    pub(super) fn listen_refusal(
        &mut self,
        template: Option<&Template>,
        desk: &Desk<'_>,
    ) -> Option<Refusal> {
        if let Some(error) = self.listens.refused.take() {
            return Some(Refusal::Listen(error));
        }
        let lists = desk.session.listening.is_listening() && template.is_some_and(lists_channels);
        (lists && !self.stays).then_some(Refusal::ListsChannels)
    }

    /// The text of a query in which the shared connection's part is replaced.
    pub(super) fn shared_text<'a>(
        &self,
        text: Cow<'a, str>,
        changes: &[SessionChange],
        desk: &mut Desk<'_>,
    ) -> Cow<'a, str> {
        if !self.listens.changes || listening_changes(changes).next().is_none() {
            return text;
        }
        let listening = &mut desk.session.listening;
        let replaced =
            replace_listening(&text, |change| Marker::sql(change, listening.next_number()));
        replaced.map_or(text, Cow::Owned)
    }

    /// A LISTEN that is prepared, as the server is to prepare it.
    pub(super) fn shared_statement(&self, template: &Template, desk: &Desk<'_>) -> Option<String> {
        let Some(Effect::Session(changes)) = template.effect() else {
            return None;
        };
        listening_changes(changes).next()?;
        if !self.shares_listen(desk) {
            return None;
        }
        replace_listening(&template.text, |change| Marker::sql(change, 0)).ok()
    }

    /// A statement has completed that the shared connection's NOTIFY stood for: its own command.
    pub(super) fn command_instead(
        command: &[u8],
        changes: &[SessionChange],
    ) -> Option<&'static str> {
        let change = listening_changes(changes).next()?;
        (command == b"NOTIFY\0").then(|| change.command())
    }

    /// A LISTEN has completed on the client's own server.
    pub(super) fn has_listened(
        &mut self,
        listening: &Listening,
        desk: &mut Desk<'_>,
        to_client: &mut BytesMut,
    ) {
        if let Listening::Listen(_) = listening {
            self.keep(Kept::Listening, desk, to_client);
        }
    }

    pub(super) fn unlistens_all(&mut self) {
        self.listens.unlistens_all = true;
    }

    /// `DISCARD ALL` has been carried out since this was asked last.
    pub fn take_unlistens_all(&mut self) -> bool {
        std::mem::take(&mut self.listens.unlistens_all)
    }

    /// The server is ready. Returns true if the client's ReadyForQuery waits for notifications.
    pub(super) fn keeps_ready(&mut self, ready: Frame<'_>) -> bool {
        let ends = self.status == Status::Idle;
        if ends && self.listens.is_known && (self.listens.notifies || self.listens.changes) {
            self.listens.ready = Some(Bytes::copy_from_slice(ready.bytes));
            return true;
        }
        if ends {
            self.listens.notifies = false;
        }
        false
    }

    /// The client's ReadyForQuery waits until the shared connection has received what was committed.
    pub fn awaits_notifications(&self) -> bool {
        self.listens.ready.is_some()
    }

    /// It has; `to_client` has the notifications.
    pub fn has_notifications(&mut self, to_client: &mut BytesMut) {
        let unlistens_all = self.listens.unlistens_all;
        let listens = std::mem::take(&mut self.listens);
        self.listens.unlistens_all = unlistens_all;
        if let Some(ready) = listens.ready {
            self.forwarded += ready.len() as u64;
            to_client.put_slice(&ready);
        }
    }
}

/// Might it notify when its transaction commits? A read may by a function, and what it reads may be a view that calls one.
fn may_notify(template: &Template) -> bool {
    let Some(statement) = &template.statement else {
        return true;
    };
    let named = statement
        .functions
        .iter()
        .any(|name| name.name == "pg_notify");
    let reads = statement.effect == Effect::Read && statement.relations.is_empty();
    !reads || named || template.calls_functions()
}

/// A text that asks only for the channels of its session, as a SELECT that answers.
pub(super) fn list_of_channels(text: &str, desk: &Desk<'_>) -> Option<String> {
    let listening = &desk.session.listening;
    let asks = listening.is_listening() && only_lists_channels(text);
    asks.then(|| listening.to_select())
}

/// A `NotificationResponse` of the client's own server, in which the client recognises what it has sent itself.
pub(super) fn write_notification(message: Frame<'_>, desk: &Desk<'_>, out: &mut BytesMut) {
    let read = backend::read_notification(message.body());
    let client = desk.session.listening.process;
    let renamed = read.ok().and_then(|(author, ..)| {
        let own = author == desk.server.process;
        backend::own_notification(message.bytes, author, own, client)
    });
    match renamed {
        Some(renamed) => out.put_slice(&renamed),
        None => out.put_slice(message.bytes),
    }
}
