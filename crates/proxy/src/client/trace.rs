//! The span of a client's request, from its first message to its answer.
//!
//! A request that is not traced has none. The client holds the span of a request until its answer, or until a relay takes it over
//! (`relay/spans.rs`), because a relay may have several requests.

use super::end::ClientEnd;
use bytes::Bytes;
use paceline_pool::address::Address;
use paceline_pool::pool::WaitResult;
use paceline_pool::shared::Shared;
use paceline_pool::stats::{SqlState, first_state, state_of};
use paceline_pool::traces::{EndedSpan, Sampled, server_name};
use paceline_relay::session::ClientSession;
use paceline_relay::template::Template;
use paceline_traces::{AttributeValue, MemberTrace, ServerName, Span, SpanId};
use paceline_wire::frontend::{BindNames, Parse, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The span of a request that has no answer yet.
#[derive(Debug)]
pub(super) struct RequestTrace {
    member: Arc<MemberTrace>,
    parent: Option<SpanId>,
    began: SystemTime,
    since: Instant,
    /// The messages of the request that have arrived.
    messages: Bytes,
    /// The statement, if it is a single one; otherwise it is looked up at the end.
    template: Option<Arc<Template>>,
    entered_line: Option<Instant>,
    /// The time at which a client that relays the request got its server connection.
    left_line: Option<Instant>,
    /// The strategy of a request that is relayed, and its server.
    relayed: Option<(&'static str, ServerName)>,
    /// Whether the last group has answered the request.
    grouped: bool,
    /// The SQLSTATE of the first error in the answer.
    pub(super) error: Option<SqlState>,
}

impl RequestTrace {
    /// Decides whether a request that begins with these messages is traced.
    pub(super) fn begin(shared: &Shared, messages: &Bytes) -> Option<Box<Self>> {
        let text = Frames::new(messages).find_map(text_of);
        let Sampled { context, parent } = shared.traces.sample(text)?;
        Some(Box::new(Self {
            member: Arc::new(MemberTrace::new(context)),
            parent,
            began: SystemTime::now(),
            since: Instant::now(),
            messages: messages.clone(),
            template: None,
            entered_line: None,
            left_line: None,
            relayed: None,
            grouped: false,
            error: None,
        }))
    }

    /// The part of the span that the groups of a single statement need.
    pub(super) fn member(&mut self, template: &Arc<Template>) -> Arc<MemberTrace> {
        self.template = Some(Arc::clone(template));
        Arc::clone(&self.member)
    }

    /// The connection of the client ends with its request.
    pub(super) fn client_ends(&mut self, end: &ClientEnd) {
        self.error = self.error.or(state_of_end(end));
    }

    /// The request enters the line.
    pub(super) fn enters_line(&mut self) {
        self.entered_line.get_or_insert_with(Instant::now);
    }

    /// The wait in the line has ended so.
    pub(super) fn leaves_line(&mut self, result: &WaitResult) {
        match result {
            WaitResult::Server(_) => drop(self.left_line.get_or_insert_with(Instant::now)),
            WaitResult::Answer(answer) | WaitResult::OfReplica(answer, _) => {
                self.grouped = true;
                self.error = state_of(answer);
            }
            WaitResult::Elsewhere
            | WaitResult::Fatal(_)
            | WaitResult::QueryTimeout(_)
            | WaitResult::Queued(_)
            | WaitResult::PlainRead(_) => {}
        }
    }

    /// The request is relayed to this address, alone or as a part of something longer.
    pub(super) fn relayed(&mut self, address: &Address, is_single: bool) {
        let strategy = match is_single {
            true => "solo",
            false => "lease",
        };
        self.relayed = Some((strategy, server_name(address)));
    }

    /// The request has its answer: sends the span.
    pub(super) fn end(self, shared: &Shared, session: &ClientSession) {
        let template = self.template.as_ref().map(Arc::clone);
        let template = template.or_else(|| template_of(&self.messages, shared, session));
        let groups = self.member.groups();
        let left = groups.first().map(|group| group.left).or(self.left_line);
        let wait = self.entered_line.map(|entered| match left {
            Some(left) => left.saturating_duration_since(entered),
            None => entered.elapsed(),
        });
        let mut span = Span {
            context: self.member.context,
            parent: self.parent,
            name: "request".into(),
            began: self.began,
            took: self.since.elapsed(),
            attributes: Vec::new(),
            links: groups.iter().filter_map(|group| group.context).collect(),
            failed: false,
        };
        match (groups.last(), &self.relayed) {
            (Some(group), _) if self.grouped => {
                span.add_server(&group.server);
                span.add_group(group);
            }
            (_, Some((strategy, server))) => {
                span.add_server(server);
                span.add("paceline.strategy", *strategy);
            }
            _ => {}
        }
        let wait = wait.unwrap_or(Duration::ZERO).as_secs_f64();
        span.add("paceline.wait_seconds", AttributeValue::Fraction(wait));
        if let Some(state) = &self.error {
            span.fail(std::str::from_utf8(state).ok());
        }
        shared.traces.send(EndedSpan { span, template });
    }
}

/// The SQLSTATE with which a client's connection ends.
fn state_of_end(end: &ClientEnd) -> Option<SqlState> {
    match end {
        ClientEnd::Error(message) | ClientEnd::ServerLost(message) => first_state(message),
        ClientEnd::Wire(_) => Some(*b"08P01"),
        ClientEnd::Left | ClientEnd::Io(_) => None,
    }
}

/// The text that a message carries.
fn text_of(frame: Frame<'_>) -> Option<&str> {
    match frame.tag {
        tag::QUERY => Reader::new(frame.body()).str().ok(),
        tag::PARSE => std::str::from_utf8(Parse::read(frame.body()).ok()?.text).ok(),
        _ => None,
    }
}

/// The template of the first statement in these messages, if it is known.
fn template_of(messages: &[u8], shared: &Shared, session: &ClientSession) -> Option<Arc<Template>> {
    let templates = &shared.templates;
    let carries = |frame: &Frame<'_>| matches!(frame.tag, tag::QUERY | tag::PARSE | tag::BIND);
    let frame = Frames::new(messages).find(carries)?;
    if frame.tag == tag::BIND {
        let bind = BindNames::read(frame.body()).ok()?;
        return session.statements.get(bind.statement).map(Arc::clone);
    }
    let plain = templates.try_plain(text_of(frame)?).ok()?;
    match frame.tag {
        tag::QUERY => templates.try_simple_template(&plain).ok(),
        _ => {
            let types = Parse::read(frame.body()).ok()?.types;
            templates.try_prepared(&plain, types).ok()
        }
    }
}
