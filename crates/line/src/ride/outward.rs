//! From the client to the server.

use super::expect::Says;
use super::{Desk, Expect, Ride};
use crate::server::{NAME_PREFIX, StatementKey};
use crate::session::Undo;
use crate::show::Show;
use crate::template::{Template, without_bare_hints};
use bytes::{BufMut, BytesMut};
use paceline_sql::{Kept, SessionChange};
use paceline_wire::Frame;
use paceline_wire::backend::Status;
use paceline_wire::frontend::{self, BindNames, Parse, Target, tag};
use paceline_wire::reader::Reader;
use std::borrow::Cow;
use std::sync::Arc;

/// A statement of the client, as the server knows it.
#[derive(Default)]
pub(super) struct Known {
    pub(super) name: Vec<u8>,
    /// If it is shared with other clients.
    key: Option<StatementKey>,
}

impl Ride {
    /// Takes a message of the client and writes what goes to the server.
    pub fn client_message(&mut self, frame: Frame<'_>, desk: &mut Desk<'_>, out: &mut BytesMut) {
        if std::mem::take(&mut self.skipping) && frame.tag != tag::SYNC {
            self.skipping = true;
            return;
        }
        match frame.tag {
            tag::QUERY | tag::SYNC | tag::FUNCTION_CALL => self.mid_unit = false,
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE => {
                self.mid_unit = true
            }
            _ => {}
        }
        match frame.tag {
            tag::QUERY => self.query(frame, desk, out),
            // What cannot be read goes on as it is: PostgreSQL says best what is wrong with it.
            tag::PARSE => match Parse::read(frame.body()) {
                Ok(parse) => {
                    if self.repeat.renews() {
                        // The client has it already: it is taken anew.
                        desk.session.close(parse.name);
                    }
                    self.parse(parse, desk, out);
                }
                Err(_) => self.pass(frame, Expect::OwnParse { key: None }, out),
            },
            tag::BIND => match BindNames::read(frame.body()) {
                Ok(bind) => self.bind(bind, desk, out),
                Err(_) => self.pass(frame, Expect::Bind { key: None }, out),
            },
            tag::DESCRIBE => match Target::read(frame.body()) {
                Ok(target) => self.describe(target, desk, out),
                Err(_) => self.pass(frame, Expect::Describe, out),
            },
            tag::CLOSE => match Target::read(frame.body()) {
                Ok(target) => self.close(target, desk, out),
                Err(_) => self.pass(frame, Expect::Close, out),
            },
            tag::EXECUTE => {
                let portal = Reader::new(frame.body()).cstr().unwrap_or_default();
                if !self.portal_by_name(portal, desk, out) {
                    let template = self.portals.get(portal).map(|p| &p.template);
                    let exclusive = template.and_then(|template| template.exclusive());
                    if let Some(database) = exclusive {
                        self.exclusive = Some(database.to_owned());
                    }
                    let (changes, hints) = self.what_portal_does(portal, desk);
                    let drops = changes.iter().any(SessionChange::drops_statements);
                    self.pass(frame, Expect::Execute { changes, hints }, out);
                    if drops {
                        self.drops_all(desk);
                    }
                }
            }
            tag::FUNCTION_CALL => {
                desk.server.tainted = true;
                self.pass(frame, Expect::FunctionCall, out);
            }
            // In COPY IN the server skips them.
            tag::SYNC if self.copy_in => {
                self.sync_in_copy = true;
                out.put_slice(frame.bytes);
            }
            tag::SYNC => self.pass(frame, Expect::Sync, out),
            tag::COPY_DONE | tag::COPY_FAIL if self.copy_in => {
                self.copy_in = false;
                out.put_slice(frame.bytes);
            }
            // Outside COPY IN the server skips them, unless it is about to start one.
            tag::COPY_DONE | tag::COPY_FAIL if !self.expect.is_empty() => {
                self.pass(frame, Expect::CopyEnd, out);
            }
            _ => out.put_slice(frame.bytes),
        }
    }

    fn pass(&mut self, frame: Frame<'_>, expect: Expect, out: &mut BytesMut) {
        out.put_slice(frame.bytes);
        self.expect.push_back(expect);
    }

    fn query(&mut self, frame: Frame<'_>, desk: &mut Desk<'_>, out: &mut BytesMut) {
        desk.server.unnamed = None;
        desk.session.close_unnamed();
        let Ok(text) = Reader::new(frame.body()).str() else {
            let (changes, hints) = desk.what_it_does(None);
            return self.pass(
                frame,
                Expect::Query {
                    changes,
                    hints,
                    by_name: false,
                },
                out,
            );
        };
        let (plain, template) = match desk.known {
            Some(known) => (Cow::Borrowed(text), Arc::clone(known)),
            None => {
                let plain = own_text(text, desk);
                let template = desk.templates.simple(&plain).template;
                (plain, template)
            }
        };
        if self.query_by_name(&plain, &template, desk, out) {
            return;
        }
        if let Some(database) = template.exclusive() {
            self.exclusive = Some(database.to_owned());
        }
        let (changes, hints) = desk.what_it_does(Some(&template));
        if let Some(kept) = self.refused(&changes, desk) {
            return self.refuse_query(kept, out);
        }
        let single = template
            .statement
            .as_ref()
            .is_some_and(|s| s.statements == 1);
        if single && self.status != Status::Failed && deallocates_known(&changes, desk) {
            // The statement has another name on servers, and stays there: the empty query is answered instead.
            frontend::write_query(out, "");
            self.expect.push_back(Expect::Deallocate);
            return;
        }
        match plain {
            Cow::Borrowed(_) => out.put_slice(frame.bytes),
            Cow::Owned(plain) => frontend::write_query(out, &plain),
        }
        self.expect.push_back(Expect::Query {
            changes,
            hints,
            by_name: false,
        });
    }

    fn parse(&mut self, parse: Parse<'_>, desk: &mut Desk<'_>, out: &mut BytesMut) {
        let known = std::str::from_utf8(parse.text)
            .ok()
            .map(|text| own_text(text, desk).into_owned());
        let Some(text) = known else {
            // Not in an encoding that can be kept as text: only PostgreSQL knows this statement.
            self.pin(Kept::NotText);
            let undo = desk.session.close(parse.name);
            parse.write(out);
            return self.expect_parse(undo);
        };
        let parse = Parse {
            text: text.as_bytes(),
            ..parse
        };
        if !parse.name.is_empty() {
            return self.parse_named(parse, Says::Parsed, desk, out);
        }
        let template = desk.templates.prepared_now(&text, parse.types);
        let outgoing = self.outgoing(&template, desk, out);
        Parse {
            text: outgoing.text.as_bytes(),
            ..parse
        }
        .write(out);
        desk.server.unnamed = Some(outgoing.statement_id);
        let undo = desk.session.prepare(b"", template);
        self.expect_parse(undo);
    }

    /// A `Parse` of the client was written, of a statement that it shares with nobody.
    fn expect_parse(&mut self, undo: Undo) {
        self.expect.push_back(Expect::Parse {
            key: None,
            undo,
            says: Says::Parsed,
        });
    }

    /// A name that the client uses already: PostgreSQL itself raises the error, under the client's name.
    pub(super) fn parse_again(
        &mut self,
        parse: Parse<'_>,
        desk: &mut Desk<'_>,
        out: &mut BytesMut,
    ) {
        let undo = desk.session.prepare(parse.name, keep(desk, parse.name));
        let name = foreign(parse.name);
        let parse = Parse {
            name: &name,
            ..parse
        };
        let placeholder = Parse {
            name: parse.name,
            text: b"SELECT",
            types: &[0, 0],
        };
        placeholder.write(out);
        self.expect.push_back(Expect::OwnParse { key: None });
        parse.write(out);
        desk.server.leave(parse.name);
        self.expect_parse(undo);
    }

    fn bind(&mut self, bind: BindNames<'_>, desk: &mut Desk<'_>, out: &mut BytesMut) {
        let Known { name, key } = self.make_known(bind.statement, desk, out);
        match desk.session.statement(bind.statement) {
            Some(template) => self.open_portal(&bind, template),
            None => drop(self.portals.remove(bind.portal)),
        }
        BindNames {
            statement: &name,
            ..bind
        }
        .write(out);
        self.expect.push_back(Expect::Bind { key });
    }

    fn describe(&mut self, target: Target<'_>, desk: &mut Desk<'_>, out: &mut BytesMut) {
        match target {
            Target::Portal(_) => target.write(out, tag::DESCRIBE),
            Target::Statement(name) => {
                let Known { name, .. } = self.make_known(name, desk, out);
                Target::Statement(&name).write(out, tag::DESCRIBE);
            }
        }
        self.expect.push_back(Expect::Describe);
    }

    fn close(&mut self, target: Target<'_>, desk: &mut Desk<'_>, out: &mut BytesMut) {
        match target {
            Target::Portal(_) => {
                target.write(out, tag::CLOSE);
                self.expect.push_back(Expect::Close);
            }
            Target::Statement(name) => {
                self.repeat.renews();
                let undo = Some(desk.session.close(name));
                let says = Says::Closed;
                self.expect.push_back(Expect::Done { undo, says });
            }
        }
    }

    /// Makes the client's statement known to the server.
    pub(super) fn make_known(
        &mut self,
        name: &[u8],
        desk: &mut Desk<'_>,
        out: &mut BytesMut,
    ) -> Known {
        let Some(template) = desk.session.statement(name).cloned() else {
            return Known {
                name: self.unknown(name, desk, out),
                key: None,
            };
        };
        let template = self.outgoing(&template, desk, out);
        if name.is_empty() {
            if desk.server.unnamed != Some(template.statement_id) {
                Parse {
                    name: b"",
                    text: template.text.as_bytes(),
                    types: &template.types,
                }
                .write(out);
                desk.server.unnamed = Some(template.statement_id);
                self.expect.push_back(Expect::OwnParse { key: None });
            }
            return Known::default();
        }
        let template = match own_text(&template.text, desk) {
            Cow::Borrowed(_) => template,
            Cow::Owned(text) => desk.templates.prepared(&text, &template.types),
        };
        let ensured = desk.server.ensure((&*template).into(), out);
        self.expect
            .extend(ensured.closed.map(|closed| Expect::OwnClose {
                closed: Some(closed),
            }));
        if ensured.parsed {
            self.expect.push_back(Expect::OwnParse {
                key: Some(ensured.key),
            });
        }
        Known {
            name: ensured.key.name().into_bytes(),
            key: Some(ensured.key),
        }
    }

    /// A name that the client has not prepared: PostgreSQL says so, and must not find another client's statement.
    fn unknown(&mut self, name: &[u8], desk: &mut Desk<'_>, out: &mut BytesMut) -> Vec<u8> {
        if name.is_empty() && desk.server.unnamed.take().is_some() {
            Target::Statement(b"").write(out, tag::CLOSE);
            self.expect.push_back(Expect::OwnClose { closed: None });
        }
        self.close_left(name, desk, out);
        foreign(name)
    }

    /// A placeholder of that name may still be there, or what a function called by another client has prepared. (The
    /// placeholder is closed once more before the next ride: an error may make the server skip this.)
    pub(super) fn close_left(&mut self, name: &[u8], desk: &Desk<'_>, out: &mut BytesMut) {
        let is_strange = !name.is_empty() && !name.starts_with(NAME_PREFIX.as_bytes());
        if desk.server.is_left(name) || (is_strange && !self.has_own_names()) {
            Target::Statement(name).write(out, tag::CLOSE);
            self.expect.push_back(Expect::OwnClose { closed: None });
        }
    }
}

/// A client's own name, made different from the names that Paceline gives.
pub(super) fn foreign(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    if name.starts_with(NAME_PREFIX.as_bytes()) {
        name.push(b' ');
    }
    name
}

/// The text that goes to the server: without bare hints, and with what Paceline itself answers put as a SELECT.
fn own_text<'a>(text: &'a str, desk: &Desk<'_>) -> Cow<'a, str> {
    match Show::parse(text).and_then(|show| show.answer(desk.console)) {
        Some(table) => Cow::Owned(table.to_select()),
        None => without_bare_hints(text),
    }
}

/// `DEALLOCATE name` of a statement that the client prepared by protocol: forgets it.
fn deallocates_known(changes: &[SessionChange], desk: &mut Desk<'_>) -> bool {
    let [SessionChange::Deallocate { name }] = changes else {
        return false;
    };
    let known = desk.session.statement(name.as_bytes()).is_some();
    desk.session.close(name.as_bytes());
    known
}

/// The statement behind a name the client is about to fail to take again.
fn keep(desk: &Desk<'_>, name: &[u8]) -> Arc<Template> {
    match desk.session.statement(name) {
        Some(template) => Arc::clone(template),
        None => desk.templates.prepared("", &[0, 0]),
    }
}
