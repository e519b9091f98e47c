//! Decides on a request: Paceline answers it, it may join a group, or it is relayed.

use super::single_statement::SingleStatement;
use super::{ClientSession, listening, lists_channels};
use crate::local_show::{LocalShow, ShowSource};
use crate::parsed::ClientParse;
use crate::request::{Request, RequestForm, Values};
use crate::template::{Simple, Templates, Unparsed};
use bytes::{Bytes, BytesMut};
use paceline_sql::{Effect, Listening, SequenceUse};
use paceline_wire::backend::Status;
use paceline_wire::frontend::{BindValues, Parse, Target, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};
use std::borrow::Cow;
use std::sync::Arc;

/// The decision on a request.
#[derive(Debug)]
pub enum RequestPlan {
    /// Paceline answers it.
    Answer(BytesMut),
    /// It is relayed.
    Relay,
    /// It is relayed. If it would have to wait for a server connection, [`ClientSession::answer_prepare`] may answer it.
    Prepare,
    /// One statement in autocommit. It may join a group.
    Group(Box<Request>),
    /// LISTEN or UNLISTEN in autocommit. If the client listens by the shared connection, no server is needed.
    Listen(Listening, Box<Request>),
    /// This text must be parsed first, by [`Templates::parse`]. Nothing has changed. Then the caller plans the request
    /// again.
    Unparsed(Unparsed),
}

impl ClientSession {
    /// Decides on a complete request.
    pub fn plan(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        show_source: &dyn ShowSource,
    ) -> RequestPlan {
        let plan = self.try_plan(bytes, templates, show_source);
        plan.unwrap_or_else(RequestPlan::Unparsed)
    }

    fn try_plan(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        show_source: &dyn ShowSource,
    ) -> Result<RequestPlan, Unparsed> {
        let mut frames = Frames::new(bytes);
        Ok(match frames.next() {
            Some(first) if first.tag == tag::QUERY => {
                self.plan_query(first, bytes, templates, show_source)?
            }
            Some(first) if first.tag == tag::CLOSE && only_closes(bytes) => {
                RequestPlan::Answer(self.answer_closes(bytes))
            }
            Some(first) if first.tag == tag::PARSE && only_prepares(bytes) => RequestPlan::Prepare,
            Some(_) => match self.answer_locally(bytes, templates, show_source)? {
                Some(answer) => RequestPlan::Answer(answer),
                None => self
                    .plan_extended(bytes, templates)?
                    .map_or(RequestPlan::Relay, |request| self.plan_single(request)),
            },
            None => RequestPlan::Relay,
        })
    }

    fn plan_query(
        &self,
        query: Frame<'_>,
        bytes: &Bytes,
        templates: &Templates,
        show_source: &dyn ShowSource,
    ) -> Result<RequestPlan, Unparsed> {
        let Ok(text) = Reader::new(query.body()).str() else {
            return Ok(RequestPlan::Relay);
        };
        let miss = match templates.recent_simple(text) {
            Ok(simple) => {
                return Ok(self.plan_single(self.simple_request(bytes.clone(), simple)));
            }
            Err(miss) => miss,
        };
        if let Some(table) = LocalShow::parse(text).and_then(|show| show.answer(show_source)) {
            let mut out = BytesMut::new();
            if !table.columns.is_empty() {
                table.write_columns(&mut out);
            }
            table.write_rows(&mut out);
            Status::Idle.write(&mut out);
            return Ok(RequestPlan::Answer(out));
        }
        let plain = templates.try_plain(text)?;
        let simple = templates.try_simple(&plain)?;
        let bytes = match &plain {
            Cow::Borrowed(text) => {
                templates.note_recent(miss, text, &simple.template);
                bytes.clone()
            }
            Cow::Owned(plain) => {
                let mut out = BytesMut::new();
                paceline_wire::frontend::write_query(&mut out, plain);
                out.freeze()
            }
        };
        Ok(self.plan_single(self.simple_request(bytes, simple)))
    }

    fn simple_request(&self, bytes: Bytes, simple: Simple) -> Request {
        Request {
            bytes,
            form: RequestForm::Simple,
            template: simple.template,
            values: Values::Literals(simple.literals),
            settings: Arc::clone(&self.settings),
            may_change_session: false,
            client_parse: None,
            sequences: SequenceUse::ANY,
        }
    }

    /// Only a single SELECT, INSERT, UPDATE or DELETE may join a group.
    fn plan_single(&self, request: Request) -> RequestPlan {
        if let Some(listening) = listening::of_template(&request.template) {
            return RequestPlan::Listen(listening.clone(), Box::new(request));
        }
        let lists = self.listening.is_listening() && lists_channels(&request.template);
        match (&request.template.statement, request.template.effect()) {
            (Some(statement), Some(Effect::Read | Effect::Write))
                if statement.statements == 1 && !lists =>
            {
                RequestPlan::Group(Box::new(request))
            }
            _ => RequestPlan::Relay,
        }
    }

    /// The request, if it executes one statement that may join a group.
    fn plan_extended(
        &self,
        bytes: &Bytes,
        templates: &Templates,
    ) -> Result<Option<Request>, Unparsed> {
        let Some(single) = SingleStatement::read(bytes) else {
            return Ok(None);
        };
        let known = match single.parse {
            Some(_) => None,
            None => self.statements.prepared(single.bind.statement),
        };
        let template = match &single.parse {
            Some(parse) if parse.name != single.bind.statement => None,
            // A server must analyse a named statement for its client.
            Some(parse) if !parse.name.is_empty() => None,
            Some(parse) => match std::str::from_utf8(parse.text) {
                Ok(text) => Some(templates.try_prepared(&templates.try_plain(text)?, parse.types)?),
                Err(_) => None,
            },
            None => known.map(|(template, _)| Arc::clone(template)),
        };
        // The server describes the columns again, so earlier ones do not matter.
        let client_parse = known.map(|(_, client_parse)| ClientParse {
            columns: client_parse.columns.filter(|_| !single.describe),
            ..client_parse.clone()
        });
        let rest = single.bind.rest;
        let offset = rest.as_ptr() as usize - bytes.as_ptr() as usize;
        let bound = BindValues::read(rest, offset).ok();
        let request = template.zip(bound).map(|(template, bound)| Request {
            values: Values::Bound(bound),
            bytes: bytes.clone(),
            form: single.form(&template),
            template,
            settings: Arc::clone(&self.settings),
            may_change_session: false,
            client_parse,
            sequences: SequenceUse::ANY,
        });
        Ok(request)
    }
}

/// Whether the request consists of `Parse` of named statements, `Close` of statements, and `Sync`.
fn only_prepares(bytes: &Bytes) -> bool {
    Frames::new(bytes).all(|frame| match frame.tag {
        tag::PARSE => Parse::read(frame.body()).is_ok_and(|parse| !parse.name.is_empty()),
        tag::CLOSE => matches!(Target::read(frame.body()), Ok(Target::Statement(_))),
        tag::SYNC => true,
        _ => false,
    })
}

/// Whether the request consists of `Close` of statements, and `Sync`.
fn only_closes(bytes: &Bytes) -> bool {
    Frames::new(bytes).all(|frame| match frame.tag {
        tag::CLOSE => matches!(Target::read(frame.body()), Ok(Target::Statement(_))),
        tag::SYNC => true,
        _ => false,
    })
}
