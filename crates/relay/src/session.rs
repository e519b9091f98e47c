//! A client's session as far as it must follow the client across servers: prepared statements and settings; and
//! what Paceline does with each unit the client sends.

use crate::analysis::{Analysis, Shape};
use crate::request::{Form, Request, Values};
use crate::sequences::SequenceToken;
use crate::settings::Settings;
use crate::show::{Console, Show};
use crate::template::{Template, Templates, Unparsed, beginning_of_long};
use bytes::{Bytes, BytesMut};
pub use listening::ClientListening;
pub(crate) use listening::{lists_channels, only_lists_channels};
use paceline_sql::{Effect, Listening, SequenceUse};
use paceline_wire::backend::{Status, tag as back, write_command_complete};
use paceline_wire::frontend::{BindNames, BindValues, Parse, Target, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames, frame};
use single_statement::{Single, begins_parsed};
use statements::Statements;
pub use statements::{CLIENT_STATEMENTS_MAX, Undo};
use std::borrow::Cow;
use std::sync::Arc;

mod listening;
mod single_statement;
mod statements;

#[cfg(test)]
mod tests;

/// A client's session.
#[derive(Debug)]
pub struct Session {
    statements: Statements,
    /// Settings in force.
    pub settings: Arc<Settings>,
    /// Settings the session began with: what RESET goes back to.
    pub base: Arc<Settings>,
    /// Names the server connection on which it has drawn numbers of sequences last.
    pub sequences: SequenceToken,
    /// Its channels.
    pub listening: ClientListening,
}

/// What to do with a unit.
#[derive(Debug)]
pub enum Plan {
    /// Paceline answers itself.
    Answer(BytesMut),
    /// It is relayed.
    Alone,
    /// It is relayed; if it would have to wait for a server connection, [`Session::answer_names`] may answer it.
    Names,
    /// One statement in autocommit: it may travel with others.
    Single(Box<Request>),
    /// LISTEN or UNLISTEN in autocommit. It needs no server if its client listens by the shared connection.
    Listen(Listening, Box<Request>),
    /// Nothing can be said before this has been parsed elsewhere. Nothing has changed: ask again then.
    Unparsed(Unparsed),
}

impl Session {
    /// A session that begins with these settings.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            statements: Statements::default(),
            base: Arc::clone(&settings),
            settings,
            sequences: SequenceToken::default(),
            listening: ClientListening::default(),
        }
    }

    /// The statement the client knows by that name.
    pub fn statement(&self, name: &[u8]) -> Option<&Arc<Template>> {
        self.statements.get(name)
    }

    /// When the statement of that name was analysed, and what the client knows of it.
    pub fn analysis(&self, name: &[u8]) -> Option<&Analysis> {
        self.statements.analysis(name)
    }

    /// The statement of that name, and its analysis.
    pub(crate) fn prepared(&self, name: &[u8]) -> Option<(&Arc<Template>, &Analysis)> {
        self.statements.prepared(name)
    }

    /// The client has this statement under a name, by its [`Template::statement_id`].
    pub fn has_named(&self, statement: u64) -> bool {
        self.statements.has(statement)
    }

    /// A name under which the client knows a statement, by its [`Template::statement_id`].
    pub fn name_of(&self, statement: u64) -> Option<&[u8]> {
        self.statements.name_of(statement)
    }

    /// It has no room for another statement.
    pub fn is_full(&self) -> bool {
        self.statements.is_full()
    }

    /// Named statements that the client has prepared.
    pub fn named(&self) -> usize {
        self.statements.named()
    }

    /// The client prepared a statement, which no server has seen.
    pub fn prepare(&mut self, name: &[u8], template: Arc<Template>) -> Undo {
        self.parse(name, template, Analysis::default())
    }

    /// The client's `Parse` is being written to a server.
    pub fn parse(&mut self, name: &[u8], template: Arc<Template>, analysis: Analysis) -> Undo {
        self.statements.insert(name, template, analysis)
    }

    /// A server has taken the `Parse` that has returned this, before the time `now`.
    pub fn is_analysed(&mut self, undo: &Undo, now: u64) {
        self.statements.is_analysed(undo, now);
    }

    /// The client closed a statement.
    pub fn close(&mut self, name: &[u8]) -> Undo {
        self.statements.remove(name)
    }

    /// The server sends the client the types of a statement's parameters.
    pub fn tell_types(&mut self, name: &[u8], parse: u64, types: &[u8]) {
        self.statements.tell_types(name, parse, types);
    }

    /// The server sends the client the columns of a statement.
    pub fn tell_shape(&mut self, name: &[u8], parse: u64, shape: Shape) {
        self.statements.tell_shape(name, parse, shape);
    }

    /// What [`Session::prepare`], [`Session::close`] or [`Session::close_named`] did has not taken place. What was done last is
    /// undone first.
    pub fn undo(&mut self, undo: Undo) {
        self.statements.undo(undo);
    }

    /// The client drops all statements that have names. However many there are, it takes no longer.
    pub fn close_named(&mut self) -> Undo {
        self.statements.remove_named()
    }

    /// The client dropped all statements.
    pub fn close_all(&mut self) {
        self.statements.clear();
    }

    /// A simple query destroys the unnamed statement.
    pub fn close_unnamed(&mut self) {
        self.statements.remove_unnamed();
    }

    /// A unit that travelled with others was answered before the time `now`: what it says of prepared statements holds.
    pub fn served(&mut self, unit: &Request, answer: &[u8], now: u64) {
        match unit.form {
            Form::Simple => self.close_unnamed(),
            // Not parsed: the error came first.
            Form::Extended { .. } if !begins_parsed(answer) => {}
            Form::Extended { parse: false, .. } => {}
            Form::Extended { parse: true, .. } => {
                let parse = unit.frames().find(|f| f.tag == tag::PARSE);
                if let Some(Ok(parse)) = parse.map(|f| Parse::read(f.body())) {
                    let analysis = Analysis {
                        since: now,
                        ..Analysis::begun(now, unit.settings.id)
                    };
                    self.parse(parse.name, Arc::clone(&unit.template), analysis);
                }
            }
        }
    }

    /// Decides about a complete unit.
    pub fn plan(&mut self, bytes: &Bytes, templates: &Templates, console: &dyn Console) -> Plan {
        let plan = self.try_plan(bytes, templates, console);
        plan.unwrap_or_else(Plan::Unparsed)
    }

    fn try_plan(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        console: &dyn Console,
    ) -> Result<Plan, Unparsed> {
        let mut frames = Frames::new(bytes);
        Ok(match frames.next() {
            Some(first) if first.tag == tag::QUERY => {
                self.plan_query(first, bytes, templates, console)?
            }
            Some(first) if first.tag == tag::CLOSE && only_closes(bytes) => {
                Plan::Answer(self.answer_closes(bytes))
            }
            Some(first) if first.tag == tag::PARSE && only_names(bytes) => Plan::Names,
            Some(_) => match self.answer_locally(bytes, templates, console)? {
                Some(answer) => Plan::Answer(answer),
                None => self
                    .plan_extended(bytes, templates)?
                    .map_or(Plan::Alone, |unit| self.plan_single(unit)),
            },
            None => Plan::Alone,
        })
    }

    fn plan_query(
        &self,
        query: Frame<'_>,
        bytes: &Bytes,
        templates: &Templates,
        console: &dyn Console,
    ) -> Result<Plan, Unparsed> {
        let Ok(text) = Reader::new(query.body()).str() else {
            return Ok(Plan::Alone);
        };
        if let Some(table) = Show::parse(text).and_then(|show| show.answer(console)) {
            let mut out = BytesMut::new();
            table.write_columns(&mut out);
            table.write_rows(&mut out);
            Status::Idle.write(&mut out);
            return Ok(Plan::Answer(out));
        }
        let plain = templates.try_plain(text)?;
        let simple = templates.try_simple(&plain)?;
        let bytes = match &plain {
            Cow::Borrowed(_) => bytes.clone(),
            Cow::Owned(plain) => {
                let mut out = BytesMut::new();
                paceline_wire::frontend::write_query(&mut out, plain);
                out.freeze()
            }
        };
        Ok(self.plan_single(Request {
            bytes,
            form: Form::Simple,
            template: simple.template,
            values: Values::Literals(simple.literals),
            settings: Arc::clone(&self.settings),
            taints: false,
            analysis: None,
            sequences: SequenceUse::ANY,
        }))
    }

    /// Only single reads and writes are worth a second look.
    fn plan_single(&self, unit: Request) -> Plan {
        if let Some(listening) = listening::of_template(&unit.template) {
            return Plan::Listen(listening.clone(), Box::new(unit));
        }
        let lists = self.listening.is_listening() && lists_channels(&unit.template);
        match (&unit.template.statement, unit.template.effect()) {
            (Some(statement), Some(Effect::Read | Effect::Write))
                if statement.statements == 1 && !lists =>
            {
                Plan::Single(Box::new(unit))
            }
            _ => Plan::Alone,
        }
    }

    /// The answer to a LISTEN or UNLISTEN that has been carried out without a server, up to its ReadyForQuery.
    pub fn answer_listening(&mut self, listening: &Listening, unit: &Request) -> BytesMut {
        let mut out = BytesMut::new();
        match unit.form {
            Form::Simple => self.close_unnamed(),
            Form::Extended { parse, describe } => {
                if parse {
                    self.prepare(b"", Arc::clone(&unit.template));
                    frame::write_empty(&mut out, back::PARSE_COMPLETE);
                }
                frame::write_empty(&mut out, back::BIND_COMPLETE);
                if describe {
                    frame::write_empty(&mut out, back::NO_DATA);
                }
            }
        }
        write_command_complete(&mut out, listening.command());
        out
    }

    /// Must a statement of this unit touch an exact number of rows (`TARGET_AFFECT_ROW`), and has the unit not begun a transaction
    /// block before it? (Then the block fails with it.)
    ///
    /// # Errors
    /// A text must be parsed elsewhere first.
    pub fn is_targeted(&self, bytes: &Bytes, templates: &Templates) -> Result<bool, Unparsed> {
        for frame in Frames::new(bytes) {
            if self.begins_block(frame) {
                return Ok(false);
            }
            let targeted = match frame.tag {
                tag::QUERY => {
                    let text = Reader::new(frame.body()).cstr().unwrap_or_default();
                    is_targeted_text(text, templates)?
                }
                tag::PARSE => {
                    let text = Parse::read(frame.body()).map(|parse| parse.text);
                    is_targeted_text(text.unwrap_or_default(), templates)?
                }
                tag::BIND => BindNames::read(frame.body()).is_ok_and(|names| {
                    let template = self.statement(names.statement);
                    template.is_some_and(|t| t.hints().target_affect_row.is_some())
                }),
                _ => false,
            };
            if targeted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Is this message about a statement that begins a transaction block?
    fn begins_block(&self, frame: Frame<'_>) -> bool {
        match frame.tag {
            tag::PARSE => Parse::read(frame.body()).is_ok_and(|parse| {
                let text = parse.text.trim_ascii_start();
                let begins = |word: &[u8]| {
                    text.get(..word.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(word))
                };
                begins(b"begin") || begins(b"start")
            }),
            tag::BIND => BindNames::read(frame.body()).is_ok_and(|names| {
                let template = self.statement(names.statement);
                template.is_some_and(|t| t.statement.as_ref().is_some_and(|s| s.begins))
            }),
            _ => false,
        }
    }

    /// A unit of one statement.
    fn plan_extended(
        &self,
        bytes: &Bytes,
        templates: &Templates,
    ) -> Result<Option<Request>, Unparsed> {
        let Some(single) = Single::read(bytes) else {
            return Ok(None);
        };
        let Single {
            parse,
            bind,
            describe,
        } = single;
        let template = match parse {
            Some(parse) if parse.name != bind.statement => None,
            // A statement with a name is analysed for its client.
            Some(parse) if !parse.name.is_empty() => None,
            Some(parse) => match std::str::from_utf8(parse.text) {
                Ok(text) => Some(templates.try_prepared(&templates.try_plain(text)?, parse.types)?),
                Err(_) => None,
            },
            None => self.statement(bind.statement).cloned(),
        };
        let analysis = match parse {
            Some(_) => None,
            None => self.analysis(bind.statement).cloned(),
        };
        // Columns that are described now are not those of before.
        let analysis = analysis.map(|analysis| Analysis {
            shape: analysis.shape.filter(|_| !describe),
            ..analysis
        });
        let offset = bind.rest.as_ptr() as usize - bytes.as_ptr() as usize;
        let bound = BindValues::read(bind.rest, offset).ok();
        let unit = template.zip(bound).map(|(template, bound)| Request {
            values: Values::Bound(bound),
            bytes: bytes.clone(),
            form: Form::Extended {
                parse: parse.is_some(),
                describe,
            },
            template,
            settings: Arc::clone(&self.settings),
            taints: false,
            analysis,
            sequences: SequenceUse::ANY,
        });
        Ok(unit)
    }

    /// Statements that PostgreSQL has taken before (`accepted`) are prepared without it: a server analyses them when they are used.
    /// So a program that prepares a statement while its other connections hold all servers does not wait for ever.
    ///
    /// # Errors
    /// A text must be parsed elsewhere first.
    pub fn answer_names(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        accepted: &dyn Fn(&Template) -> bool,
    ) -> Result<Option<BytesMut>, Unparsed> {
        let mut out = BytesMut::new();
        let mut undo = Vec::new();
        for frame in Frames::new(bytes) {
            match frame.tag {
                tag::PARSE => match self.parse_accepted(frame, templates, accepted) {
                    Ok(Some(done)) => {
                        undo.push(done);
                        frame::write_empty(&mut out, back::PARSE_COMPLETE);
                    }
                    other => {
                        undo.into_iter().rev().for_each(|done| self.undo(done));
                        return other.map(|_| None);
                    }
                },
                tag::CLOSE => {
                    if let Ok(Target::Statement(name)) = Target::read(frame.body()) {
                        undo.push(self.close(name));
                    }
                    frame::write_empty(&mut out, back::CLOSE_COMPLETE);
                }
                _ => Status::Idle.write(&mut out),
            }
        }
        Ok(Some(out))
    }

    fn parse_accepted(
        &mut self,
        frame: Frame<'_>,
        templates: &Templates,
        accepted: &dyn Fn(&Template) -> bool,
    ) -> Result<Option<Undo>, Unparsed> {
        let Ok(parse) = Parse::read(frame.body()) else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(parse.text) else {
            return Ok(None);
        };
        if self.statement(parse.name).is_some() || self.is_full() {
            return Ok(None);
        }
        let template = templates.try_prepared(&templates.try_plain(text)?, parse.types)?;
        // What depends on the moment is parsed at that moment.
        if template.names_moment() || self.has_named(template.statement_id) || !accepted(&template)
        {
            return Ok(None);
        }
        let analysis = Analysis::begun(templates.new_id(), self.settings.id);
        Ok(Some(self.parse(parse.name, template, analysis)))
    }

    /// Answers a unit that only closes statements: servers keep them for others.
    fn answer_closes(&mut self, bytes: &Bytes) -> BytesMut {
        let mut out = BytesMut::new();
        for frame in Frames::new(bytes) {
            match Target::read(frame.body()) {
                Ok(Target::Statement(name)) if frame.tag == tag::CLOSE => {
                    self.close(name);
                    frame::write_empty(&mut out, back::CLOSE_COMPLETE);
                }
                _ => Status::Idle.write(&mut out),
            }
        }
        out
    }

    /// Answers a unit that is only about statements which Paceline answers itself.
    fn answer_locally(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        console: &dyn Console,
    ) -> Result<Option<BytesMut>, Unparsed> {
        let show = Frames::new(bytes).next().and_then(|f| self.asked(f));
        let table = show.as_ref().and_then(|show| show.answer(console));
        let (Some(show), Some(table)) = (show, table) else {
            return Ok(None);
        };
        if !self.is_only_about(&show, bytes) {
            return Ok(None);
        }
        let mut out = BytesMut::new();
        for frame in Frames::new(bytes) {
            match frame.tag {
                tag::BIND => frame::write_empty(&mut out, back::BIND_COMPLETE),
                tag::DESCRIBE => {
                    if let Ok(Target::Statement(_)) = Target::read(frame.body()) {
                        frame::write(&mut out, back::PARAMETER_DESCRIPTION, |out| {
                            out.extend([0, 0])
                        });
                    }
                    table.write_columns(&mut out);
                }
                tag::EXECUTE => table.write_rows(&mut out),
                tag::SYNC => Status::Idle.write(&mut out),
                // It is the only one.
                tag::PARSE => {
                    let parse = Parse::read(frame.body()).ok();
                    let text = parse.and_then(|parse| std::str::from_utf8(parse.text).ok());
                    if let (Some(parse), Some(text)) = (parse, text) {
                        self.prepare(parse.name, templates.try_prepared(text, parse.types)?);
                    }
                    frame::write_empty(&mut out, back::PARSE_COMPLETE);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(out))
    }

    /// What a message asks Paceline itself for.
    fn asked(&self, first: Frame<'_>) -> Option<Show> {
        match first.tag {
            tag::PARSE => {
                Show::parse(std::str::from_utf8(Parse::read(first.body()).ok()?.text).ok()?)
            }
            tag::BIND => self.show_of(BindNames::read(first.body()).ok()?.statement),
            tag::DESCRIBE => match Target::read(first.body()).ok()? {
                Target::Statement(name) => self.show_of(name),
                Target::Portal(_) => None,
            },
            _ => None,
        }
    }

    /// Does every message of the unit work on one statement that asks for `show`?
    fn is_only_about(&self, show: &Show, bytes: &Bytes) -> bool {
        let mut parsed: Option<&[u8]> = None;
        let known = |parsed: Option<&[u8]>, name: &[u8]| {
            parsed == Some(name) || self.show_of(name).as_ref() == Some(show)
        };
        Frames::new(bytes).all(|frame| match frame.tag {
            tag::PARSE => Parse::read(frame.body()).is_ok_and(|parse| {
                let first = parsed.replace(parse.name).is_none();
                let free = parse.name.is_empty() || self.statement(parse.name).is_none();
                let asked = std::str::from_utf8(parse.text).ok().and_then(Show::parse);
                first && free && asked.as_ref() == Some(show)
            }),
            tag::BIND => {
                BindNames::read(frame.body()).is_ok_and(|names| known(parsed, names.statement))
            }
            tag::DESCRIBE => Target::read(frame.body()).is_ok_and(|target| match target {
                Target::Statement(name) => known(parsed, name),
                Target::Portal(_) => true,
            }),
            tag::EXECUTE | tag::SYNC => true,
            _ => false,
        })
    }

    fn show_of(&self, name: &[u8]) -> Option<Show> {
        let template = self.statement(name).filter(|t| t.may_be_shown())?;
        Show::parse(&template.text)
    }
}

/// Must the statement of this text touch an exact number of rows?
fn is_targeted_text(text: &[u8], templates: &Templates) -> Result<bool, Unparsed> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    if let Some(beginning) = beginning_of_long(text) {
        let hints = paceline_sql::leading_hints(beginning);
        return Ok(hints.target_affect_row.is_some());
    }
    // Only worth a look when the word is there.
    if !text.to_ascii_lowercase().contains("target_affect_row") {
        return Ok(false);
    }
    let template = templates.try_prepared(&templates.try_plain(text)?, &[0, 0])?;
    let statement = template.statement.as_ref();
    let one = statement.is_none_or(|s| s.statements == 1);
    Ok(one && template.hints().target_affect_row.is_some())
}

/// `Parse` of named statements, `Close` of statements, and `Sync`.
fn only_names(bytes: &Bytes) -> bool {
    Frames::new(bytes).all(|frame| match frame.tag {
        tag::PARSE => Parse::read(frame.body()).is_ok_and(|parse| !parse.name.is_empty()),
        tag::CLOSE => matches!(Target::read(frame.body()), Ok(Target::Statement(_))),
        tag::SYNC => true,
        _ => false,
    })
}

/// `Close` of statements, and `Sync`.
fn only_closes(bytes: &Bytes) -> bool {
    Frames::new(bytes).all(|frame| match frame.tag {
        tag::CLOSE => matches!(Target::read(frame.body()), Ok(Target::Statement(_))),
        tag::SYNC => true,
        _ => false,
    })
}
