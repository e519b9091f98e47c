//! Plain statements: single statements in autocommit that only read or change rows, sent as a `Query`, with an unnamed `Parse`, or as a
//! `Bind` of a statement that the server has prepared. PostgreSQL nearly always answers one with rows, `CommandComplete` and
//! `ReadyForQuery`. The caller forwards such an answer as it is, without a [`RelayState`], which costs a third of a short statement. At
//! any other answer (an error, a notice, one that arrives in parts) it starts a relay with the request, as if the relay had sent it.

use super::commits::CommitProgress;
use super::expect::DescribeTarget;
use super::listening::may_notify;
use super::sequences::note_draws;
use super::state::{RelayContext, RelayState};
use super::state_policy::ListenMode;
use crate::commits::CommitCounts;
use crate::parsed::ClientParse;
use crate::request::{Request, RequestForm};
use crate::template::Template;
use bytes::{BufMut, BytesMut};
use paceline_sql::{Effect, Hints, SequenceUse};
use paceline_wire::backend::{Status, tag};
use paceline_wire::frontend::{self, BindNames, Parse};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};
use std::sync::Arc;

/// A plain statement that the server is about to receive.
pub struct PlainStatement {
    commits: CommitProgress,
    form: RequestForm,
    /// The unnamed statement that the request parses.
    parsed: Option<(Arc<Template>, ClientParse)>,
    /// The statement whose columns the server describes, if the request asks for that.
    described: Option<DescribeTarget>,
}

impl PlainStatement {
    /// Appends to `out` what a server receives that is idle and has the client's settings. `None` if a relay must process the request;
    /// nothing has changed then. A relay that starts afterwards may do the same again.
    pub fn start(
        request: &Request,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let template = &*request.template;
        let draws_only = !request.sequences.reads
            || (context.server.sequences).is_readable(context.session.sequences);
        let is_plain = only_uses_rows(template)
            && draws_only
            && !context.session.listening.is_listening()
            && !context.server.has_pending_close()
            && !(context.may_change_session)(template);
        if !is_plain {
            return None;
        }
        let (parsed, described) = match request.form {
            RequestForm::Simple => {
                write_query(request, context, out)?;
                (None, None)
            }
            RequestForm::Extended { parse: true, .. } => {
                let (parsed, described) = write_unnamed(request, context, out)?;
                (Some(parsed), Some(described))
            }
            RequestForm::Extended { parse: false, .. } => {
                (None, Some(write_bind(request, context, out)?))
            }
        };
        let listens_alone = context.policy.listen_mode == ListenMode::Session;
        let server = &mut *context.server;
        server.notified = server.notified || listens_alone || may_notify(template);
        note_draws(request.sequences, context);
        let mut commits = CommitProgress::default();
        commits.sent(template.only_reads() || request.sequences == SequenceUse::NONE);
        Some(Self {
            commits,
            form: request.form,
            parsed,
            described,
        })
    }

    /// The commit that an answer acknowledges; `None` unless it is one that can be forwarded as it is.
    pub fn answered(
        mut self,
        answer: &[u8],
        context: &mut RelayContext<'_>,
    ) -> Option<CommitCounts> {
        // At once for an answer of which only a part has arrived.
        if !answer.ends_with(b"I") {
            return None;
        }
        let mut frames = Frames::new(answer);
        let mut columns = None;
        if let RequestForm::Extended { parse, describe } = self.form {
            if parse {
                frames
                    .next()
                    .filter(|first| first.tag == tag::PARSE_COMPLETE)?;
            }
            frames
                .next()
                .filter(|first| first.tag == tag::BIND_COMPLETE)?;
            columns = match describe {
                true => Some(frames.next().filter(is_description)?),
                false => None,
            };
        }
        let is_row = |frame: &Frame<'_>| match self.form {
            RequestForm::Simple => matches!(frame.tag, tag::ROW_DESCRIPTION | tag::DATA_ROW),
            RequestForm::Extended { .. } => frame.tag == tag::DATA_ROW,
        };
        let completed = frames.find(|frame| !is_row(frame))?;
        let ready = frames.next()?;
        let is_end = completed.tag == tag::COMMAND_COMPLETE
            && ready.tag == tag::READY_FOR_QUERY
            && frames.rest().is_empty();
        if !is_end {
            return None;
        }
        if let Some((template, client_parse)) = self.parsed.take() {
            let statements = &mut context.session.statements;
            let undo = statements.parse(b"", template, client_parse);
            statements.parse_answered(&undo, context.templates.new_id());
        }
        if let Some((columns, described)) = columns.zip(self.described.as_ref()) {
            RelayState::note_columns(columns, described, context);
        }
        self.commits.executed(completed.body());
        self.commits.ready(Status::Idle, false, false);
        Some(self.commits.take())
    }
}

/// Whether a statement only reads or changes rows, and its text reaches the server as it is.
fn only_uses_rows(template: &Template) -> bool {
    matches!(template.effect(), Some(Effect::Read | Effect::Write))
        && template.hints() == Hints::default()
        && template.named().is_none()
        && !template.shows_idle_timeout()
}

fn is_description(frame: &Frame<'_>) -> bool {
    matches!(frame.tag, tag::ROW_DESCRIPTION | tag::NO_DATA)
}

/// Writes a `Query`, which is the request. It drops the unnamed statement of the server, and there is none of the client.
fn write_query(
    request: &Request,
    context: &mut RelayContext<'_>,
    out: &mut BytesMut,
) -> Option<()> {
    let query = request.frames().next()?;
    let text = Reader::new(query.body()).str().ok()?;
    let is_plain = query.bytes.len() == request.bytes.len()
        && context.session.statements.get(b"").is_none()
        && context.server.tokenizes_alike(text);
    if !is_plain {
        return None;
    }
    context.server.unnamed = None;
    out.put_slice(&request.bytes);
    Some(())
}

/// Writes a `Parse` of the unnamed statement, and the rest of the request.
fn write_unnamed(
    request: &Request,
    context: &mut RelayContext<'_>,
    out: &mut BytesMut,
) -> Option<((Arc<Template>, ClientParse), DescribeTarget)> {
    let template = &request.template;
    let parse = request.frames().next()?;
    let parse = Parse::read(parse.body()).ok()?;
    let text = std::str::from_utf8(parse.text).ok()?;
    let is_plain = paceline_sql::without_trace_comment(text) == template.text
        && context.server.tokenizes_alike(text);
    if !is_plain {
        return None;
    }
    let client_parse = context.begin_parse();
    let described = DescribeTarget {
        name: Box::default(),
        parse: client_parse.written,
        key: None,
    };
    context.server.parse_unnamed(client_parse.written);
    out.put_slice(&request.bytes);
    Some(((Arc::clone(template), client_parse), described))
}

/// Writes a `Bind` of a statement that the server has prepared, and the rest of the request.
fn write_bind(
    request: &Request,
    context: &mut RelayContext<'_>,
    out: &mut BytesMut,
) -> Option<DescribeTarget> {
    let bind = request.frames().next()?;
    let rest = request.bytes.get(bind.bytes.len()..)?;
    let names = BindNames::read(bind.body()).ok()?;
    if names.statement.is_empty() || bind.tag != frontend::tag::BIND {
        return None;
    }
    let described = DescribeTarget {
        name: names.statement.into(),
        parse: context
            .session
            .statements
            .client_parse(names.statement)?
            .written,
        key: Some(context.server.use_prepared(request)?),
    };
    let name = described.key?.name();
    BindNames {
        statement: name.as_bytes(),
        ..names
    }
    .write(out);
    out.put_slice(rest);
    Some(described)
}
