//! A client with `pool_mode` session: its statements have its own names on the server, and its messages about them are
//! forwarded as they are. The relay only notes what their execution may change.

use super::expect::Expect;
use super::expect::StatementReply;
use super::state::{RelayContext, RelayState};
use crate::template::{Template, Unparsed};
use bytes::{BufMut, BytesMut};
use paceline_sql::Named;
use paceline_wire::Frame;
use paceline_wire::frontend::{BindNames, Parse, Target, parameter_types, tag};
use std::borrow::Cow;
use std::sync::Arc;

impl RelayState {
    /// Forwards a message about a statement or a portal. Returns whether it did so: other messages, and other clients, are
    /// processed as usual.
    ///
    /// # Errors
    /// A text must be parsed first. Nothing has been written.
    pub(super) fn passes_names(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<bool, Unparsed> {
        if !self.is_session_pooling() {
            return Ok(false);
        }
        match frame.tag {
            tag::PARSE => self.pass_parse(frame, context, out)?,
            tag::BIND => self.pass_bind(frame, context, out),
            tag::DESCRIBE => self.pass(frame, Expect::Describe(None), out),
            tag::CLOSE => self.pass_close(frame, context, out),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn pass_parse(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Unparsed> {
        let Ok(parse) = Parse::read(frame.body()) else {
            self.pass(frame, Expect::InjectedParse { key: None }, out);
            return Ok(());
        };
        let read = match std::str::from_utf8(parse.text) {
            Ok(text) => Some(self.read_text(text, parse.types, context)?),
            Err(_) => None,
        };
        context.server.unnamed = None;
        // `server_reset_query` may not drop the statement, and the next client must not find it.
        context.server.unknown_prepared |= !parse.name.is_empty();
        let undo = match &read {
            Some((_, template)) if !context.session.statements.is_full() => context
                .session
                .statements
                .prepare(parse.name, Arc::clone(template)),
            _ => context.session.statements.close(parse.name),
        };
        match &read {
            Some((Cow::Owned(text), _)) => {
                let text = text.as_bytes();
                Parse { text, ..parse }.write(out);
            }
            _ => out.put_slice(frame.bytes),
        }
        let (key, reply) = (None, StatementReply::Parsed);
        self.expect.push_back(Expect::Parse { key, undo, reply });
        Ok(())
    }

    fn pass_bind(&mut self, frame: Frame<'_>, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        if let Ok(bind) = BindNames::read(frame.body()) {
            self.note_bind(&bind, bind.rest, context);
        }
        let (key, described) = (None, true);
        self.pass(frame, Expect::Bind { key, described }, out);
    }

    /// Notes that these values of a statement are bound to a portal.
    pub(super) fn note_bind(
        &mut self,
        bind: &BindNames<'_>,
        values: &[u8],
        context: &RelayContext<'_>,
    ) {
        match context.session.statements.get(bind.statement) {
            Some(template) => self.open_portal(bind, values, template, None),
            None => self.portals.remove(bind.portal),
        }
    }

    fn pass_close(&mut self, frame: Frame<'_>, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        self.pass(frame, Expect::Close, out);
        if let Ok(Target::Statement(name)) = Target::read(frame.body()) {
            let undo = context.session.statements.close(name);
            self.closes(undo);
        }
    }

    /// A query that is a PREPARE is forwarded.
    pub(super) fn pass_prepare(&mut self, template: &Template, context: &mut RelayContext<'_>) {
        if let Some(Named::Prepare { name, types, body }) = template.named() {
            context.server.unknown_prepared = true;
            let template = context.templates.prepared(body, &parameter_types(types));
            self.request.prepares = Some((name.as_bytes().into(), template));
        }
    }

    /// The PREPARE of the request has completed, if it has one.
    pub(super) fn query_prepared(&mut self, context: &mut RelayContext<'_>) {
        if let Some((name, template)) = self.request.prepares.take()
            && !self.request.failed
            && !context.session.statements.is_full()
        {
            context.session.statements.prepare(&name, template);
        }
    }
}
