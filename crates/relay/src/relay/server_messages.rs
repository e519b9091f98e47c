//! From the server to the client.

use super::expect::Expect;
use super::listening::write_notification;
use super::state::{Body, Ending, Pass, Progress, RelayContext, RelayState, Wrap};
use super::statement_names::TAKEN;
use crate::errors::{is_stale_plan, not_exactly};
use crate::server::NAME_PREFIX;
use bytes::{Buf, BufMut, BytesMut};
use paceline_sql::Hints;
use paceline_wire::backend::{self, Status, tag};
use paceline_wire::{Frame, Header, WireError, frontend};

/// Messages of a server that are looked at in one go; a message that costs more counts as several.
pub const MESSAGES_MAX: usize = 512;

/// Names of statements that are looked at for the cost of one message.
const NAMES_PER_MESSAGE: usize = 8;

/// Rows and copied data: their bodies are nobody's business.
fn is_unseen(header: Header) -> bool {
    matches!(header.tag, tag::DATA_ROW | b'd')
}

/// Bytes of the messages at the start of `input` that pass unseen; the last of them may still be on its way.
fn unseen_len(input: &[u8]) -> Result<usize, WireError> {
    let mut len = 0;
    while let Some(header) = Header::read(input.get(len..).unwrap_or_default())?
        && is_unseen(header)
    {
        len += header.len;
    }
    Ok(len)
}

impl RelayState {
    /// Takes what has come from the server off `input` and appends what goes to the client to `to_client`; what
    /// Paceline itself has to say to the server goes to `to_server`. Leaves an incomplete message that must be
    /// inspected in `input`; true: and messages behind the first [`MESSAGES_MAX`], for which others need not wait.
    ///
    /// # Errors
    /// The server does not keep to the protocol.
    pub fn server_bytes(
        &mut self,
        input: &mut BytesMut,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) -> Result<bool, WireError> {
        let before = to_client.len();
        self.work = 0;
        let more = loop {
            if self.awaits_notifications() {
                break false;
            }
            if self.work >= MESSAGES_MAX {
                break true;
            }
            self.work += 1;
            self.pass_body(input, to_client);
            let Some(header) = Header::read(input)? else {
                break false;
            };
            let seen = matches!(self.expect.front(), Some(Expect::Asking(_)));
            if is_unseen(header) && !seen {
                self.pass_held(to_client);
                self.repeat.answered();
                let unseen = unseen_len(input)?;
                let swallow = self.expect.front().is_some_and(Expect::is_own);
                self.body = match swallow {
                    true => Body::Swallow(unseen),
                    false => Body::Forward(unseen),
                };
                continue;
            }
            if input.len() < header.len {
                break false;
            }
            let message = input.split_to(header.len).freeze();
            let frame = Frame {
                tag: header.tag,
                bytes: &message,
            };
            match self.server_message(frame, context, to_client, to_server)? {
                Pass::Forward => {
                    self.pass_held(to_client);
                    match header.tag {
                        tag::ERROR_RESPONSE => {
                            let state = backend::error_field(frame.body(), b'C');
                            let state = state.and_then(|s| <[u8; 5]>::try_from(s.as_bytes()).ok());
                            self.errors.extend(state);
                            self.write_error(frame, context, to_client);
                        }
                        tag => {
                            self.repeat.passes(tag);
                            to_client.put_slice(&message);
                        }
                    }
                }
                Pass::Instead(error) => to_client.put_slice(&error),
                Pass::Hold => {
                    self.pass_held(to_client);
                    // What comes next is no longer the first that is done.
                    self.repeat.answered();
                    self.unit.held.put_slice(&message);
                }
                Pass::Swallow => {}
            }
            self.answer_done(to_client);
        };
        self.forwarded += (to_client.len() - before) as u64;
        Ok(more)
    }

    /// Answers to the client's messages that no server needs to give.
    pub fn answer_done(&mut self, to_client: &mut BytesMut) {
        loop {
            match self.expect.front() {
                Some(Expect::Done { says, .. }) => {
                    let says = *says;
                    self.pass_held(to_client);
                    self.repeat.tell(says, to_client);
                }
                // Of a copy that did not begin: the server skips it.
                Some(Expect::CopyEnd) => {}
                _ => return,
            }
            self.expect.pop_front();
        }
    }

    /// What was kept was not the end of the unit after all.
    fn pass_held(&mut self, to_client: &mut BytesMut) {
        if !self.unit.held.is_empty() {
            to_client.put_slice(&self.unit.held.split());
        }
    }

    fn pass_body(&mut self, input: &mut BytesMut, to_client: &mut BytesMut) {
        match &mut self.body {
            // All of it: the buffer itself goes over.
            Body::Forward(left) if to_client.is_empty() && input.len() <= *left => {
                *left -= input.len();
                std::mem::swap(input, to_client);
            }
            Body::Forward(left) => {
                let here = input.len().min(*left);
                *left -= here;
                to_client.put_slice(input.get(..here).unwrap_or_default());
                input.advance(here);
            }
            Body::Swallow(left) => {
                let here = input.len().min(*left);
                *left -= here;
                input.advance(here);
                if *left == 0 {
                    self.body = Body::Forward(0);
                }
            }
        }
    }

    fn server_message(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) -> Result<Pass, WireError> {
        // Not answers to anything.
        match frame.tag {
            tag::NOTICE_RESPONSE => {
                let own = self.expect.front().is_some_and(Expect::is_own);
                return Ok(if own { Pass::Swallow } else { Pass::Forward });
            }
            tag::PARAMETER_STATUS => return Ok(self.reported(frame, context)),
            tag::NOTIFICATION_RESPONSE => {
                write_notification(frame, context, to_client);
                return Ok(Pass::Swallow);
            }
            tag::ERROR_RESPONSE => return Ok(self.error(frame, context)),
            tag::READY_FOR_QUERY => return self.ready(frame, context, to_client, to_server),
            _ => {}
        }
        let pass = match (frame.tag, self.expect.front_mut()) {
            (tag::DATA_ROW, Some(Expect::Asking(question))) => {
                let question = std::mem::take(question);
                self.answered(question, frame, context);
                Pass::Swallow
            }
            (
                _,
                Some(
                    Expect::OwnQuery
                    | Expect::Discarding
                    | Expect::Ending
                    | Expect::Restoring
                    | Expect::Asking(_),
                ),
            ) => Pass::Swallow,
            (tag::EMPTY_QUERY_RESPONSE, Some(Expect::Deallocate)) => {
                backend::write_command_complete(to_client, "DEALLOCATE");
                Pass::Swallow
            }
            (tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE, Some(front)) => {
                let own = front.is_own();
                let mut says = None;
                if let Expect::Parse {
                    key,
                    undo,
                    says: how,
                } = front
                {
                    self.accepted.extend(*key);
                    context
                        .session
                        .is_analysed(undo, context.templates.new_id());
                    says = Some(*how);
                }
                self.expect.pop_front();
                match says {
                    Some(says) => {
                        self.pass_held(to_client);
                        self.repeat.tell(says, to_client);
                    }
                    None if own => {}
                    None => return Ok(Pass::Forward),
                }
                Pass::Swallow
            }
            (tag::BIND_COMPLETE | tag::COMMAND_COMPLETE, Some(Expect::OwnStep)) => {
                self.expect.pop_front();
                Pass::Swallow
            }
            (tag::NO_DATA | tag::ROW_DESCRIPTION, Some(Expect::Shape { .. })) => {
                self.shape_is(frame, context);
                Pass::Swallow
            }
            (tag::PARAMETER_DESCRIPTION, Some(Expect::Shape { .. })) => {
                self.types_are(frame, context);
                Pass::Swallow
            }
            (tag::PARAMETER_DESCRIPTION, Some(Expect::Describe(Some(described)))) => {
                Self::note_types(frame, described, context);
                Pass::Forward
            }
            (tag::NO_DATA | tag::ROW_DESCRIPTION, Some(Expect::Describe(described))) => {
                if let Some(described) = described {
                    Self::note_shape(frame, described, context);
                }
                self.expect.pop_front();
                Pass::Forward
            }
            (tag::BIND_COMPLETE, Some(Expect::Bind { .. })) => {
                self.expect.pop_front();
                Pass::Forward
            }
            (
                tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED,
                Some(Expect::Execute { changes, hints } | Expect::Query { changes, hints, .. }),
            ) => {
                let (changes, hints) = (changes.take_next(), *hints);
                self.sync_in_copy = false;
                if let Some(Expect::Execute { .. }) = self.expect.front() {
                    self.expect.pop_front();
                }
                self.change(frame.body(), &changes, context, to_client);
                match Self::command_instead(frame.body(), &changes) {
                    Some(command) => {
                        self.pass_held(to_client);
                        self.repeat.answered();
                        backend::write_command_complete(to_client, command);
                        Pass::Swallow
                    }
                    None => self.complete(frame, hints),
                }
            }
            (tag::COPY_IN_RESPONSE, _) => {
                self.start_copy_in();
                Pass::Forward
            }
            _ => Pass::Forward,
        };
        Ok(pass)
    }

    fn complete(&mut self, frame: Frame<'_>, hints: Hints) -> Pass {
        self.unit.hints = hints;
        self.unit.rows = backend::affected_rows(frame.body());
        if hints == Hints::default() {
            Pass::Forward
        } else {
            Pass::Hold
        }
    }

    /// An error makes the server skip everything up to the next Sync: none of it has taken place.
    fn error(&mut self, frame: Frame<'_>, context: &mut RelayContext<'_>) -> Pass {
        let severity = backend::error_field(frame.body(), b'V').unwrap_or_default();
        if matches!(severity, "FATAL" | "PANIC") {
            self.fatal = true;
            return Pass::Forward;
        }
        if let Some(Expect::Asking(question)) = self.expect.front_mut() {
            let question = std::mem::take(question);
            self.unanswered(&question, context);
            return Pass::Swallow;
        }
        if let Some(Expect::Discarding) = self.expect.front() {
            self.strange_numbers = true;
            return Pass::Swallow;
        }
        self.end_failed_copy(context);
        if let Some(Expect::Refused { why, .. }) = self.expect.front() {
            let error = why.message();
            self.fail(context);
            return Pass::Instead(error);
        }
        let stale = is_stale_plan(frame.body());
        if stale && self.may_repeat() {
            self.repeat.is_due();
            self.retire_plans(context);
            self.fail(context);
            return Pass::Swallow;
        }
        if let Some(Expect::Parse { undo, .. }) = self.expect.front_mut() {
            undo.is_refused();
            self.unit.refused_name = undo.name().into();
        }
        let ending = matches!(self.expect.front(), Some(Expect::Ending));
        self.unit.rolls_back |= self.expect.front().is_some_and(Expect::rolls_back);
        if matches!(self.expect.front(), Some(Expect::Restoring)) {
            context.server.tainted = true;
        }
        self.leave_behind(context);
        if stale {
            self.retire_plans(context);
        }
        if let Some(Expect::Bind { key: Some(key), .. }) = self.expect.front() {
            // It may have been prepared for a table that has changed since: its parameters had other types then.
            context.server.retire(*key);
        }
        self.fail(context);
        if ending && self.unit.ending != Some(Ending::Commit) {
            return Pass::Swallow;
        }
        if ending {
            self.unit.held.clear();
        }
        Pass::Forward
    }

    /// An error speaks of places in the text that the client sent.
    fn write_error(&mut self, error: Frame<'_>, context: &RelayContext<'_>, out: &mut BytesMut) {
        if self.stays {
            // The names there are its own.
            return out.put_slice(error.bytes);
        }
        // To find a statement's name takes a look at each of them.
        self.work += context.session.named() / NAMES_PER_MESSAGE;
        let refused = &*self.unit.refused_name;
        let position = backend::error_field(error.body(), b'P').and_then(|text| text.parse().ok());
        let moved = self.unit.moved.zip(position);
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

    fn fail(&mut self, context: &mut RelayContext<'_>) {
        self.saw_error = true;
        self.unit.failed = true;
        self.describing = false;
        self.just_described = None;
        if self.expect.front().is_some_and(|e| !e.is_boundary()) {
            self.skip_to_sync(context);
        }
    }

    /// Plans on the server no longer fit their tables.
    fn retire_plans(&mut self, context: &mut RelayContext<'_>) {
        context.server.retire_all();
        // Each portal is looked at once. One that is executed all the same may do anything.
        for (_, portal) in std::mem::take(&mut self.portals) {
            context.templates.retire(&portal.template);
        }
    }

    /// In the extended protocol the server skips everything, a Query too, up to the next Sync.
    fn skip_to_sync(&mut self, context: &mut RelayContext<'_>) {
        let mut undone = Vec::new();
        while self
            .expect
            .front()
            .is_some_and(|e| !matches!(e, Expect::Sync | Expect::Then { .. }))
        {
            undone.extend(self.expect.pop_front());
        }
        self.skipping = self.expect.is_empty();
        self.unit.rolls_back |= undone.iter().any(Expect::rolls_back);
        undone.into_iter().rev().for_each(|e| take_back(e, context));
    }

    fn ready(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) -> Result<Pass, WireError> {
        self.status = Status::read(frame.body())?;
        let expected = self.expect.pop_front();
        if expected.is_none() {
            self.answered_unasked(context);
        }
        match expected {
            Some(Expect::OwnQuery | Expect::Discarding) => return Ok(Pass::Swallow),
            Some(Expect::Asking(_)) => return Ok(Pass::Swallow),
            Some(Expect::Then {
                query,
                changes,
                hints,
                by_name,
            }) if !self.unit.failed => {
                to_server.put_slice(&query);
                self.expect.push_front(Expect::Query {
                    changes,
                    hints,
                    by_name,
                });
                return Ok(Pass::Swallow);
            }
            _ if self.repeat.begins() => {
                self.unit = Progress::default();
                self.saw_error = false;
                return Ok(Pass::Swallow);
            }
            _ => {}
        }
        let ended = matches!(expected, Some(Expect::Ending));
        if !ended && let Some(ending) = self.ending() {
            self.unit.ending = Some(ending);
            self.end_transaction(ending, context, to_client, to_server);
            return Ok(Pass::Swallow);
        }
        self.has_prepared(context);
        self.settle_settings(context);
        let restored = matches!(expected, Some(Expect::Restoring));
        if !restored && self.restore(context, to_server) {
            return Ok(Pass::Swallow);
        }
        self.release_held(to_client);
        let statuses = self.unit.statuses.drain(..);
        statuses.for_each(|(_, status)| to_client.put_slice(&status));
        self.settle(context, to_server);
        Ok(match self.keeps_ready(frame) {
            true => Pass::Swallow,
            false => Pass::Forward,
        })
    }

    /// How the hints of the unit's last statement end its transaction, if they do.
    fn ending(&self) -> Option<Ending> {
        let hints = self.unit.hints;
        let in_block = self.status != Status::Idle;
        if !in_block {
            return None;
        }
        if self.status == Status::Failed {
            let rolls_back = self.unit.rolls_back || self.wrap == Wrap::Begin;
            return rolls_back.then_some(Ending::Rollback);
        }
        if self.misses_target() {
            let whole = hints.rollback_on_fail || self.wrap == Wrap::Begin;
            return Some(if whole {
                Ending::Rollback
            } else {
                Ending::Fail
            });
        }
        (hints.commit_on_success || self.wrap == Wrap::Begin).then_some(Ending::Commit)
    }

    fn misses_target(&self) -> bool {
        match (self.unit.hints.target_affect_row, self.unit.rows) {
            (Some(wanted), found) => found != Some(wanted),
            (None, _) => false,
        }
    }

    fn end_transaction(
        &mut self,
        ending: Ending,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) {
        if self.misses_target() && !self.unit.failed {
            self.tell_target(to_client);
        }
        let sql = match ending {
            Ending::Commit => "COMMIT",
            Ending::Rollback => "ROLLBACK",
            // There is no such savepoint: the error puts the transaction into the failed state.
            Ending::Fail => "ROLLBACK TO SAVEPOINT \"paceline: TARGET_AFFECT_ROW\"",
        };
        frontend::write_query(to_server, sql);
        context.server.unnamed = None;
        self.expect.push_front(Expect::Ending);
    }

    /// In place of the statement's CommandComplete.
    fn tell_target(&mut self, to_client: &mut BytesMut) {
        let wanted = self.unit.hints.target_affect_row.unwrap_or_default();
        self.unit.held.clear();
        self.unit.failed = true;
        not_exactly(wanted, self.unit.rows.unwrap_or_default()).write(to_client);
    }

    fn release_held(&mut self, to_client: &mut BytesMut) {
        if self.wrap == Wrap::OneRow && self.misses_target() && !self.unit.failed {
            self.tell_target(to_client);
        }
        let held = std::mem::take(&mut self.unit.held);
        to_client.put_slice(&held);
    }
}

impl RelayContext<'_> {
    /// An error speaks of statements by the client's own names. `refused`: the one that it has tried to give.
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
        let name = self.session.name_of(id)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

/// Takes back what an expectation has promised.
fn take_back(expect: Expect, context: &mut RelayContext<'_>) {
    match expect {
        Expect::Parse { key, undo, .. } => {
            key.into_iter().for_each(|key| context.server.forget(key));
            if key.is_none() {
                context.server.unnamed = None;
            }
            context.session.undo(undo);
        }
        Expect::OwnParse { key } => match key {
            Some(key) => context.server.forget(key),
            None => context.server.unnamed = None,
        },
        Expect::Done { undo, .. } => undo.into_iter().for_each(|undo| context.session.undo(undo)),
        Expect::OwnClose {
            closed: Some(closed),
        } => context.server.remember(closed),
        _ => {}
    }
}
