//! `idle_session_timeout`. On servers it is 0, so that it does not end idle connections of the pool. Paceline enforces the
//! client's value. If a client may display the setting, its value is in force on the server until the client's transaction
//! ends.

use super::expect::Expect;
use super::state::{Extended, IdleTimeoutShown, RelayContext, RelayState};
use crate::settings::{IdleTimeout, idle_timeout_sql, read_milliseconds};
use crate::template::{Template, Unparsed};
use bytes::BytesMut;
use paceline_sql::{IDLE_SESSION_TIMEOUT, SessionChange};
use paceline_wire::Frame;
use paceline_wire::backend::Status;
use paceline_wire::frontend::{BindNames, Parse, tag};
use std::sync::Arc;
use std::time::Duration;

impl RelayState {
    /// A statement is about to be sent. If it may display the setting, sets the client's value first.
    pub(super) fn shows_idle_timeout(
        &mut self,
        template: &Template,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let Some(value) = context
            .idle_timeout()
            .filter(|_| template.shows_idle_timeout())
        else {
            return;
        };
        if self.idle_timeout == IdleTimeoutShown::Yes || self.status == Status::Failed {
            return;
        }
        let sql = format!("SET {IDLE_SESSION_TIMEOUT} TO {}", value.as_millis());
        match self.extended {
            Extended::No => self.inject_query(&sql, Expect::InjectedQuery, context, out),
            _ => self.inject_mid_request(&sql, out),
        }
        self.idle_timeout = IdleTimeoutShown::Yes;
    }

    /// The same for a request that begins with this message.
    ///
    /// # Errors
    /// The text must be parsed first.
    pub(super) fn message_shows_idle_timeout(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Unparsed> {
        if context.idle_timeout().is_none() {
            return Ok(());
        }
        let template = match frame.tag {
            tag::PARSE => match Parse::read(frame.body()) {
                Ok(parse) => std::str::from_utf8(parse.text)
                    .ok()
                    .map(|text| context.templates.try_prepared(text, parse.types))
                    .transpose()?,
                Err(_) => None,
            },
            tag::BIND => {
                let names = BindNames::read(frame.body()).ok();
                let template =
                    names.and_then(|names| context.session.statements.get(names.statement));
                template.map(Arc::clone)
            }
            _ => None,
        };
        if let Some(template) = template {
            self.shows_idle_timeout(&template, context, out);
        }
        Ok(())
    }

    /// Notes that a statement may have changed the value on the server.
    pub(super) fn idle_timeout_moves(&mut self, change: &SessionChange) {
        let moves = match change {
            SessionChange::Set { name, .. } | SessionChange::Reset { name } => {
                name == IDLE_SESSION_TIMEOUT
            }
            SessionChange::ResetAll
            | SessionChange::DiscardAll
            | SessionChange::RollbackTo { .. } => true,
            _ => false,
        };
        if moves && self.idle_timeout == IdleTimeoutShown::Yes {
            self.idle_timeout = IdleTimeoutShown::Unknown;
        }
    }

    /// The session is idle. If the client has set a value, queries it. If the client's value is in force on the server, sets
    /// 0.
    pub(super) fn turn_off_idle_timeout(
        &mut self,
        context: &mut RelayContext<'_>,
        to_server: &mut BytesMut,
    ) {
        let unread = context.session.settings.idle_session_timeout() == IdleTimeout::Unread;
        let shown = std::mem::take(&mut self.idle_timeout) != IdleTimeoutShown::No;
        if unread && !self.is_session_pooling() {
            super::session_changes::add_to_query(&mut self.to_query, IDLE_SESSION_TIMEOUT);
        } else if shown && !unread {
            let sql = format!("SET {IDLE_SESSION_TIMEOUT} TO 0");
            self.inject_query(&sql, Expect::InjectedQuery, context, to_server);
        }
    }
}

impl RelayContext<'_> {
    /// The client's own limit, or the server's default. `None` if there is no limit, or the client's value has not been
    /// queried.
    fn idle_timeout(&self) -> Option<Duration> {
        let value = match self.session.settings.idle_session_timeout() {
            IdleTimeout::NotSet => self.server.idle_default,
            IdleTimeout::Unread => return None,
            IdleTimeout::Is(value) => value,
        };
        (!value.is_zero()).then_some(value)
    }
}

/// The change after the server has returned the client's value.
pub(super) fn read_idle_timeout(value: &str) -> Vec<SessionChange> {
    let value = read_milliseconds(value).unwrap_or_default();
    vec![SessionChange::Set {
        name: IDLE_SESSION_TIMEOUT.to_owned(),
        sql: idle_timeout_sql(value),
    }]
}
