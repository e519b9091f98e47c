//! A client's session as far as it must follow the client across servers: prepared statements and settings; and
//! what Paceline does with each unit the client sends.

use crate::sequences::SequenceToken;
use crate::server::Shape;
use crate::settings::Settings;
use crate::show::{Console, Show};
use crate::template::{Template, Templates, Unparsed, beginning_of_long};
use crate::unit::{Form, Unit, Values};
use bytes::{Bytes, BytesMut};
use paceline_sql::{Effect, SequenceUse};
use paceline_wire::backend::{Status, tag as back};
use paceline_wire::frontend::{BindNames, BindValues, Parse, Target, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames, frame};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Most prepared statements of one client; one more is refused.
pub const CLIENT_STATEMENTS_MAX: usize = 10_000;

/// Descriptions that are kept however few statements a client has.
const DESCRIBED_MIN: usize = 16;

/// A client's session.
#[derive(Debug)]
pub struct Session {
    /// Statements the client prepared, by its own names; the unnamed one under the empty name.
    prepared: HashMap<Box<[u8]>, Arc<Template>>,
    /// The columns of statements, by their ids, that the client was told of and has by a name.
    described: FxHashMap<u64, Shape>,
    /// Settings in force.
    pub settings: Arc<Settings>,
    /// Settings the session began with: what RESET goes back to.
    pub base: Arc<Settings>,
    /// Names the server connection on which it has drawn numbers of sequences last.
    pub sequences: SequenceToken,
}

/// What to do with a unit.
#[derive(Debug)]
pub enum Plan {
    /// Paceline answers itself.
    Answer(BytesMut),
    /// It is relayed.
    Alone,
    /// One statement in autocommit: it may travel with others.
    Single(Box<Unit>),
    /// Nothing can be said before this has been parsed elsewhere. Nothing has changed: ask again then.
    Unparsed(Unparsed),
}

/// How to take back what has come to nothing by an error.
#[derive(Debug)]
pub enum Undo {
    /// The client knew this statement by this name.
    Name(Box<[u8]>, Option<Arc<Template>>),
    /// It knew these, the unnamed one left out.
    All(HashMap<Box<[u8]>, Arc<Template>>),
}

impl Session {
    /// A session that begins with these settings.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            prepared: HashMap::new(),
            described: FxHashMap::default(),
            base: Arc::clone(&settings),
            settings,
            sequences: SequenceToken::default(),
        }
    }

    /// The statement the client knows by that name.
    pub fn statement(&self, name: &[u8]) -> Option<&Arc<Template>> {
        self.prepared.get(name)
    }

    /// A name under which the client knows a statement, by its [`Template::statement_id`].
    pub fn name_of(&self, statement: u64) -> Option<&[u8]> {
        let mut all = self.prepared.iter();
        all.find(|(_, known)| known.statement_id == statement)
            .map(|(name, _)| &**name)
    }

    /// It has no room for another statement.
    pub fn is_full(&self) -> bool {
        self.prepared.len() >= CLIENT_STATEMENTS_MAX
    }

    /// Named statements that the client has prepared.
    pub fn named(&self) -> usize {
        let all = self.prepared.len();
        all - usize::from(all > 0 && self.prepared.contains_key(&b""[..]))
    }

    /// The client prepared a statement.
    pub fn prepare(&mut self, name: &[u8], template: Arc<Template>) -> Undo {
        Undo::Name(name.into(), self.prepared.insert(name.into(), template))
    }

    /// The client closed a statement.
    pub fn close(&mut self, name: &[u8]) -> Undo {
        Undo::Name(name.into(), self.prepared.remove(name))
    }

    /// The client knows the columns of a statement that has a name.
    pub fn describe(&mut self, statement: u64, shape: Shape) {
        // What it has closed is forgotten on this occasion.
        if self.described.len() > 2 * self.prepared.len() + DESCRIBED_MIN {
            let there: FxHashSet<u64> = self.prepared.values().map(|t| t.statement_id).collect();
            self.described
                .retain(|statement, _| there.contains(statement));
        }
        self.described.insert(statement, shape);
    }

    /// The columns of this statement, if the client was told of them.
    pub fn shape(&self, statement: u64) -> Option<Shape> {
        self.described.get(&statement).copied()
    }

    /// What [`Session::prepare`], [`Session::close`] or [`Session::close_named`] did has not taken place. What was done last is
    /// undone first.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Name(name, Some(template)) => {
                self.prepared.insert(name, template);
            }
            Undo::Name(name, None) => {
                self.prepared.remove(&name);
            }
            Undo::All(named) => {
                let unnamed = self.prepared.remove(&b""[..]);
                self.prepared = named;
                self.keep_unnamed(unnamed);
            }
        }
    }

    /// The client drops all statements that have names. However many there are, it takes no longer.
    pub fn close_named(&mut self) -> Undo {
        let mut named = std::mem::take(&mut self.prepared);
        self.keep_unnamed(named.remove(&b""[..]));
        Undo::All(named)
    }

    fn keep_unnamed(&mut self, unnamed: Option<Arc<Template>>) {
        if let Some(template) = unnamed {
            self.prepared.insert(Box::default(), template);
        }
    }

    /// The client dropped all statements.
    pub fn close_all(&mut self) {
        self.prepared.clear();
        self.described.clear();
    }

    /// A simple query destroys the unnamed statement.
    pub fn close_unnamed(&mut self) {
        if !self.prepared.is_empty() {
            self.prepared.remove(&b""[..]);
        }
    }

    /// A unit that travelled with others was answered: what it says of prepared statements holds.
    pub fn served(&mut self, unit: &Unit, answer: &[u8]) {
        match unit.form {
            Form::Simple => self.close_unnamed(),
            // Not parsed: the error came first.
            Form::Extended { .. } if !begins_parsed(answer) => {}
            Form::Extended { parse: false, .. } => {}
            Form::Extended { parse: true, .. } => {
                let parse = unit.frames().find(|f| f.tag == tag::PARSE);
                if let Some(Ok(parse)) = parse.map(|f| Parse::read(f.body())) {
                    self.prepare(parse.name, Arc::clone(&unit.template));
                }
            }
        }
    }

    /// Decides about a complete unit.
    ///
    /// `accepted` says whether PostgreSQL has taken a statement before.
    pub fn plan(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        console: &dyn Console,
        accepted: &dyn Fn(&Template) -> bool,
    ) -> Plan {
        let plan = self.try_plan(bytes, templates, console, accepted);
        plan.unwrap_or_else(Plan::Unparsed)
    }

    fn try_plan(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        console: &dyn Console,
        accepted: &dyn Fn(&Template) -> bool,
    ) -> Result<Plan, Unparsed> {
        let mut frames = Frames::new(bytes);
        Ok(match frames.next() {
            Some(first) if first.tag == tag::QUERY => {
                self.plan_query(first, bytes, templates, console)?
            }
            Some(first)
                if matches!(first.tag, tag::PARSE | tag::CLOSE) && self.only_names(bytes) =>
            {
                match self.answer_names(bytes, templates, accepted)? {
                    Some(answer) => Plan::Answer(answer),
                    None => Plan::Alone,
                }
            }
            Some(_) => match self.answer_locally(bytes, templates, console)? {
                Some(answer) => Plan::Answer(answer),
                None => self
                    .plan_extended(bytes, templates)?
                    .map_or(Plan::Alone, plan_single),
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
        Ok(plan_single(Unit {
            bytes,
            form: Form::Simple,
            template: simple.template,
            values: Values::Literals(simple.literals),
            settings: Arc::clone(&self.settings),
            plan: None,
            silence: None,
            tally: None,
            taints: false,
            shape: None,
            sequences: SequenceUse::ANY,
        }))
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
    ) -> Result<Option<Unit>, Unparsed> {
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
            Some(parse) if !parse.name.is_empty() && self.statement(parse.name).is_some() => None,
            Some(parse) => match std::str::from_utf8(parse.text) {
                Ok(text) => Some(templates.try_prepared(&templates.try_plain(text)?, parse.types)?),
                Err(_) => None,
            },
            None => self.statement(bind.statement).cloned(),
        };
        let relies = parse.is_none() && !describe && !bind.statement.is_empty();
        let shape = template.as_ref().filter(|_| relies);
        let shape = shape.and_then(|template| self.shape(template.statement_id));
        let offset = bind.rest.as_ptr() as usize - bytes.as_ptr() as usize;
        let bound = BindValues::read(bind.rest, offset).ok();
        let unit = template.zip(bound).map(|(template, bound)| Unit {
            values: Values::Bound(bound),
            bytes: bytes.clone(),
            form: Form::Extended {
                parse: parse.is_some(),
                describe,
            },
            template,
            settings: Arc::clone(&self.settings),
            plan: None,
            silence: None,
            tally: None,
            taints: false,
            shape,
            sequences: SequenceUse::ANY,
        });
        Ok(unit)
    }

    /// `Parse` and `Close` of named statements, and `Sync`.
    fn only_names(&self, bytes: &Bytes) -> bool {
        Frames::new(bytes).all(|frame| match frame.tag {
            tag::PARSE => Parse::read(frame.body()).is_ok_and(|parse| !parse.name.is_empty()),
            tag::CLOSE => matches!(Target::read(frame.body()), Ok(Target::Statement(_))),
            tag::SYNC => true,
            _ => false,
        })
    }

    /// Statements that PostgreSQL has taken before are prepared without it: servers get them when they are used. So a
    /// driver that prepares its statements while its other connections hold all servers does not wait for ever.
    fn answer_names(
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
        Ok(accepted(&template).then(|| self.prepare(parse.name, template)))
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

/// The messages of one statement that may travel with others.
struct Single<'a> {
    parse: Option<Parse<'a>>,
    bind: BindNames<'a>,
    describe: bool,
}

impl<'a> Single<'a> {
    /// `[Parse] Bind [Describe portal] Execute Sync` of the unnamed portal without a row limit.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut frames = Frames::new(bytes).peekable();
        let parse = match frames.next_if(|f| f.tag == tag::PARSE) {
            Some(frame) => Some(Parse::read(frame.body()).ok()?),
            None => None,
        };
        let bind = frames.next_if(|f| f.tag == tag::BIND)?;
        let bind = BindNames::read(bind.body()).ok()?;
        let describe = frames.next_if(|f| f.tag == tag::DESCRIBE);
        if describe.is_some_and(|f| Target::read(f.body()) != Ok(Target::Portal(b""))) {
            return None;
        }
        let execute = frames.next_if(|f| f.tag == tag::EXECUTE)?;
        let unlimited = execute.body() == [0; 5];
        let ends = frames.next_if(|f| f.tag == tag::SYNC).is_some() && frames.next().is_none();
        (bind.portal.is_empty() && unlimited && ends).then_some(Self {
            parse,
            bind,
            describe: describe.is_some(),
        })
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

/// Only single reads and writes are worth a second look.
fn plan_single(unit: Unit) -> Plan {
    match (&unit.template.statement, unit.template.effect()) {
        (Some(statement), Some(Effect::Read | Effect::Write)) if statement.statements == 1 => {
            Plan::Single(Box::new(unit))
        }
        _ => Plan::Alone,
    }
}

/// Is the first answer to a unit that its statement is parsed? What the server says of its own accord may come before.
fn begins_parsed(answer: &[u8]) -> bool {
    const UNASKED: [u8; 3] = [
        back::NOTICE_RESPONSE,
        back::PARAMETER_STATUS,
        back::NOTIFICATION_RESPONSE,
    ];
    let mut frames = Frames::new(answer).skip_while(|frame| UNASKED.contains(&frame.tag));
    frames
        .next()
        .is_some_and(|frame| frame.tag == back::PARSE_COMPLETE)
}
