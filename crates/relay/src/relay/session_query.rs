//! Asks a server which state a session has there.

use super::expect::{Expect, SessionQuery};
use super::idle_session_timeout::read_idle_timeout;
use super::state::{RelayContext, RelayState, RequestProgress, Untracked};
use super::state_policy::SessionStateMode;
use crate::server::NAME_PREFIX;
use bytes::BytesMut;
use paceline_sql::{IDLE_SESSION_TIMEOUT, PinReason, quote_literal, set_to};
use paceline_wire::{Frame, backend};

impl SessionQuery {
    pub(super) fn sql(&self) -> String {
        let kinds = self
            .kinds
            .iter()
            .map(|reason| reason.condition(NAME_PREFIX));
        let kinds = kinds.map(|condition| condition.unwrap_or_else(|| "true".to_owned()));
        let settings = self.settings.iter().map(|name| {
            let name = quote_literal(name);
            format!("pg_catalog.current_setting({name}, true)")
        });
        let off = self
            .settings
            .iter()
            .any(|name| name == IDLE_SESSION_TIMEOUT);
        let off =
            off.then(|| format!("pg_catalog.set_config('{IDLE_SESSION_TIMEOUT}', '0', false)"));
        let columns: Vec<String> = kinds.chain(settings).chain(off).collect();
        format!("SELECT {}", columns.join(", "))
    }
}

impl RelayState {
    /// Asks the server if the client may have removed the state for which it is pinned, or a statement may have created some
    /// untracked.
    pub(super) fn query_session(
        &mut self,
        request: &RequestProgress,
        context: &mut RelayContext<'_>,
        to_server: &mut BytesMut,
    ) {
        let query = self.session_query(request, context);
        if query.kinds.is_empty() && query.settings.is_empty() {
            return;
        }
        self.to_query.clear();
        // The query must not count Paceline's own statements.
        self.close_pending(context, to_server);
        let sql = query.sql();
        self.inject_query(
            &sql,
            Expect::InjectedSessionQuery(query),
            context,
            to_server,
        );
    }

    fn session_query(&self, request: &RequestProgress, context: &RelayContext<'_>) -> SessionQuery {
        // The query would drop the unnamed statement. With session pooling, the client keeps its server in any case.
        if self.is_session_pooling() || self.pinned_for.contains(&PinReason::NotText) {
            return SessionQuery::default();
        }
        let may_be_free = !self.pinned_for.is_empty() && (request.may_unpin || request.failed);
        let kinds = match self.untracked {
            Untracked::Anything if context.policy.session_state == SessionStateMode::Pin => {
                PinReason::ASKED.to_vec()
            }
            _ if may_be_free && self.pinned_for.iter().all(|reason| reason.is_asked()) => {
                self.pinned_for.clone()
            }
            _ => Vec::new(),
        };
        let mut settings = self.to_query.clone();
        if self.untracked != Untracked::Nothing {
            let extra = context.policy.extra.iter();
            let further: Vec<_> = extra.filter(|name| !settings.contains(name)).collect();
            settings.extend(further.into_iter().cloned());
        }
        SessionQuery { kinds, settings }
    }

    /// The query has failed. The client is pinned for everything that it may have, and the query is repeated after the next
    /// request.
    pub(super) fn session_query_failed(
        &mut self,
        query: &SessionQuery,
        context: &mut RelayContext<'_>,
    ) {
        context.server.needs_reset = true;
        query.kinds.iter().for_each(|reason| self.pin(*reason));
        if context.policy.session_state == SessionStateMode::Pin {
            self.to_query.clone_from(&query.settings);
        }
    }

    /// The server has answered the query.
    pub(super) fn session_query_answered(
        &mut self,
        query: SessionQuery,
        row: Frame<'_>,
        context: &mut RelayContext<'_>,
    ) {
        let values = backend::row_values(row.body()).unwrap_or_default();
        let mut values = values.into_iter();
        for (reason, value) in query.kinds.into_iter().zip(&mut values) {
            self.pinned_for.retain(|known| *known != reason);
            match value {
                Some(b"t") => self.pinned_for.push(reason),
                _ if reason == PinReason::Prepared => context.server.unknown_prepared = false,
                _ => {}
            }
        }
        for (name, value) in query.settings.iter().zip(&mut values) {
            match value.map(std::str::from_utf8) {
                Some(Ok(value)) => {
                    let changes = match name.as_str() {
                        IDLE_SESSION_TIMEOUT => read_idle_timeout(value),
                        name => set_to(name, Some(value)),
                    };
                    changes
                        .iter()
                        .for_each(|change| context.set_untracked(change));
                }
                // The value is not UTF-8.
                Some(Err(_)) if context.policy.session_state == SessionStateMode::Pin => {
                    self.pin(PinReason::Setting)
                }
                Some(Err(_)) | None => {}
            }
        }
    }
}
