//! Errors of the server: their effect on the state, and their forwarding to the client.

use super::expect::Expect;
use super::retry::Retry;
use super::state::{Disposition, Extended, RelayContext, RelayState, TransactionEnd, Wrap};
use super::statement_names::TAKEN;
use crate::errors::is_stale_plan;
use crate::server::NAME_PREFIX;
use bytes::{BufMut, BytesMut};
use paceline_wire::Frame;
use paceline_wire::backend::{self, Status};

/// Number of names that the search in [`ClientStatements::name_of`](crate::session::ClientStatements::name_of) compares for
/// the cost of one message.
const NAMES_PER_MESSAGE: usize = 8;

impl RelayState {
    /// After an error the server skips all messages up to the next Sync, so their effects are undone.
    pub(super) fn error(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
    ) -> Disposition {
        let severity = backend::error_field(frame.body(), b'V').unwrap_or_default();
        if matches!(severity, "FATAL" | "PANIC") {
            if self.is_over() {
                // The client has its answer, and nothing of the client is on the connection that the server ends.
                context.server.must_close = true;
                return Disposition::Swallow;
            }
            self.fatal = true;
            return Disposition::Forward;
        }
        if let Some(Expect::InjectedSessionQuery(query)) = self.expect.front_mut() {
            let query = std::mem::take(query);
            self.session_query_failed(&query, context);
            return Disposition::Swallow;
        }
        if let Some(Expect::InjectedDiscardSequences) = self.expect.front() {
            self.discard_failed = true;
            return Disposition::Swallow;
        }
        self.end_failed_copy(context);
        if let Some(Expect::Refused { why, .. }) = self.expect.front() {
            let error = why.message();
            self.fail(context);
            return Disposition::Instead(error);
        }
        let stale = is_stale_plan(frame.body());
        if stale && self.may_retry() {
            self.retry.is_due();
            self.retire_plans(context);
            self.fail(context);
            return Disposition::Swallow;
        }
        if let Some(Expect::Parse { undo, .. }) = self.expect.front_mut() {
            undo.is_refused();
            self.request.refused_name = undo.name().into();
        }
        let ending = matches!(self.expect.front(), Some(Expect::InjectedTransactionEnd));
        self.request.rolls_back |= self.expect.front().is_some_and(Expect::rolls_back);
        if matches!(self.expect.front(), Some(Expect::InjectedRestore)) {
            context.server.needs_reset = true;
        }
        self.note_effects_of_failure(context);
        if stale {
            self.retire_plans(context);
        }
        if let Some(Expect::Bind { key: Some(key), .. }) = self.expect.front() {
            // The table may have changed since the statement was prepared, so that its parameters had other types.
            context.server.retire(*key);
        }
        self.fail(context);
        if ending && self.request.ending != Some(TransactionEnd::Commit) {
            return Disposition::Swallow;
        }
        if ending {
            self.request.held.clear();
        }
        Disposition::Forward
    }

    /// Forwards an error. Positions refer to the text that the client sent.
    pub(super) fn write_error(
        &mut self,
        error: Frame<'_>,
        context: &RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        if self.is_session_pooling() {
            // Here the client's own names are in use.
            return out.put_slice(error.bytes);
        }
        // The search for a statement's name compares each of them.
        self.work += context.session.statements.named() / NAMES_PER_MESSAGE;
        let refused = &*self.request.refused_name;
        let position = backend::error_field(error.body(), b'P').and_then(|text| text.parse().ok());
        let moved = self.request.text_shift.zip(position);
        match moved {
            None => context.write_error(error, refused, out),
            Some((moved, position)) => {
                let position = moved.back(position).to_string();
                let mut own = BytesMut::new();
                backend::write_error_with(error.body(), b'P', &position, &mut own);
                let own = Frame {
                    tag: error.tag,
                    bytes: &own,
                };
                context.write_error(own, refused, out);
            }
        }
    }

    /// Whether the request has had no effect, and the client has received nothing that the new rows could contradict,
    /// neither now nor by an earlier description, unless the request asks for a new one. (A procedure may have committed
    /// before it failed.)
    fn may_retry(&self) -> bool {
        let begins = match self.expect.front() {
            Some(Expect::Bind { described, .. }) => !described || self.expect.describe(),
            Some(Expect::Query { by_name, .. }) => *by_name,
            _ => false,
        };
        let unbegun = match self.wrap {
            Wrap::No => Status::Idle,
            Wrap::Begin => Status::Transaction,
        };
        begins
            && !self.is_session_pooling()
            && self.status == unbegun
            && self.status_before == Status::Idle
            && matches!(self.retry, Retry::Allowed { .. })
    }

    pub(super) fn fail(&mut self, context: &mut RelayContext<'_>) {
        self.saw_error = true;
        self.request.failed = true;
        if self.is_describing() {
            self.extended = Extended::Open;
        }
        self.just_described = None;
        if self.expect.front().is_some_and(|e| !e.is_boundary()) {
            self.skip_to_sync(context);
        }
    }

    /// Plans on the server no longer fit their tables.
    fn retire_plans(&mut self, context: &mut RelayContext<'_>) {
        context.server.retire_all();
        // A portal is removed here. If the client executes it nevertheless, its effects are unknown.
        for template in self.portals.remove_all() {
            context.templates.retire(&template);
        }
    }

    /// In the extended protocol the server skips all messages up to the next Sync, a Query, too.
    fn skip_to_sync(&mut self, context: &mut RelayContext<'_>) {
        let mut undone = Vec::new();
        while self
            .expect
            .front()
            .is_some_and(|e| !matches!(e, Expect::Sync | Expect::SyncBeforeQuery { .. }))
        {
            undone.extend(self.expect.pop_front());
        }
        if self.expect.is_empty() {
            self.extended = Extended::Skipping;
        }
        self.request.rolls_back |= undone.iter().any(Expect::rolls_back);
        undone.into_iter().rev().for_each(|e| take_back(e, context));
    }
}

impl RelayContext<'_> {
    /// Forwards an error with the client's own name of the statement. `refused`: the name of the `Parse` that the server
    /// rejected.
    fn write_error(&self, error: Frame<'_>, refused: &[u8], out: &mut BytesMut) {
        let message = backend::error_field(error.body(), b'M').unwrap_or_default();
        let found = message.find(NAME_PREFIX).and_then(|at| {
            let rest = message.get(at..)?;
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            let name = rest.get(..end.unwrap_or(rest.len()))?;
            Some((name, self.client_name(name, refused)?))
        });
        match found {
            Some((server, client)) => {
                let text = message.replacen(server, &client, 1);
                backend::write_error_with(error.body(), b'M', &text, out);
            }
            None => out.put_slice(error.bytes),
        }
    }

    fn client_name(&self, server: &str, refused: &[u8]) -> Option<String> {
        if server == TAKEN {
            return Some(String::from_utf8_lossy(refused).into_owned());
        }
        let id: u64 = server
            .strip_prefix(NAME_PREFIX)?
            .split('_')
            .next()?
            .parse()
            .ok()?;
        let name = self.session.statements.name_of(id)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

/// Undoes what Paceline assumed when it sent the message.
fn take_back(expect: Expect, context: &mut RelayContext<'_>) {
    match expect {
        Expect::Parse { key, undo, .. } => {
            key.into_iter().for_each(|key| context.server.forget(key));
            if key.is_none() {
                context.server.unnamed = None;
            }
            context.session.statements.undo(undo);
        }
        Expect::InjectedParse { key } => match key {
            Some(key) => context.server.forget(key),
            None => context.server.unnamed = None,
        },
        Expect::AnsweredHere { undo, .. } => undo
            .into_iter()
            .for_each(|undo| context.session.statements.undo(undo)),
        Expect::InjectedClose {
            closed: Some(closed),
        } => context.server.remember(closed),
        _ => {}
    }
}
