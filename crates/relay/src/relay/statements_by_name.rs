//! PREPARE, EXECUTE and DEALLOCATE.
//!
//! As in PostgreSQL, statements that SQL names and statements that messages name share one name space: Paceline sends
//! PREPARE as a `Parse`, and EXECUTE with the name of the statement on the server.

use super::error_position::TextShift;
use super::expect::{Expect, StatementReply};
use super::portals::Run;
use super::refusal::RelayRefusal;
use super::state::{RelayContext, RelayState};
use super::state_policy::SessionStateMode;
use super::statement_names::avoid_prefix;
use crate::server::NAME_PREFIX;
use crate::session::Undo;
use crate::template::{Template, Unparsed};
use bytes::BytesMut;
use paceline_sql::{Named, PinReason, SessionChange, quote_ident};
use paceline_wire::backend::Status;
use paceline_wire::frontend::{self, Parse, Target, tag};
use std::ops::Range;
use std::sync::Arc;

/// There is no portal with this name.
const NO_PORTAL: &[u8] = b"paceline: refused";

impl RelayState {
    /// Executes a query that names a statement. Returns false if the query must be sent as it is.
    pub(super) fn query_by_name(
        &mut self,
        text: &str,
        template: &Template,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<bool, Unparsed> {
        if self.status == Status::Failed {
            return Ok(false);
        }
        Ok(match template.named() {
            Some(Named::Prepare { .. }) => {
                self.prepare_by_name(template, context, out)?;
                frontend::write_sync(out);
                self.expect.push_back(Expect::Sync);
                true
            }
            Some(Named::Execute { name, at, .. }) => {
                self.execute_by_name((text, name, at), template, context, out)
            }
            Some(Named::Uses { .. }) | None => false,
        })
    }

    /// If a text may execute statements by name, the server must have them under the client's own names. Prepares them there
    /// and pins the client until they are deallocated. (If state may not pin a client, the text finds none.)
    pub(super) fn prepare_under_own_names(
        &mut self,
        template: &Template,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let Some(Named::Uses { names, .. }) = template.named() else {
            return;
        };
        if self.is_session_pooling()
            || self.status == Status::Failed
            || context.policy.session_state != SessionStateMode::Pin
        {
            return;
        }
        for name in names {
            // The server would confuse such a name with those that Paceline uses.
            if !name.starts_with(NAME_PREFIX) {
                self.prepare_under_own_name(name.as_bytes(), context, out);
            }
        }
    }

    fn prepare_under_own_name(
        &mut self,
        name: &[u8],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        let Some((template, client_parse)) = context.session.statements.prepared(name) else {
            return;
        };
        let (template, client_parse) = (Arc::clone(template), client_parse.clone());
        let outgoing = self.outgoing(&template, context, out);
        let sent = self.as_prepared(name, outgoing, &client_parse, context);
        self.close_left_over(name, context, out);
        self.inject_parse(name, &sent, client_parse.other_types(&sent.types), out);
        let undo = context.session.statements.close(name);
        self.closes(undo);
        context.server.needs_reset = true;
        context.server.unknown_prepared = true;
        self.prepares = true;
        self.pin(PinReason::Prepared);
    }

    /// PREPARE as a `Parse`.
    pub(super) fn prepare_by_name(
        &mut self,
        template: &Template,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Unparsed> {
        let Some(Named::Prepare { name, types, body }) = template.named() else {
            return Ok(());
        };
        let declared = frontend::parameter_types(types);
        let text = with_leading_spaces(&template.text, body);
        let prepared = context.templates.try_prepared_now(&text, &declared)?;
        let prepared = self.as_read(&text, prepared, context);
        let parse = Parse {
            name: name.as_bytes(),
            text: text.as_bytes(),
            types: &declared,
        };
        self.parse_named(parse, &prepared, StatementReply::Prepared, context, out);
        Ok(())
    }

    /// The client prepares a named statement.
    pub(super) fn parse_named(
        &mut self,
        parse: Parse<'_>,
        template: &Arc<Template>,
        reply: StatementReply,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        if context.session.statements.get(parse.name).is_some() {
            return self.parse_again(parse, context, out);
        }
        if context.session.statements.is_full() {
            return self.refuse_message(RelayRefusal::Full, out);
        }
        let mut template = Arc::clone(template);
        if context.session.statements.has(template.statement_id) {
            // A server analyses each of a client's statements when the client parses it, so two of them cannot be one.
            template = context.templates.with_own_statement(&template);
        }
        let outgoing = self.outgoing(&template, context, out);
        let client_parse = context.begin_parse();
        let now = client_parse.written;
        let undo = context
            .session
            .statements
            .parse(parse.name, template, client_parse);
        if self.status == Status::Failed {
            // PostgreSQL decides whether a failed transaction accepts the statement.
            Parse {
                name: b"",
                text: outgoing.text.as_bytes(),
                types: &outgoing.types,
            }
            .write(out);
            context.server.unnamed = None;
            let key = None;
            return self.expect.push_back(Expect::Parse { key, undo, reply });
        }
        let ensured = context.server.parse((&*outgoing).into(), now, out);
        self.expect_closed(ensured.closed);
        let key = Some(ensured.key);
        self.expect.push_back(Expect::Parse { key, undo, reply });
    }

    fn execute_by_name(
        &mut self,
        (text, name, at): (&str, &str, &Range<usize>),
        template: &Template,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> bool {
        if context.session.statements.get(name.as_bytes()).is_none() {
            return self.execute_unknown((text, name, at), context, out);
        }
        let (mut changes, hints) = context.effects(Some(template));
        self.add_effects_of_others(Run::Text(template), &mut changes, context);
        if let Some(why) = self.query_refusal(&changes, template, context) {
            self.refuse_query(why, out);
            return true;
        }
        let before = out.len();
        let known = self.ensure_statement(name.as_bytes(), context, out);
        if known.is_unknown() {
            changes.push(SessionChange::Anything);
        }
        context.meet_temporaries(&changes, self);
        let name = quoted(&known.name);
        self.request.text_shift = Some(TextShift::renamed(text, at, &name));
        let mut query = BytesMut::new();
        frontend::write_query(&mut query, &renamed(text, at, &name));
        let expect = Expect::Query {
            execution: (changes, hints).into(),
            by_name: true,
        };
        let sync_first = out.len() > before;
        self.send_query(&query, expect, sync_first, out);
        true
    }

    /// The text must not find a statement of another client.
    fn execute_unknown(
        &mut self,
        (text, name, at): (&str, &str, &Range<usize>),
        context: &RelayContext<'_>,
        out: &mut BytesMut,
    ) -> bool {
        self.close_left_over(name.as_bytes(), context, out);
        if !name.starts_with(NAME_PREFIX) {
            return false;
        }
        frontend::write_query(
            out,
            &renamed(text, at, &quoted(&avoid_prefix(name.as_bytes()))),
        );
        self.expect.push_back(Expect::query(context.effects(None)));
        true
    }

    /// The statement as the server receives it. If it executes another one by name, that name is replaced.
    pub(super) fn outgoing(
        &mut self,
        template: &Arc<Template>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Arc<Template> {
        if let Some(text) = self.shared_statement(template, context) {
            return context.templates.in_place_of(template, &text);
        }
        let target = match template.named() {
            Some(Named::Execute { name, .. })
                if context.session.statements.get(name.as_bytes()).is_none() =>
            {
                self.close_left_over(name.as_bytes(), context, out);
                None
            }
            Some(Named::Execute { name, at, .. }) => {
                context.executed_name(template, name).map(|n| (n, at))
            }
            _ => None,
        };
        let Some((name, at)) = target else {
            return Arc::clone(template);
        };
        let known = self.ensure_statement(name.as_bytes(), context, out);
        let text = renamed(&template.text, at, &quoted(&known.name));
        match known.is_unknown() {
            true => context.templates.unknown(&text, &template.types),
            false => context.templates.in_place_of(template, &text),
        }
    }

    /// Executes a portal that names a statement. `changes`: its changes. Returns false if PostgreSQL must execute it.
    pub(super) fn portal_by_name(
        &mut self,
        portal: &[u8],
        (template, done): (&Template, bool),
        changes: &[SessionChange],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<bool, Unparsed> {
        if self.is_session_pooling() || self.status == Status::Failed {
            return Ok(false);
        }
        if done {
            self.refuse_message(RelayRefusal::PortalDone(portal.into()), out);
            return Ok(true);
        }
        if let Some(Named::Prepare { .. }) = template.named() {
            self.prepare_by_name(template, context, out)?;
            self.is_executed(portal);
            return Ok(true);
        }
        if let Some(reason) = self.refused(changes, context) {
            self.refuse_message(RelayRefusal::Unmovable(reason), out);
            return Ok(true);
        }
        let done = match changes {
            [SessionChange::Deallocate { name }]
                if context.session.statements.get(name.as_bytes()).is_some() =>
            {
                let undo = context.session.statements.close(name.as_bytes());
                self.answer_here(Some(undo), StatementReply::Deallocated);
                true
            }
            [SessionChange::DeallocateAll]
                if !self.has_own_names() && !context.server.unknown_prepared =>
            {
                self.close_named(context);
                self.answer_here(None, StatementReply::DeallocatedAll);
                true
            }
            _ => false,
        };
        if done {
            self.is_executed(portal);
        }
        Ok(done)
    }

    fn is_executed(&mut self, portal: &[u8]) {
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.done = true;
        }
    }

    /// Messages from now on find no named statement, unless the server skips this one.
    fn close_named(&mut self, context: &mut RelayContext<'_>) {
        let undo = context.session.statements.close_named();
        self.closes(undo);
    }

    /// A simple query is about to be sent. It drops the unnamed statement, unless the server skips the query.
    pub(super) fn close_unnamed(&mut self, context: &mut RelayContext<'_>) {
        context.server.unnamed = None;
        if context.session.statements.get(b"").is_some() {
            let undo = context.session.statements.close(b"");
            self.closes(undo);
        }
    }

    /// The next message closes statements of the client. If the server skips it, `undo` restores them.
    pub(super) fn closes(&mut self, undo: Undo) {
        self.answer_here(Some(undo), StatementReply::Nothing);
    }

    /// A portal was sent that drops all statements. It does not affect statements that are prepared later.
    pub(super) fn close_all_at_execute(&mut self, context: &mut RelayContext<'_>) {
        self.close_named(context);
        // The server closes statements that are gone without an error, and Paceline loses none that remain.
        context.server.retire_all();
        context.server.unnamed = None;
    }

    /// Sends a query that fails in place of the client's.
    pub(super) fn refuse_query(&mut self, why: RelayRefusal, out: &mut BytesMut) {
        frontend::write_query(out, "ROLLBACK TO SAVEPOINT \"paceline: refused\"");
        self.expect.push_back(Expect::Refused { why, query: true });
    }

    /// Sends a message that fails in place of the client's.
    pub(super) fn refuse_message(&mut self, why: RelayRefusal, out: &mut BytesMut) {
        Target::Portal(NO_PORTAL).write(out, tag::DESCRIBE);
        self.expect.push_back(Expect::Refused { why, query: false });
    }
}

impl RelayContext<'_> {
    /// The name, if the client has a statement with this name that does not execute another one.
    fn executed_name(&self, template: &Template, name: &str) -> Option<String> {
        self.executed(template).map(|_| name.to_owned())
    }
}

/// The end of a text, with a space for each character before it. Thus errors report the same positions, now and whenever the
/// statement is analysed again.
pub(super) fn with_leading_spaces(text: &str, end: &str) -> String {
    let start = text.rfind(end).unwrap_or_default();
    let before = text.get(..start).map_or(0, |text| text.chars().count());
    " ".repeat(before) + end
}

fn quoted(name: &[u8]) -> String {
    quote_ident(&String::from_utf8_lossy(name))
}

/// The text with another name at that position.
fn renamed(text: &str, at: &Range<usize>, name: &str) -> String {
    let before = text.get(..at.start).unwrap_or_default();
    let after = text.get(at.end..).unwrap_or_default();
    format!("{before}{name}{after}")
}
