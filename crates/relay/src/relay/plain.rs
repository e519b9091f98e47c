//! Plain queries: single statements in autocommit, by a `Query`, that change at most rows. PostgreSQL nearly always answers one with
//! rows, `CommandComplete` and `ReadyForQuery`. The caller forwards such an answer as it is, without a
//! [`RelayState`](super::RelayState), which costs a third of a short statement. At any other answer (an error, a notice, one that
//! arrives in parts) it starts a relay with the request, as if the relay had sent it.

use super::commits::CommitProgress;
use super::listening::may_notify;
use super::sequences::note_draws;
use super::state::RelayContext;
use super::state_policy::ListenMode;
use crate::commits::CommitCounts;
use crate::request::{Request, RequestForm};
use crate::template::Template;
use paceline_sql::{Effect, Hints, SequenceUse};
use paceline_wire::backend::{Status, tag};
use paceline_wire::frontend;
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};

/// A plain query that the server is about to receive.
pub struct PlainQuery {
    commits: CommitProgress,
}

impl PlainQuery {
    /// Notes that the server, which is idle and has the client's settings, receives the request as it is. `None` if a relay must
    /// process it; nothing is noted then. A relay that starts afterwards may note the same again.
    pub fn start(request: &Request, context: &mut RelayContext<'_>) -> Option<Self> {
        let template = &*request.template;
        let draws_only = !request.sequences.reads
            || (context.server.sequences).is_readable(context.session.sequences);
        let is_plain = request.form == RequestForm::Simple
            && changes_rows_at_most(template)
            && draws_only
            && context.session.statements.get(b"").is_none()
            && !context.session.listening.is_listening()
            && !context.server.has_pending_close()
            && query_text(request).is_some_and(|text| context.server.tokenizes_alike(text))
            && !(context.may_change_session)(template);
        if !is_plain {
            return None;
        }
        let shares_listen = context.policy.listen_mode != ListenMode::Session;
        let server = &mut *context.server;
        server.notified = server.notified || !shares_listen || may_notify(template);
        context.server.unnamed = None;
        note_draws(request.sequences, context);
        let mut commits = CommitProgress::default();
        commits.sent(template.only_reads() || request.sequences == SequenceUse::NONE);
        Some(Self { commits })
    }

    /// The commit that an answer acknowledges; `None` unless it is one that can be forwarded as it is.
    pub fn answered(mut self, answer: &[u8]) -> Option<CommitCounts> {
        // At once for an answer of which only a part has arrived.
        if !answer.ends_with(b"I") {
            return None;
        }
        let mut frames = Frames::new(answer);
        let is_row = |frame: &Frame<'_>| matches!(frame.tag, tag::ROW_DESCRIPTION | tag::DATA_ROW);
        let completed = frames.find(|frame| !is_row(frame))?;
        let ready = frames.next()?;
        let is_end = completed.tag == tag::COMMAND_COMPLETE
            && ready.tag == tag::READY_FOR_QUERY
            && frames.rest().is_empty();
        if !is_end {
            return None;
        }
        self.commits.executed(completed.body());
        self.commits.ready(Status::Idle, false, false);
        Some(self.commits.take())
    }
}

/// Whether the effects of a statement are limited to rows, and its text reaches the server as it is.
fn changes_rows_at_most(template: &Template) -> bool {
    matches!(template.effect(), Some(Effect::Read | Effect::Write))
        && template.hints() == Hints::default()
        && template.named().is_none()
        && !template.shows_idle_timeout()
}

fn query_text(request: &Request) -> Option<&str> {
    let query = request.frames().next()?;
    let is_query = query.tag == frontend::tag::QUERY && query.bytes.len() == request.bytes.len();
    let text = Reader::new(query.body()).str().ok()?;
    is_query.then_some(text)
}
