//! Plain statements: single statements that only read or change rows, sent as a `Query`, with an unnamed `Parse`, or as a `Bind` of a
//! statement that the server has prepared, in autocommit or in an open transaction. PostgreSQL nearly always answers one with rows,
//! `CommandComplete` and `ReadyForQuery`. The caller forwards such an answer as it is, past the queue of expected answers, which costs a
//! third of a short statement; in autocommit even without a [`RelayState`]. At any other answer (an error, a notice, one that arrives in
//! parts) the relay processes the request, as if it had sent it.

use super::commits::CommitProgress;
use super::expect::DescribeTarget;
use super::listening::may_notify;
use super::sequences::note_draws;
use super::state::{RelayContext, RelayMode, RelayState};
use super::state_policy::ListenMode;
use crate::commits::CommitCounts;
use crate::parsed::ClientParse;
use crate::request::{Request, RequestForm};
use crate::session::SingleStatement;
use crate::template::{BULK_BYTES_MIN, Template, Templates};
use bytes::{BufMut, BytesMut};
use paceline_sql::SequenceUse;
use paceline_wire::backend::{Status, tag};
use paceline_wire::frontend::{self, BindNames, Parse};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};
use std::sync::Arc;

/// A plain statement that the server is about to receive.
pub struct PlainStatement {
    only_reads: bool,
    form: RequestForm,
    /// The unnamed statement that the request parses.
    parsed: Option<(Arc<Template>, ClientParse)>,
    /// The statement whose columns the server describes, if the request asks for that.
    described: Option<DescribeTarget>,
}

/// The request of a plain statement.
struct PlainRequest<'a> {
    messages: &'a [u8],
    form: RequestForm,
    template: &'a Arc<Template>,
    /// The client's `Parse` of the statement, if it came earlier.
    client_parse: Option<&'a ClientParse>,
    sequences: SequenceUse,
    /// The statement is known to write nothing.
    only_reads: bool,
    /// Whether [`Templates::recent`] has found the template.
    is_recent: bool,
}

impl PlainStatement {
    /// Appends to `out` what a server receives that is idle and has the client's settings. `None` if a relay must process the request;
    /// nothing has changed then. A relay that starts afterwards may do the same again.
    pub fn start(
        request: &Request,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let draws_only = !request.sequences.reads
            || (context.server.sequences).is_readable(context.session.sequences);
        if !draws_only || context.server.has_pending_close() {
            return None;
        }
        let plain = PlainRequest {
            messages: &request.bytes,
            form: request.form,
            template: &request.template,
            client_parse: request.client_parse.as_ref(),
            sequences: request.sequences,
            only_reads: request.template.only_reads() || request.sequences == SequenceUse::NONE,
            is_recent: false,
        };
        plain.start(context, out)
    }

    /// The commit that an answer acknowledges; `None` unless it is one that can be forwarded as it is.
    pub fn answered(self, answer: &[u8], context: &mut RelayContext<'_>) -> Option<CommitCounts> {
        let mut commits = CommitProgress::default();
        self.note_answer(answer, Status::Idle, &mut commits, context)
            .then(|| commits.take())
    }

    /// Whether this is an answer that can be forwarded as it is, and ends with this transaction status. Notes its effects then.
    fn note_answer(
        mut self,
        answer: &[u8],
        status: Status,
        commits: &mut CommitProgress,
        context: &mut RelayContext<'_>,
    ) -> bool {
        // At once for an answer of which only a part has arrived.
        if answer.last() != Some(&status.code()) {
            return false;
        }
        let Some(PlainAnswer { columns, command }) = PlainAnswer::read(answer, self.form) else {
            return false;
        };
        if let Some((template, client_parse)) = self.parsed.take() {
            let statements = &mut context.session.statements;
            let undo = statements.parse(b"", template, client_parse);
            statements.parse_answered(&undo, context.templates.new_id());
        }
        if let Some((columns, described)) = columns.zip(self.described.as_ref()) {
            RelayState::note_columns(columns, described, context);
        }
        commits.sent(self.only_reads);
        commits.executed(command);
        commits.ready(status, false, false);
        true
    }
}

/// The parts of an answer that can be forwarded as it is.
struct PlainAnswer<'a> {
    /// `RowDescription` or `NoData`, if the request has a `Describe`.
    columns: Option<Frame<'a>>,
    /// The body of `CommandComplete`, or of `PortalSuspended`, which is empty.
    command: &'a [u8],
}

impl<'a> PlainAnswer<'a> {
    /// `None` if the answer is not complete, or has other messages than rows.
    fn read(answer: &'a [u8], form: RequestForm) -> Option<Self> {
        let mut frames = Frames::new(answer);
        let mut columns = None;
        if let RequestForm::Extended {
            parse, describe, ..
        } = form
        {
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
        let is_row = |frame: &Frame<'_>| match form {
            RequestForm::Simple => matches!(frame.tag, tag::ROW_DESCRIPTION | tag::DATA_ROW),
            RequestForm::Extended { .. } => frame.tag == tag::DATA_ROW,
        };
        let completed = frames.find(|frame| !is_row(frame))?;
        let ready = frames.next()?;
        let is_end = matches!(completed.tag, tag::COMMAND_COMPLETE | tag::PORTAL_SUSPENDED)
            && ready.tag == tag::READY_FOR_QUERY
            && frames.rest().is_empty();
        is_end.then_some(Self {
            columns,
            command: completed.body(),
        })
    }
}

impl RelayState {
    /// Starts a plain statement in the open transaction. `messages`: what the client has sent since the last answer. Appends to `out`
    /// what the server receives. `None` if [`RelayState::client_message`] must process the messages; nothing has changed then. It may
    /// process them afterwards, too, and then writes the same.
    pub fn start_plain(
        &mut self,
        messages: &[u8],
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Option<PlainStatement> {
        let may = messages.len() < BULK_BYTES_MIN
            && self.is_quiet()
            && self.status == Status::Transaction
            && self.mode == RelayMode::Transaction
            && self.pinned_for.is_empty();
        if !may {
            return None;
        }
        let first = Frames::new(messages).next()?;
        let found = match first.tag == frontend::tag::QUERY {
            true => KnownStatement::of_query(first, context.templates)?,
            false => KnownStatement::of_messages(messages, context)?,
        };
        let template = &found.template;
        let plain = PlainRequest {
            messages,
            form: found.form,
            template,
            client_parse: found.client_parse.as_ref(),
            sequences: template.sequences(),
            only_reads: template.only_reads(),
            is_recent: found.is_recent,
        };
        let started = plain.start(context, out)?;
        if let RequestForm::Extended { .. } = found.form {
            // The unnamed portal is another one now. If the client executes it again, its effects are unknown.
            self.portals.remove(b"");
            self.portals.request_ends();
        }
        if context.policy.listen_mode == ListenMode::Shared {
            self.listen.notifies = self.listen.notifies || may_notify(template);
        }
        Some(started)
    }

    /// Whether this is an answer to the plain statement that can be forwarded as it is. If not, the relay must process the client's
    /// messages, without sending them, and then the answer.
    pub fn plain_answered(
        &mut self,
        statement: PlainStatement,
        answer: &[u8],
        context: &mut RelayContext<'_>,
    ) -> bool {
        let is_plain =
            statement.note_answer(answer, Status::Transaction, &mut self.commits, context);
        if is_plain {
            self.forwarded += answer.len() as u64;
            self.answered += 1;
        }
        is_plain
    }
}

/// The single statement of a request in a transaction.
struct KnownStatement {
    template: Arc<Template>,
    form: RequestForm,
    client_parse: Option<ClientParse>,
    /// See [`PlainRequest::is_recent`].
    is_recent: bool,
}

impl KnownStatement {
    /// `None` if the server does not receive the text as it is, or the text must be parsed in another thread.
    fn of_query(query: Frame<'_>, templates: &Templates) -> Option<Self> {
        let body = query.body();
        let (template, is_recent) = match templates.recent(body.strip_suffix(b"\0")?) {
            Ok(template) => (template, true),
            Err(miss) => {
                let text = Reader::new(body).str().ok()?;
                if paceline_sql::may_have_bare_hints(text) {
                    return None;
                }
                let template = templates.try_simple_template(text).ok()?;
                templates.note_recent(miss, text, &template);
                (template, false)
            }
        };
        Some(Self {
            template,
            form: RequestForm::Simple,
            client_parse: None,
            is_recent,
        })
    }

    /// By the extended protocol.
    fn of_messages(messages: &[u8], context: &RelayContext<'_>) -> Option<Self> {
        let single = SingleStatement::read(messages)?;
        let (template, client_parse) = match &single.parse {
            Some(parse) => (
                template_of_unnamed(parse, &single, context.templates)?,
                None,
            ),
            None => {
                let statements = &context.session.statements;
                let (template, client_parse) = statements.prepared(single.bind.statement)?;
                (Arc::clone(template), Some(client_parse.clone()))
            }
        };
        // In a transaction, the portal remains, and the client may fetch the rest of its rows.
        let form = single.form(&template);
        (form.row_limit() == 0).then(|| Self {
            form,
            template,
            client_parse,
            is_recent: false,
        })
    }
}

fn template_of_unnamed(
    parse: &Parse<'_>,
    single: &SingleStatement<'_>,
    templates: &Templates,
) -> Option<Arc<Template>> {
    let text = std::str::from_utf8(parse.text).ok()?;
    let is_unnamed = parse.name.is_empty() && single.bind.statement.is_empty();
    if !is_unnamed || paceline_sql::may_have_bare_hints(text) {
        return None;
    }
    templates.try_prepared_now(text, parse.types).ok()
}

impl PlainRequest<'_> {
    /// Appends to `out` what the server receives, and notes its effects. `None`, without effects, if the request is not plain.
    fn start(&self, context: &mut RelayContext<'_>, out: &mut BytesMut) -> Option<PlainStatement> {
        let template = &**self.template;
        let is_plain = (self.is_recent || template.only_uses_rows())
            && !context.session.listening.is_listening()
            && !(context.may_change_session)(template);
        if !is_plain {
            return None;
        }
        let (parsed, described) = match self.form {
            RequestForm::Simple => {
                self.write_query(context, out)?;
                (None, None)
            }
            RequestForm::Extended { parse: true, .. } => {
                let (parsed, described) = self.write_unnamed(context, out)?;
                (Some(parsed), Some(described))
            }
            RequestForm::Extended { parse: false, .. } => {
                (None, Some(self.write_bind(context, out)?))
            }
        };
        let listens_alone = context.policy.listen_mode == ListenMode::Session;
        let server = &mut *context.server;
        server.notified = server.notified || listens_alone || may_notify(template);
        note_draws(self.sequences, context);
        Some(PlainStatement {
            only_reads: self.only_reads,
            form: self.form,
            parsed,
            described,
        })
    }

    /// Writes a `Query`, which is the request. It drops the unnamed statement of the server, and there is none of the client.
    fn write_query(&self, context: &mut RelayContext<'_>, out: &mut BytesMut) -> Option<()> {
        let query = Frames::new(self.messages).next()?;
        let is_alone = query.bytes.len() == self.messages.len();
        if !is_alone || context.session.statements.get(b"").is_some() {
            return None;
        }
        if !self.is_recent {
            let text = Reader::new(query.body()).str().ok()?;
            context.server.tokenizes_alike(text).then_some(())?;
        }
        context.server.unnamed = None;
        out.put_slice(self.messages);
        Some(())
    }

    /// Writes a `Parse` of the unnamed statement, and the rest of the request.
    fn write_unnamed(
        &self,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Option<((Arc<Template>, ClientParse), DescribeTarget)> {
        let template = self.template;
        let parse = Frames::new(self.messages).next()?;
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
        out.put_slice(self.messages);
        Some(((Arc::clone(template), client_parse), described))
    }

    /// Writes a `Bind` of a statement that the server has prepared, and the rest of the request.
    fn write_bind(
        &self,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Option<DescribeTarget> {
        let bind = Frames::new(self.messages).next()?;
        let rest = self.messages.get(bind.bytes.len()..)?;
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
            key: Some(
                context
                    .server
                    .use_prepared(self.template, self.client_parse)?,
            ),
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
}

fn is_description(frame: &Frame<'_>) -> bool {
    matches!(frame.tag, tag::ROW_DESCRIPTION | tag::NO_DATA)
}
