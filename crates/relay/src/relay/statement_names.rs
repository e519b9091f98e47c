//! The names of clients' statements on the server.

use super::expect::Expect;
use super::state::{RelayContext, RelayState};
use crate::parsed::ColumnsId;
use crate::server::{Closed, NAME_PREFIX, StatementKey};
use crate::template::Template;
use bytes::BytesMut;
use paceline_sql::Effect;
use paceline_wire::frontend::Parse;
use std::sync::Arc;

/// On servers, the name of a statement whose name the client uses already.
pub(super) const TAKEN: &str = "paceline_taken";

/// A client's statement on the server.
#[derive(Default)]
pub(super) struct ServerStatement {
    pub(super) name: Vec<u8>,
    /// `None` if it is not shared with other clients.
    pub(super) key: Option<StatementKey>,
    /// The template, if the client has prepared the statement.
    pub(super) template: Option<Arc<Template>>,
    /// The columns that were described to the client.
    pub(super) columns: Option<ColumnsId>,
}

impl ServerStatement {
    /// Whether the effect of the statement is unknown.
    pub(super) fn is_unknown(&self) -> bool {
        let template = self.template.as_ref();
        template.is_some_and(|template| template.statement.is_none() && !template.is_bulk())
    }

    /// PostgreSQL does not plan such statements (`FETCH`, `SHOW`). Their columns are those of each execution, and PostgreSQL
    /// raises no error if they change.
    pub(super) fn is_utility(&self) -> bool {
        let template = self.template.as_ref();
        template.is_some_and(|template| template.effect() == Some(&Effect::Other))
    }
}

/// A client's own name, made different from the names that Paceline uses.
pub(super) fn avoid_prefix(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    if name.starts_with(NAME_PREFIX.as_bytes()) {
        name.push(b' ');
    }
    name
}

impl RelayState {
    /// A `Close` may have been written to make room for a statement.
    pub(super) fn expect_closed(&mut self, closed: Option<Closed>) {
        self.expect
            .extend(closed.map(|closed| Expect::InjectedClose {
                closed: Some(closed),
            }));
    }

    /// Ensures that the server has the client's statement.
    pub(super) fn ensure_statement(
        &mut self,
        name: &[u8],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> ServerStatement {
        let Some((template, client_parse)) = context.session.statements.prepared(name) else {
            return ServerStatement {
                name: self.unknown(name, context, out),
                ..ServerStatement::default()
            };
        };
        let (template, client_parse) = (Arc::clone(template), client_parse.clone());
        let outgoing = self.outgoing(&template, context, out);
        let sent = self.as_prepared(name, Arc::clone(&outgoing), &client_parse, context);
        // The client's text decides what the statement does, unless the server may split it into other tokens.
        let template = match Arc::ptr_eq(&sent, &outgoing) && outgoing.statement.is_some() {
            true => template,
            false => Arc::clone(&sent),
        };
        let mut known = ServerStatement {
            template: Some(template),
            columns: client_parse.columns,
            ..ServerStatement::default()
        };
        let select = match sent.is_local_show() {
            true => context.answer(&sent.text),
            false => None,
        };
        let sent = match select {
            None => sent,
            Some((select, _)) => context.templates.in_place_of(&sent, &select),
        };
        if name.is_empty() {
            if context.server.unnamed != Some(client_parse.written) {
                self.inject_parse(b"", &sent, client_parse.other_types(&sent.types), out);
                context.server.parse_unnamed(client_parse.written);
            }
            return known;
        }
        let now = context.templates.new_id();
        let ensured = context
            .server
            .ensure_for((&*sent).into(), &client_parse, now, out);
        self.expect_closed(ensured.closed);
        if ensured.parsed {
            self.expect.push_back(Expect::InjectedParse {
                key: Some(ensured.key),
            });
        }
        known.name = ensured.key.name().into_bytes();
        known.key = Some(ensured.key);
        known
    }

    /// The name on the server of a statement that the client has not prepared. PostgreSQL reports the error, and must not
    /// find a statement of another client.
    fn unknown(
        &mut self,
        name: &[u8],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Vec<u8> {
        if name.is_empty() && !self.has_own_unnamed(context) {
            // After an error the server may have skipped the message that would have replaced the unnamed statement. If it
            // skips this `Close`, it skips the following messages, too.
            context.server.unnamed = None;
            self.inject_close(b"", out);
        }
        self.close_left_over(name, context, out);
        avoid_prefix(name)
    }

    /// Closes a placeholder with this name, or a statement that a function of another client has prepared. (The placeholder
    /// is closed again before the next relay, because after an error the server may skip this.)
    pub(super) fn close_left_over(
        &mut self,
        name: &[u8],
        context: &RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let is_strange = !name.is_empty() && !name.starts_with(NAME_PREFIX.as_bytes());
        if context.server.is_pending_close(name) || (is_strange && !self.has_own_names()) {
            self.inject_close(name, out);
        }
    }

    /// The client uses a name that it has already. PostgreSQL itself raises the error, because the name is in use on the
    /// server.
    pub(super) fn parse_again(
        &mut self,
        parse: Parse<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let undo = context
            .session
            .statements
            .prepare(parse.name, keep(context, parse.name));
        let name = TAKEN.as_bytes();
        self.inject_close(name, out);
        // A failed transaction accepts the empty text, too.
        let placeholder = context.templates.prepared("", &[0, 0]);
        self.inject_parse(name, &placeholder, None, out);
        Parse { name, ..parse }.write(out);
        context.server.close_later(name);
        self.expect_parse(undo);
    }
}

/// The statement that keeps the name.
fn keep(context: &RelayContext<'_>, name: &[u8]) -> Arc<Template> {
    match context.session.statements.get(name) {
        Some(template) => Arc::clone(template),
        None => context.templates.prepared("", &[0, 0]),
    }
}
