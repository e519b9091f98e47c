//! From the server to the client.

use super::{Body, Desk, Ending, Expect, Ride, Wrap};
use crate::server::NAME_PREFIX;
use crate::session::Session;
use crate::strategy::fold::not_exactly;
use crate::strategy::is_stale_plan;
use bytes::{Buf, BufMut, BytesMut};
use paceline_sql::{Hints, SessionChange};
use paceline_wire::backend::{self, Status, tag};
use paceline_wire::{Frame, Header, WireError, frame, frontend};
use std::sync::Arc;

/// What happens to a message of the server.
enum Pass {
    Forward,
    Swallow,
    /// Kept until the transaction has ended as the hint wants.
    Hold,
}

/// CommandComplete of statements that begin or end transaction blocks.
const BLOCK_COMMANDS: [&[u8]; 6] = [
    b"BEGIN\0",
    b"START TRANSACTION\0",
    b"COMMIT\0",
    b"ROLLBACK\0",
    b"SAVEPOINT\0",
    b"PREPARE TRANSACTION\0",
];

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

impl Ride {
    /// Takes what has come from the server off `input` and appends what goes to the client to `to_client`; what
    /// Paceline itself has to say to the server goes to `to_server`. Leaves an incomplete message that must be
    /// inspected in `input`.
    pub fn server_bytes(
        &mut self,
        input: &mut BytesMut,
        desk: &mut Desk<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) -> Result<(), WireError> {
        let before = to_client.len();
        loop {
            self.pass_body(input, to_client);
            let Some(header) = Header::read(input)? else {
                break;
            };
            if is_unseen(header) {
                self.pass_held(to_client);
                let unseen = unseen_len(input)?;
                let swallow = self.expect.front().is_some_and(Expect::is_own);
                self.body = match swallow {
                    true => Body::Swallow(unseen),
                    false => Body::Forward(unseen),
                };
                continue;
            }
            if input.len() < header.len {
                break;
            }
            let message = input.split_to(header.len).freeze();
            let frame = Frame {
                tag: header.tag,
                bytes: &message,
            };
            match self.server_message(frame, desk, to_client, to_server)? {
                Pass::Forward => {
                    self.pass_held(to_client);
                    match header.tag {
                        tag::ERROR_RESPONSE => {
                            let state = backend::error_field(frame.body(), b'C');
                            let state = state.and_then(|s| <[u8; 5]>::try_from(s.as_bytes()).ok());
                            self.errors.extend(state);
                            desk.write_error(frame, to_client);
                        }
                        _ => to_client.put_slice(&message),
                    }
                }
                Pass::Hold => {
                    self.pass_held(to_client);
                    self.unit.held.put_slice(&message);
                }
                Pass::Swallow => {}
            }
            self.answer_done(to_client);
        }
        self.forwarded += (to_client.len() - before) as u64;
        Ok(())
    }

    /// Answers to the client's messages that no server needs to give.
    pub fn answer_done(&mut self, to_client: &mut BytesMut) {
        loop {
            match self.expect.front() {
                Some(Expect::ParseDone { .. }) => {
                    frame::write_empty(to_client, tag::PARSE_COMPLETE)
                }
                Some(Expect::CloseDone { .. }) => {
                    frame::write_empty(to_client, tag::CLOSE_COMPLETE)
                }
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
        desk: &mut Desk<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) -> Result<Pass, WireError> {
        // Not answers to anything.
        match frame.tag {
            tag::NOTICE_RESPONSE | tag::PARAMETER_STATUS => {
                let own = matches!(self.expect.front(), Some(Expect::OwnQuery | Expect::Ending));
                return Ok(if own { Pass::Swallow } else { Pass::Forward });
            }
            tag::NOTIFICATION_RESPONSE => return Ok(Pass::Forward),
            tag::ERROR_RESPONSE => return Ok(self.error(frame, desk)),
            tag::READY_FOR_QUERY => return self.ready(frame, desk, to_client, to_server),
            _ => {}
        }
        let pass = match (frame.tag, self.expect.front_mut()) {
            (_, Some(Expect::OwnQuery | Expect::Ending)) => Pass::Swallow,
            (tag::EMPTY_QUERY_RESPONSE, Some(Expect::Deallocate)) => {
                backend::write_command_complete(to_client, "DEALLOCATE");
                Pass::Swallow
            }
            (tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE, Some(front)) => {
                let own = front.is_own();
                if let Expect::Parse { key: Some(key), .. } = front {
                    self.accepted.push(key.template());
                }
                self.expect.pop_front();
                if own { Pass::Swallow } else { Pass::Forward }
            }
            (tag::BIND_COMPLETE, Some(Expect::Bind { .. }))
            | (tag::NO_DATA | tag::ROW_DESCRIPTION, Some(Expect::Describe)) => {
                self.expect.pop_front();
                Pass::Forward
            }
            (
                tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED,
                Some(Expect::Execute { changes, hints } | Expect::Query { changes, hints }),
            ) => {
                let (changes, hints) = (std::mem::take(changes), *hints);
                if let Some(Expect::Execute { .. }) = self.expect.front() {
                    self.expect.pop_front();
                }
                self.complete(frame, changes, hints)
            }
            (tag::COPY_IN_RESPONSE, _) => {
                self.start_copy_in();
                Pass::Forward
            }
            _ => Pass::Forward,
        };
        Ok(pass)
    }

    fn complete(&mut self, frame: Frame<'_>, changes: Vec<SessionChange>, hints: Hints) -> Pass {
        self.unit.changes.extend(changes);
        self.unit.moved_block |= BLOCK_COMMANDS.contains(&frame.body());
        self.unit.hints = hints;
        self.unit.rows = backend::affected_rows(frame.body());
        if hints == Hints::default() {
            Pass::Forward
        } else {
            Pass::Hold
        }
    }

    /// The server reads CopyData now: it has skipped or will skip Syncs up to the end of the copy.
    fn start_copy_in(&mut self) {
        let first = usize::from(matches!(self.expect.front(), Some(Expect::Execute { .. })));
        if first == 0 {
            self.copy_in = true;
            return;
        }
        let end = self
            .expect
            .iter()
            .position(|e| matches!(e, Expect::CopyEnd));
        self.copy_in = end.is_none();
        let until = end.map_or(self.expect.len(), |at| at + 1);
        let mut place = 0;
        self.expect.retain(|e| {
            let skipped =
                (first..until).contains(&place) && matches!(e, Expect::Sync | Expect::CopyEnd);
            place += 1;
            !skipped
        });
        // The Sync that ends the unit is still to come.
        self.mid_unit = !self.expect.iter().any(|e| matches!(e, Expect::Sync));
    }

    /// An error makes the server skip everything up to the next Sync: none of it has taken place.
    fn error(&mut self, frame: Frame<'_>, desk: &mut Desk<'_>) -> Pass {
        let severity = backend::error_field(frame.body(), b'V').unwrap_or_default();
        if matches!(severity, "FATAL" | "PANIC") {
            self.fatal = true;
            return Pass::Forward;
        }
        self.copy_in = false;
        self.saw_error = true;
        self.unit.failed = true;
        let ending = matches!(self.expect.front(), Some(Expect::Ending));
        self.unit.rolls_back |= self.expect.front().is_some_and(Expect::rolls_back);
        // A statement that fails keeps the locks that it took for its session, and may have done more.
        desk.server.tainted |= self.expect.front().is_some_and(Expect::may_leave_something);
        if is_stale_plan(frame.body()) {
            desk.server.retire_all();
            self.portals
                .values()
                .for_each(|template| desk.templates.retire(template));
        }
        if let Some(Expect::Bind { key: Some(key) }) = self.expect.front() {
            // It may have been prepared for a table that has changed since: its parameters had other types then.
            desk.server.retire(*key);
        }
        if self.expect.front().is_some_and(|e| !e.is_boundary()) {
            self.skip_to_sync(desk);
        }
        if ending && self.unit.ending != Some(Ending::Commit) {
            return Pass::Swallow;
        }
        if ending {
            self.unit.held.clear();
        }
        Pass::Forward
    }

    /// In the extended protocol the server skips everything, a Query too, up to the next Sync.
    fn skip_to_sync(&mut self, desk: &mut Desk<'_>) {
        let mut undone = Vec::new();
        while self
            .expect
            .front()
            .is_some_and(|e| !matches!(e, Expect::Sync))
        {
            undone.extend(self.expect.pop_front());
        }
        self.skipping = self.expect.is_empty();
        self.unit.rolls_back |= undone.iter().any(Expect::rolls_back);
        undone.into_iter().rev().for_each(|e| take_back(e, desk));
    }

    fn ready(
        &mut self,
        frame: Frame<'_>,
        desk: &mut Desk<'_>,
        to_client: &mut BytesMut,
        to_server: &mut BytesMut,
    ) -> Result<Pass, WireError> {
        self.status = Status::read(frame.body())?;
        let expected = self.expect.pop_front();
        if matches!(expected, Some(Expect::OwnQuery)) {
            return Ok(Pass::Swallow);
        }
        let ended = matches!(expected, Some(Expect::Ending));
        if !ended && let Some(ending) = self.ending() {
            self.unit.ending = Some(ending);
            self.end_transaction(ending, desk, to_client, to_server);
            return Ok(Pass::Swallow);
        }
        self.release_held(to_client);
        self.settle(desk, to_server);
        Ok(Pass::Forward)
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
        desk: &mut Desk<'_>,
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
        desk.server.unnamed = None;
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

    /// The unit is over: what it changed in the session holds now.
    fn settle(&mut self, desk: &mut Desk<'_>, to_server: &mut BytesMut) {
        let unit = std::mem::take(&mut self.unit);
        let before = std::mem::replace(&mut self.status_before, self.status);
        self.wrap = Wrap::No;
        if self.status == Status::Idle {
            self.portals.clear();
        }
        let certain = !unit.failed
            && !unit.moved_block
            && before == Status::Idle
            && self.status == Status::Idle;
        for change in &unit.changes {
            self.apply(change, certain, desk);
        }
        // RESET goes back to the server's own defaults: the next ride puts the client's in force again, and a client
        // that stays here needs them now.
        if self.pinned.is_some() && certain {
            let restore = unit
                .changes
                .iter()
                .filter_map(|c| desk.session.base.restore_sql(c));
            for sql in restore {
                frontend::write_query(to_server, &sql);
                desk.server.unnamed = None;
                self.expect.push_back(Expect::OwnQuery);
            }
        }
    }

    fn apply(&mut self, change: &SessionChange, certain: bool, desk: &mut Desk<'_>) {
        match change {
            SessionChange::Pin(why) => self.pinned = Some(why),
            SessionChange::Taint => desk.server.tainted = true,
            SessionChange::Deallocate { name } => desk.server.forget_name(name),
            SessionChange::DeallocateAll => {
                desk.session.close_all();
                desk.server.forget_all();
            }
            SessionChange::DiscardAll => {
                desk.session.close_all();
                desk.server.forget_all();
                desk.session.settings = Arc::clone(&desk.session.base);
                desk.server.settings = desk.book.none();
                self.pinned = None;
            }
            SessionChange::Set { .. } | SessionChange::Reset { .. } | SessionChange::ResetAll => {
                if !certain {
                    // Whether it holds depends on how its transaction ends.
                    self.pinned = Some("a setting changed inside a transaction");
                    return;
                }
                let Session { settings, base, .. } = &mut *desk.session;
                *settings = desk.book.after(settings, base, change);
                // RESET on the server goes back to its own defaults, not to the client's.
                match change {
                    SessionChange::Set { .. } => desk.server.settings = Arc::clone(settings),
                    _ => desk.server.tainted = true,
                }
            }
        }
    }
}

impl Desk<'_> {
    /// An error speaks of statements by the client's own names.
    fn write_error(&self, error: Frame<'_>, out: &mut BytesMut) {
        let message = backend::error_field(error.body(), b'M').unwrap_or_default();
        let found = message.find(NAME_PREFIX).and_then(|at| {
            let rest = message.get(at..)?;
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            let name = rest.get(..end.unwrap_or(rest.len()))?;
            Some((name, self.client_name(name)?))
        });
        match found {
            Some((server, client)) => {
                let text = message.replacen(server, &client, 1);
                backend::write_error_with_message(error.body(), &text, out);
            }
            None => out.put_slice(error.bytes),
        }
    }

    fn client_name(&self, server: &str) -> Option<String> {
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
fn take_back(expect: Expect, desk: &mut Desk<'_>) {
    match expect {
        Expect::Parse { key, undo } => {
            key.into_iter().for_each(|key| desk.server.forget(key));
            if key.is_none() {
                desk.server.unnamed = None;
            }
            desk.session.undo(undo);
        }
        Expect::OwnParse { key } => match key {
            Some(key) => desk.server.forget(key),
            None => desk.server.unnamed = None,
        },
        Expect::ParseDone { undo } | Expect::CloseDone { undo } => desk.session.undo(undo),
        Expect::OwnClose {
            closed: Some(closed),
        } => desk.server.remember(closed),
        _ => {}
    }
}
