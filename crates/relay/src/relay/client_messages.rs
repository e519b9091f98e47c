//! Messages from the client to the server.

use super::expect::{DescribeTarget, Expect, StatementReply};
use super::listening::list_of_channels;
use super::not_yet::NotYet;
use super::portals::Run;
use super::refusal::RelayRefusal;
use super::state::{Extended, RelayContext, RelayState};
use super::statement_names::ServerStatement;
use super::statements_by_name::with_leading_spaces;
use crate::local_show::LocalShow;
use crate::parsed::ClientParse;
use crate::session::Undo;
use crate::template::{Template, Unparsed};
use bytes::{BufMut, BytesMut};
use paceline_sql::{Named, PinReason, SequenceUse, SessionChange};
use paceline_wire::Frame;
use paceline_wire::backend::Status;
use paceline_wire::frontend::{self, BindNames, Parse, Target, tag};
use paceline_wire::reader::Reader;
use std::borrow::Cow;
use std::sync::Arc;

impl RelayState {
    /// Processes a message of the client, and appends to `out` what the server receives.
    ///
    /// # Errors
    /// The message cannot be processed now. The caller passes it again later.
    pub fn client_message(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), NotYet> {
        if self.is_describing() {
            return Err(NotYet::Describing);
        }
        if self.extended == Extended::Skipping && frame.tag != tag::SYNC {
            return Ok(());
        }
        match frame.tag {
            tag::SYNC | tag::FUNCTION_CALL => {
                self.extended = Extended::No;
                self.portals.request_ends();
            }
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE
                if self.extended == Extended::No =>
            {
                self.begins_messages(context, out);
                self.message_shows_idle_timeout(frame, context, out)?;
                self.extended = Extended::Open;
            }
            _ => {}
        }
        if self.passes_names(frame, context, out)? {
            return Ok(());
        }
        match frame.tag {
            tag::QUERY => {
                self.query(frame, context, out)?;
                self.extended = Extended::No;
                self.portals.request_ends();
            }
            // PostgreSQL reports the error if a message is malformed.
            tag::PARSE => match Parse::read(frame.body()) {
                Ok(parse) => self.parse(parse, context, out)?,
                Err(_) => self.pass(frame, Expect::InjectedParse { key: None }, out),
            },
            tag::BIND => match BindNames::read(frame.body()) {
                Ok(bind) => self.bind(bind, context, out)?,
                Err(_) => self.pass(
                    frame,
                    Expect::Bind {
                        key: None,
                        described: false,
                    },
                    out,
                ),
            },
            tag::DESCRIBE => match Target::read(frame.body()) {
                Ok(target) => self.describe(target, context, out),
                Err(_) => self.pass(frame, Expect::Describe(None), out),
            },
            tag::CLOSE => match Target::read(frame.body()) {
                Ok(target) => self.close(target, context, out),
                Err(_) => self.pass(frame, Expect::Close, out),
            },
            tag::EXECUTE => self.execute(frame, context, out)?,
            tag::FUNCTION_CALL => {
                self.await_listening(None, context)?;
                self.commits.sent(false);
                self.uses_sequences(SequenceUse::ANY, context, out);
                context.server.needs_reset = true;
                let large_object = calls_large_object(frame);
                if !large_object {
                    context.hide_settings(&[SessionChange::Anything]);
                }
                self.pass(frame, Expect::FunctionCall { large_object }, out);
            }
            // The server skips a Sync in COPY IN.
            tag::SYNC if self.copy_in => {
                self.sync_in_copy = true;
                out.put_slice(frame.bytes);
            }
            tag::SYNC => self.pass(frame, Expect::Sync, out),
            tag::COPY_DONE | tag::COPY_FAIL if self.copy_in => {
                self.copy_in = false;
                out.put_slice(frame.bytes);
            }
            // The server skips them outside COPY IN, unless it is about to start one.
            tag::COPY_DONE | tag::COPY_FAIL if !self.expect.is_empty() => {
                self.pass(frame, Expect::CopyEnd, out);
            }
            _ => out.put_slice(frame.bytes),
        }
        Ok(())
    }

    pub(super) fn pass(&mut self, frame: Frame<'_>, expect: Expect, out: &mut BytesMut) {
        out.put_slice(frame.bytes);
        self.expect.push_back(expect);
    }

    fn query(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), NotYet> {
        self.close_unnamed(context);
        let Ok(text) = Reader::new(frame.body()).str() else {
            self.await_listening(None, context)?;
            self.commits.sent(false);
            self.uses_sequences(SequenceUse::ANY, context, out);
            self.pass(frame, Expect::query(context.effects(None)), out);
            return Ok(());
        };
        let (plain, template) = self.query_template(text, context)?;
        self.parse_prepared(&template, context)?;
        let template = self.as_read(text, template, context);
        self.await_listening(Some(&template), context)?;
        let run = Run::Text(&template);
        self.notes_writes(run, context);
        self.uses_sequences(self.sequences_of(run, context), context, out);
        self.shows_idle_timeout(&template, context, out);
        if self.is_session_pooling() {
            self.pass_prepare(&template, context);
        } else if self.query_by_name(&plain, &template, context, out)? {
            return Ok(());
        }
        if let Some(database) = template.exclusive() {
            self.exclusive = Some(database.to_owned());
        }
        let (mut changes, hints) = context.effects(Some(&template));
        self.add_effects_of_others(run, &mut changes, context);
        if let Some(why) = self.query_refusal(&changes, &template, context) {
            self.refuse_query(why, out);
            return Ok(());
        }
        let plain = self.shared_text(plain, &changes, context);
        let single = template
            .statement
            .as_ref()
            .is_some_and(|s| s.statements == 1);
        let intercepted = single && !self.is_session_pooling() && self.status != Status::Failed;
        if intercepted && let Some(undo) = deallocates_known(&changes, context) {
            // The statement has another name on servers, and remains there. The server answers an empty query instead.
            self.closes(undo);
            frontend::write_query(out, "");
            self.expect.push_back(Expect::Deallocate);
            return Ok(());
        }
        context.meet_temporaries(&changes, self);
        self.discards_sequences(&changes, single, context);
        let before = out.len();
        self.prepare_under_own_names(&template, context, out);
        let expect = Expect::query((changes, hints));
        let sync_first = out.len() > before;
        match plain {
            Cow::Borrowed(_) => self.send_query(frame.bytes, expect, sync_first, out),
            Cow::Owned(plain) => {
                let mut message = BytesMut::new();
                frontend::write_query(&mut message, &plain);
                self.send_query(&message, expect, sync_first, out);
            }
        }
        Ok(())
    }

    /// The text of a query as the server receives it, and its template.
    fn query_template<'a>(
        &self,
        text: &'a str,
        context: &RelayContext<'_>,
    ) -> Result<(Cow<'a, str>, Arc<Template>), Unparsed> {
        if let Some(known) = context.query {
            return Ok((Cow::Borrowed(text), Arc::clone(known)));
        }
        if let Some((select, template)) = context.answer_now(text) {
            return Ok((Cow::Owned(select), template));
        }
        let plain = context.templates.try_plain(text)?;
        let template = context.templates.try_simple_template(&plain)?;
        Ok((plain, template))
    }

    /// A PREPARE is about to be executed: its statement must be parsed before anything is written.
    fn parse_prepared(
        &self,
        template: &Template,
        context: &RelayContext<'_>,
    ) -> Result<(), Unparsed> {
        if let Some(Named::Prepare { types, body, .. }) = template.named() {
            let text = match self.is_session_pooling() {
                true => Cow::Borrowed(body.as_str()),
                false => Cow::Owned(with_leading_spaces(&template.text, body)),
            };
            let declared = frontend::parameter_types(types);
            context.templates.try_prepared(&text, &declared)?;
        }
        Ok(())
    }

    /// The reason why Paceline rejects a query with these changes.
    pub(super) fn query_refusal(
        &mut self,
        changes: &[SessionChange],
        template: &Template,
        context: &RelayContext<'_>,
    ) -> Option<RelayRefusal> {
        let refused = self.refused(changes, context).map(RelayRefusal::Unmovable);
        refused.or_else(|| self.listen_refusal(Some(template), context))
    }

    /// Sends a `Query`. `sync_first`: messages precede it, which a `Sync` must end before the server receives the `Query`.
    pub(super) fn send_query(
        &mut self,
        message: &[u8],
        query: Expect,
        sync_first: bool,
        out: &mut BytesMut,
    ) {
        if !sync_first {
            out.put_slice(message);
            return self.expect.push_back(query);
        }
        frontend::write_sync(out);
        let (message, query) = (message.into(), Box::new(query));
        self.expect
            .push_back(Expect::SyncBeforeQuery { message, query });
    }

    fn parse(
        &mut self,
        parse: Parse<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Unparsed> {
        let Ok(text) = std::str::from_utf8(parse.text) else {
            self.parse_not_text(parse, context, out);
            return Ok(());
        };
        // The client may execute a named statement after its channels have changed.
        let now = match parse.name.is_empty() {
            true => context.answer_now(text),
            false => None,
        };
        let (text, template) = match now {
            Some((select, template)) => (Cow::Owned(select), template),
            None => self.read_text(text, parse.types, context)?,
        };
        self.renew(parse.name, context);
        let parse = Parse {
            text: text.as_bytes(),
            ..parse
        };
        if !parse.name.is_empty() {
            self.parse_named(parse, &template, StatementReply::Parsed, context, out);
            return Ok(());
        }
        let outgoing = self.outgoing(&template, context, out);
        match Arc::ptr_eq(&outgoing, &template) {
            // With the client's comment, which the template does not have.
            true => parse.write(out),
            false => Parse {
                text: outgoing.text.as_bytes(),
                ..parse
            }
            .write(out),
        }
        let client_parse = context.begin_parse();
        context.server.parse_unnamed(client_parse.written);
        let undo = context
            .session
            .statements
            .parse(b"", template, client_parse);
        self.expect_parse(undo);
        Ok(())
    }

    /// The text of a client's `Parse` as the server receives it, and its template.
    pub(super) fn read_text<'a>(
        &self,
        text: &'a str,
        types: &[u8],
        context: &RelayContext<'_>,
    ) -> Result<(Cow<'a, str>, Arc<Template>), Unparsed> {
        if let Some((select, template)) = context.answer(text) {
            return Ok((Cow::Owned(select), template));
        }
        let plain = context.templates.try_plain(text)?;
        let template = context.templates.try_prepared_now(&plain, types)?;
        let template = self.as_read(&plain, template, context);
        Ok((plain, template))
    }

    /// When a request is retried, the client has the statement already. Prepares it again.
    pub(super) fn renew(&mut self, name: &[u8], context: &mut RelayContext<'_>) {
        if self.retry.renews() {
            context.session.statements.close(name);
        }
    }

    /// A `Parse` of the client was written whose statement is not shared.
    pub(super) fn expect_parse(&mut self, undo: Undo) {
        self.expect.push_back(Expect::Parse {
            key: None,
            undo,
            reply: StatementReply::Parsed,
        });
    }

    fn bind(
        &mut self,
        bind: BindNames<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), NotYet> {
        let (known, expect) = self.bind_to(&bind, bind.rest, context, out)?;
        BindNames {
            statement: &known.name,
            ..bind
        }
        .write(out);
        self.expect.push_back(expect);
        Ok(())
    }

    /// Ensures that the server has the statement, and notes that these values of it are bound to the portal. The caller
    /// writes the `Bind`.
    pub(super) fn bind_to(
        &mut self,
        bind: &BindNames<'_>,
        values: &[u8],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(ServerStatement, Expect), NotYet> {
        let known = self.ensure_with_known_columns(bind.statement, context, out)?;
        let described = known.columns.is_some();
        match &known.template {
            Some(template) => {
                self.note_planning(template, context);
                self.open_portal(bind, values, template, known.key);
            }
            None => self.portals.remove(bind.portal),
        }
        let key = known.key;
        Ok((known, Expect::Bind { key, described }))
    }

    fn describe(&mut self, target: Target<'_>, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        let described = match target {
            Target::Portal(portal) => {
                target.write(out, tag::DESCRIBE);
                let portal = self.portals.get(portal);
                portal.and_then(|portal| DescribeTarget::of(&portal.statement, portal.key, context))
            }
            Target::Statement(name) => {
                let ServerStatement { name: own, key, .. } =
                    self.ensure_statement(name, context, out);
                Target::Statement(&own).write(out, tag::DESCRIBE);
                DescribeTarget::of(name, key, context)
            }
        };
        self.expect.push_back(Expect::Describe(described));
    }

    fn close(&mut self, target: Target<'_>, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        match target {
            Target::Portal(name) => {
                self.portals.remove(name);
                target.write(out, tag::CLOSE);
                self.expect.push_back(Expect::Close);
            }
            Target::Statement(name) => {
                self.retry.renews();
                let undo = context.session.statements.close(name);
                self.answer_here(Some(undo), StatementReply::Closed);
            }
        }
    }
}

impl RelayContext<'_> {
    /// A SELECT in place of a `SHOW` command that Paceline answers.
    pub(super) fn answer(&self, text: &str) -> Option<(String, Arc<Template>)> {
        let select = LocalShow::parse(text)?
            .answer(self.show_source)?
            .to_select();
        Some(self.constant(select))
    }

    /// As [`RelayContext::answer`], also for the channels on which the client listens now.
    fn answer_now(&self, text: &str) -> Option<(String, Arc<Template>)> {
        let channels = list_of_channels(text, self).map(|select| self.constant(select));
        channels.or_else(|| self.answer(text))
    }

    fn constant(&self, select: String) -> (String, Arc<Template>) {
        let constant = self.templates.prepared("SELECT 1", &[0, 0]);
        let template = self.templates.in_place_of(&constant, &select);
        (select, template)
    }

    /// A statement with these changes is about to be sent. If it may create the first temporary object, all statements are
    /// prepared again: PostgreSQL analyses statements again when a session gets its temporary schema, but a server
    /// connection may have that from an earlier client. If it may set a search path that is not known, later statements of the
    /// transaction may create objects in that schema. If it hides settings, statements that are parsed later serve no other client.
    pub(super) fn meet_temporaries(&mut self, changes: &[SessionChange], state: &RelayState) {
        let makes = changes.contains(&SessionChange::Pin(PinReason::Temporary));
        let unseen = |c: &SessionChange| {
            matches!(c, SessionChange::Anything | SessionChange::FunctionsCalled)
        };
        let may_make = self.server.had_temporaries && changes.iter().any(unseen);
        if (makes || may_make) && !state.pinned_for.contains(&PinReason::Temporary) {
            self.server.retire_all();
            if !state.has_own_unnamed(self) {
                self.server.unnamed = None;
            }
        }
        let unknown = changes.contains(&SessionChange::Anything);
        self.server.had_temporaries |= makes || unknown;
        self.hide_settings(changes);
    }

    /// A statement with these changes is about to be sent. Settings that its text does not show, or that end with the transaction, are in
    /// force from now on.
    pub(super) fn hide_settings(&mut self, changes: &[SessionChange]) {
        self.server.path_unknown |= changes.iter().any(SessionChange::hides_path);
        if changes.iter().any(SessionChange::hides_settings) {
            self.server
                .settings_are_unknown(|| self.interner.unknown_id());
        }
    }

    /// The client's `Parse` is about to be written.
    pub(super) fn begin_parse(&self) -> ClientParse {
        ClientParse::begun(self.templates.new_id(), self.server.settings_id())
    }
}

/// The functions by which libpq uses large objects (`src/interfaces/libpq/fe-lobj.c`): `lo_open`, `lo_close`, `loread`, `lowrite`,
/// `lo_lseek`, `lo_creat`, `lo_create`, `lo_tell`, `lo_truncate`, `lo_unlink` and the 64-bit forms.
const LARGE_OBJECT_OIDS: [u32; 13] = [
    952, 953, 954, 955, 956, 957, 715, 958, 1004, 964, 3170, 3171, 3172,
];

fn calls_large_object(frame: Frame<'_>) -> bool {
    let oid = frame
        .body()
        .first_chunk()
        .map(|oid| u32::from_be_bytes(*oid));
    oid.is_some_and(|oid| LARGE_OBJECT_OIDS.contains(&oid))
}

/// Closes the statement if the text is only a `DEALLOCATE` of it.
fn deallocates_known(changes: &[SessionChange], context: &mut RelayContext<'_>) -> Option<Undo> {
    let [SessionChange::Deallocate { name }] = changes else {
        return None;
    };
    context.session.statements.get(name.as_bytes())?;
    Some(context.session.statements.close(name.as_bytes()))
}
