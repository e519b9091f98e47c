//! Messages from the server to the client.

use super::expect::{Expect, StatementReply};
use super::listening::write_notification;
use super::state::{
    Body, Disposition, RelayContext, RelayState, RelayedError, RequestProgress, Wrap,
};
use super::targeted_portal::TargetedExecution;
use crate::server::AcceptedParse;
use bytes::{Buf, BufMut, BytesMut};
use paceline_sql::{Hints, PinReason, SessionChange};
use paceline_wire::backend::{self, Status, tag};
use paceline_wire::{Frame, Header, WireError};

/// Maximum number of messages that one call processes. A message that costs more counts as several.
pub const MESSAGES_MAX: usize = 512;

/// Whether the body of a message is forwarded without being read: rows and COPY data.
fn is_opaque(header: Header) -> bool {
    matches!(header.tag, tag::DATA_ROW | b'd')
}

/// Bytes of such messages at the start of `input`. The last of them may be incomplete.
fn opaque_len(input: &[u8]) -> Result<usize, WireError> {
    let mut len = 0;
    while let Some(header) = Header::read(input.get(len..).unwrap_or_default())?
        && is_opaque(header)
    {
        len += header.len;
    }
    Ok(len)
}

impl RelayState {
    /// Takes messages of the server from `input`, appends those for the client to `to_client`, and what Paceline sends to
    /// the server to `to_server`. An incomplete message that must be read remains in `input`. If the result is true,
    /// [`MESSAGES_MAX`] messages have been processed, and further ones remain.
    ///
    /// # Errors
    /// The server violates the protocol.
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
            let seen = matches!(self.expect.front(), Some(Expect::InjectedSessionQuery(_)));
            if is_opaque(header) && !seen {
                self.pass_held(to_client);
                self.retry.answered();
                let opaque = opaque_len(input)?;
                let swallow = self.expect.front().is_some_and(Expect::is_injected);
                if let Some(Expect::Execute(execution)) = self.expect.front_mut() {
                    execution.has_rows();
                }
                self.body = match swallow {
                    true => Body::Swallow(opaque),
                    false => Body::Forward(opaque),
                };
                continue;
            }
            let Some(message) = input.get(..header.len) else {
                break false;
            };
            let frame = Frame {
                tag: header.tag,
                bytes: message,
            };
            match self.server_message(frame, context, to_client, to_server)? {
                Disposition::Forward => {
                    self.pass_held(to_client);
                    match header.tag {
                        tag::ERROR_RESPONSE => {
                            let state = backend::error_field(frame.body(), b'C');
                            let state = state.and_then(|s| <[u8; 5]>::try_from(s.as_bytes()).ok());
                            let request = self.answered;
                            self.errors
                                .extend(state.map(|state| RelayedError { state, request }));
                            self.write_error(frame, context, to_client);
                        }
                        tag => {
                            self.retry.forwarded(tag);
                            to_client.put_slice(message);
                        }
                    }
                }
                Disposition::Instead(error) => to_client.put_slice(&error),
                Disposition::Hold => {
                    self.pass_held(to_client);
                    // The next statement of the request is no longer its first.
                    self.retry.answered();
                    self.request.held.put_slice(message);
                }
                Disposition::Swallow => {}
            }
            input.advance(header.len);
            self.answer_done(to_client);
        };
        self.forwarded += (to_client.len() - before) as u64;
        Ok(more)
    }

    /// Writes the answers that no server needs to give.
    pub fn answer_done(&mut self, to_client: &mut BytesMut) {
        loop {
            match self.expect.front() {
                Some(Expect::AnsweredHere { reply, .. }) => {
                    let reply = *reply;
                    self.pass_held(to_client);
                    self.retry.reply(reply, to_client);
                }
                // The copy did not begin, so the server skips its end.
                Some(Expect::CopyEnd) => {}
                _ => return,
            }
            self.expect.pop_front();
        }
    }

    /// Forwards what was held: the request has further answers.
    pub(super) fn pass_held(&mut self, to_client: &mut BytesMut) {
        if !self.request.held.is_empty() {
            to_client.put_slice(&self.request.held.split());
        }
    }

    fn pass_body(&mut self, input: &mut BytesMut, to_client: &mut BytesMut) {
        match &mut self.body {
            // If the body fills the input, the buffers are swapped instead of copied.
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
    ) -> Result<Disposition, WireError> {
        // These are not answers.
        match frame.tag {
            tag::NOTICE_RESPONSE => {
                let own = self.expect.front().is_some_and(Expect::is_injected);
                // Behind the end of the relay, a notice is about the connection.
                return Ok(Disposition::of(own || self.is_over()));
            }
            tag::PARAMETER_STATUS => return Ok(self.reported(frame, context)),
            tag::NOTIFICATION_RESPONSE => {
                write_notification(frame, context, to_client);
                return Ok(Disposition::Swallow);
            }
            tag::ERROR_RESPONSE => return Ok(self.error(frame, context)),
            tag::READY_FOR_QUERY => return self.ready(frame, context, to_client, to_server),
            _ => {}
        }
        Ok(self.answer(frame, context, to_client))
    }

    /// An answer to the message whose answer is expected next.
    fn answer(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
    ) -> Disposition {
        match (frame.tag, self.expect.front_mut()) {
            (tag::DATA_ROW, Some(Expect::InjectedSessionQuery(query))) => {
                let query = std::mem::take(query);
                self.session_query_answered(query, frame, context);
                Disposition::Swallow
            }
            (
                _,
                Some(
                    Expect::InjectedQuery
                    | Expect::InjectedDiscardSequences
                    | Expect::InjectedTransactionEnd
                    | Expect::InjectedRestore
                    | Expect::InjectedSessionQuery(_),
                ),
            ) => Disposition::Swallow,
            (tag::EMPTY_QUERY_RESPONSE, Some(Expect::Deallocate)) => {
                backend::write_command_complete(to_client, "DEALLOCATE");
                Disposition::Swallow
            }
            (tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE, Some(_)) => {
                self.name_answered(context, to_client)
            }
            (tag::BIND_COMPLETE | tag::COMMAND_COMPLETE, Some(Expect::InjectedStep)) => {
                self.expect.pop_front();
                Disposition::Swallow
            }
            (tag::NO_DATA | tag::ROW_DESCRIPTION, Some(Expect::InjectedDescribe { .. })) => {
                self.columns_described(frame, context);
                Disposition::Swallow
            }
            (tag::PARAMETER_DESCRIPTION, Some(Expect::InjectedDescribe { .. })) => {
                self.types_described(frame, context);
                Disposition::Swallow
            }
            (tag::PARAMETER_DESCRIPTION, Some(Expect::Describe(Some(described)))) => {
                Self::note_types(frame, described, context);
                Disposition::Forward
            }
            (tag::NO_DATA | tag::ROW_DESCRIPTION, Some(Expect::Describe(described))) => {
                if let Some(described) = described {
                    Self::note_columns(frame, described, context);
                }
                self.expect.pop_front();
                Disposition::Forward
            }
            (tag::BIND_COMPLETE, Some(Expect::Bind { .. })) => {
                self.expect.pop_front();
                Disposition::Forward
            }
            (
                tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED,
                Some(Expect::Execute(execution) | Expect::Query { execution, .. }),
            ) => {
                let changes = execution.changes.take_next();
                let hints = (execution.hints, execution.targeted.take());
                self.executed(frame, &changes, hints, context, to_client)
            }
            (tag::COPY_IN_RESPONSE, _) => {
                self.start_copy_in();
                Disposition::Forward
            }
            _ => Disposition::Forward,
        }
    }

    /// The server has parsed or closed a statement.
    fn name_answered(
        &mut self,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
    ) -> Disposition {
        match self.expect.pop_front() {
            Some(Expect::Parse { key, undo, reply }) => {
                if let (Some(statement), Some(written)) = (key, undo.parse_written())
                    && statement.settings() == context.server.settings.id
                {
                    self.accepted.push(AcceptedParse { statement, written });
                }
                let now = context.templates.new_id();
                context.session.statements.parse_answered(&undo, now);
                self.pass_held(to_client);
                if reply == StatementReply::ParsedNotText {
                    self.meet_pin_reason(PinReason::NotText, context, to_client);
                }
                self.retry.reply(reply, to_client);
                Disposition::Swallow
            }
            front => Disposition::of(front.is_some_and(|front| front.is_injected())),
        }
    }

    /// A statement with these changes has completed.
    fn executed(
        &mut self,
        frame: Frame<'_>,
        changes: &[SessionChange],
        (hints, targeted): (Hints, Option<Box<TargetedExecution>>),
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
    ) -> Disposition {
        self.sync_in_copy = false;
        if let Some(Expect::Execute(_)) = self.expect.front() {
            self.expect.pop_front();
        }
        self.commits.executed(frame.body());
        self.ddl.executed(frame.body());
        self.change(frame.body(), changes, context, to_client);
        match Self::command_instead(frame.body(), changes) {
            Some(command) => {
                self.pass_held(to_client);
                self.retry.answered();
                backend::write_command_complete(to_client, command);
                Disposition::Swallow
            }
            None => self.complete(frame, hints, targeted.as_deref(), to_client),
        }
    }

    fn ready(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) -> Result<Disposition, WireError> {
        self.status = Status::read(frame.body())?;
        self.ddl.ready(self.status);
        let expected = self.expect.pop_front();
        if let Some(Expect::FunctionCall { large_object }) = expected {
            self.commits.called();
            let change = match large_object {
                true => SessionChange::FunctionsCalled,
                false => SessionChange::Anything,
            };
            self.note_untracked(&change, context);
        }
        let is_before = matches!(expected, Some(Expect::SyncBeforeQuery { .. }));
        let owes = is_before || !self.expect.is_empty();
        self.commits.ready(self.status, self.request.failed, owes);
        if expected.is_none() {
            self.answered_unasked(context);
        }
        match expected {
            Some(
                Expect::InjectedQuery
                | Expect::InjectedDiscardSequences
                | Expect::InjectedSessionQuery(_),
            ) => {
                self.forget_transaction(context);
                return Ok(Disposition::Swallow);
            }
            Some(Expect::SyncBeforeQuery { message, query }) if !self.request.failed => {
                to_server.put_slice(&message);
                self.expect.push_front(*query);
                return Ok(Disposition::Swallow);
            }
            _ if self.retry.begins() => {
                self.request = RequestProgress::default();
                self.saw_error = false;
                if self.wrap == Wrap::Begin {
                    // What the client sends next follows the ROLLBACK.
                    self.status = Status::Idle;
                    self.inject_query("ROLLBACK", Expect::InjectedQuery, context, to_server);
                    self.begin_transaction(context, to_server);
                }
                return Ok(Disposition::Swallow);
            }
            _ => {}
        }
        let ended = matches!(expected, Some(Expect::InjectedTransactionEnd));
        if !ended && let Some(ending) = self.ending() {
            self.request.ending = Some(ending);
            self.end_transaction(ending, context, to_client, to_server);
            return Ok(Disposition::Swallow);
        }
        self.query_prepared(context);
        self.settle_settings(context);
        let restored = matches!(expected, Some(Expect::InjectedRestore));
        if !restored && self.restore(context, to_server) {
            return Ok(Disposition::Swallow);
        }
        self.release_held(to_client);
        let statuses = self.request.statuses.drain(..);
        statuses.for_each(|(_, status)| to_client.put_slice(&status));
        self.settle(context, to_server);
        self.answered += 1;
        self.transactions_ended += u64::from(self.status == Status::Idle);
        Ok(match self.hold_ready(frame) {
            true => Disposition::Swallow,
            false => Disposition::Forward,
        })
    }
}
