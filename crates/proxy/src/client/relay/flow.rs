//! Moves bytes between client and server: reads from one, writes to the other, and waits for either.

use super::context::{with_context, with_context_and_template};
use super::input::Body;
use super::{BACKLOG_MAX, RelayTask, ServerDisposal};
use crate::client::end::{ClientEnd, disconnected, not_read};
use crate::client::query_timers::{QueryTimers, RelayPhase};
use crate::shared_listen::notification_ready;
use bytes::{Buf, Bytes};
use paceline_config::PoolMode;
use paceline_pool::address::DatabaseAddress;
use paceline_pool::clock;
use paceline_pool::pool::DisconnectSignal;
use paceline_pool::pools::Exclusive;
use paceline_relay::relay::{NotYet, RelayState};
use paceline_relay::request::{LONG_HEAD_BYTES, is_long};
use paceline_relay::template::Unparsed;
use paceline_wire::frame::HEADER_LEN;
use paceline_wire::frontend::{BindNames, read_header, tag, write_flush};
use paceline_wire::{Frame, Frames, Header};
use std::io;
use std::time::Duration;
use tokio::io::Interest;

/// SQLSTATE of a write that a server in recovery rejects.
const READ_ONLY: [u8; 5] = *b"25006";

impl RelayTask<'_> {
    /// Whether the server does not take bytes as fast as the client sends them.
    pub(super) fn server_is_full(&self) -> bool {
        self.to_server.len() >= BACKLOG_MAX
    }

    /// Takes messages of the client until the relay needs no more, the buffer is used up, or the client's turn is over.
    pub(super) fn take_client_input(&mut self) -> Result<(), ClientEnd> {
        self.take_pending();
        while self.may_take() && self.wants_client() && !self.is_over_so_far() {
            if self.input.body.left > 0 {
                if !self.take_body() {
                    break;
                }
                continue;
            }
            let buffer = &mut self.client.input;
            let Some(header) = read_header(buffer)? else {
                break;
            };
            if header.tag == tag::COPY_DATA {
                self.input.body = Body {
                    left: header.len,
                    forwarded: true,
                };
                continue;
            }
            // While the client listens, the whole text is needed: LISTEN and UNLISTEN in it concern the shared connection, too.
            let needs_whole = header.tag == tag::QUERY && self.client.listening.is_some();
            if is_long(header) && !needs_whole && has_head(header, buffer) {
                if let Err(reason) = self.begin_long(header) {
                    self.input.block(reason);
                    break;
                }
                continue;
            }
            if buffer.len() < header.len {
                break;
            }
            self.input.is_active = true;
            if header.tag == tag::TERMINATE {
                self.client_end = Some(ClientEnd::Left);
                break;
            }
            let message = buffer.split_to(header.len).freeze();
            self.note_further_message();
            self.input.set_message(message);
            self.take_pending();
        }
        self.ask_for_answers();
        Ok(())
    }

    /// The client sends more. A cancel request for its previous request must not hit this one.
    pub(super) fn note_further_message(&mut self) {
        if !std::mem::replace(&mut self.input.has_more, true) {
            self.client.registration.entry.next_request();
        }
        self.relay.forbid_retry();
    }

    /// Whether the client's turn is not over and its next message can be handled now.
    fn may_take(&self) -> bool {
        !self.client.budget.is_exhausted()
            && self.input.pending.is_empty()
            && self.input.blocked.is_none()
    }

    /// Passes complete messages to the relay.
    pub(super) fn take_pending(&mut self) {
        while !self.client.budget.is_exhausted()
            && !self.input.pending.is_empty()
            && self.input.blocked.is_none()
        {
            let len = Frames::new(&self.input.pending)
                .next()
                .map(|f| f.bytes.len());
            let message = self
                .input
                .pending
                .slice(..len.unwrap_or(self.input.pending.len()));
            match self.take_message(&message) {
                Ok(()) => self.input.pending.advance(message.len()),
                Err(NotYet::Describing) => break,
                Err(reason) => self.input.block(reason),
            }
        }
    }

    fn take_message(&mut self, message: &Bytes) -> Result<(), NotYet> {
        if !self.input.pending_is_first {
            self.begin_if_targeted(message)?;
        }
        let templates = &self.client.proxy.shared.templates;
        let parses = templates.parses();
        let Some(frame) = Frames::new(message).next() else {
            return Ok(());
        };
        let template = self.input.template.take();
        let Self {
            client,
            conn,
            relay,
            stats,
            to_server,
            preliminary,
            spans,
            ..
        } = self;
        let status = relay.status();
        with_context_and_template(client, conn, template.as_ref(), |context| {
            relay.client_message(frame, context, to_server)
        })?;
        self.input.awaits_long = false;
        let is_own = preliminary
            .as_ref()
            .is_some_and(|first| first.adds(message));
        if !is_own {
            stats.message(frame, status);
        }
        if let Some(spans) = spans {
            let is_own = preliminary.is_some();
            spans.message(message, is_own, conn.key.address(), &client.proxy.shared);
        }
        client.budget.message(frame.tag, frame.bytes.len());
        if parses != client.proxy.shared.templates.parses() {
            client.budget.exhaust();
        }
        if let Some(database) = self.relay.take_exclusive() {
            let pool = &self.client.pool;
            let database = DatabaseAddress::beside(&pool.address(), database);
            let pools = &self.client.proxy.pools;
            self.exclusive = Some(Box::new(Exclusive::begin(pools, database)));
        }
        Ok(())
    }

    /// Forwards the available part of a message body. Returns false if there is none.
    fn take_body(&mut self) -> bool {
        let buffer = &mut self.client.input;
        let here = buffer.split_to(buffer.len().min(self.input.body.left));
        if here.is_empty() {
            return false;
        }
        self.input.body.left -= here.len();
        self.input.is_active = true;
        self.stats.copied(here.len());
        self.client.budget.bytes(here.len());
        if self.input.body.forwarded {
            self.to_server.extend_from_slice(&here);
        }
        true
    }

    /// Takes the beginning of a long message; the rest follows as a body.
    ///
    /// # Errors
    /// The message cannot be taken now, and stays in the buffer.
    fn begin_long(&mut self, header: Header) -> Result<(), NotYet> {
        if self.relay.is_describing() {
            return Err(NotYet::Describing);
        }
        let head = self.client.input.get(..LONG_HEAD_BYTES);
        let head = Bytes::copy_from_slice(head.unwrap_or_default());
        let frame = Frame {
            tag: header.tag,
            bytes: &head,
        };
        self.note_further_message();
        if RelayState::is_long_targeted(frame, &self.client.session) {
            self.begin_transaction();
        }
        let Self {
            client,
            conn,
            relay,
            stats,
            to_server,
            spans,
            ..
        } = self;
        let status = relay.status();
        let forwarded = with_context(client, conn, |context| {
            relay.long_message(frame, header.len, context, to_server)
        })?;
        client.input.advance(head.len());
        stats.message(frame, status);
        if let Some(spans) = spans {
            spans.message(&head, false, conn.key.address(), &client.proxy.shared);
        }
        client.budget.message(header.tag, head.len());
        self.input.body = Body {
            left: header.len - head.len(),
            forwarded,
        };
        (self.input.is_active, self.input.awaits_long) = (true, false);
        Ok(())
    }

    /// Asks a server that owes many answers to send those that it keeps until the client waits.
    fn ask_for_answers(&mut self) {
        let owes_many_answers = self.relay.owes_many_answers();
        if owes_many_answers && !self.flush_sent {
            write_flush(&mut self.to_server);
        }
        self.flush_sent = owes_many_answers;
    }

    /// Begins a transaction if the client is in none and its next statement must affect an exact number of rows. (The first
    /// request of the relay was checked before the relay.)
    fn begin_if_targeted(&mut self, message: &Bytes) -> Result<(), Unparsed> {
        let templates = &self.client.proxy.shared.templates;
        let may = self.relay.is_idle() || self.relay.is_mid_request();
        if may && self.client.session.is_targeted(message, templates)? {
            self.begin_transaction();
        }
        Ok(())
    }

    /// Begins a transaction before the next message, if the client is in none.
    fn begin_transaction(&mut self) {
        let Self {
            client,
            conn,
            relay,
            to_server,
            ..
        } = self;
        if relay.is_idle() {
            with_context(client, conn, |context| {
                relay.begin_transaction(context, to_server)
            });
        } else if relay.is_mid_request() {
            relay.begin_mid_request(to_server);
        }
    }

    /// Passes the server's messages to the relay. Returns false if more of them remain.
    pub(super) fn take_server_input(&mut self) -> Result<bool, (ServerDisposal, ClientEnd)> {
        let Self {
            client,
            conn,
            relay,
            to_server,
            output,
            sent_at,
            preliminary,
            spans,
            ..
        } = self;
        relay.answer_done(&mut output.bytes);
        if conn.input.is_empty() {
            return Ok(true);
        }
        let mut input = std::mem::take(&mut conn.input);
        let before = input.len();
        let taken = with_context(client, conn, |context| {
            relay.server_bytes(&mut input, context, &mut output.bytes, to_server)
        });
        client.budget.bytes(before.saturating_sub(input.len()));
        conn.input = input;
        let is_hidden = preliminary.as_ref().is_some_and(|first| first.fails);
        for error in relay.take_errors() {
            if is_hidden {
                continue;
            }
            if error.state == READ_ONLY {
                client.pool.suspect_primary();
            }
            client.pool.stats.failed(error.state);
            if let Some(spans) = spans {
                spans.failed(error);
            }
        }
        if let Some(spans) = spans {
            spans.answered(relay.answered(), client);
        }
        // Before the client gets the answer.
        client.pool.committed(*sent_at, relay.take_commits());
        if let Some(ddl) = relay.take_ended_ddl() {
            client.pool.shared.ddl_ended(ddl);
        }
        if relay.has_accepted_many() {
            client.pool.add_accepted(&relay.take_accepted());
        }
        match taken {
            Ok(more) => Ok(!more),
            Err(error) => Err((ServerDisposal::Close, ClientEnd::Wire(error))),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), (ServerDisposal, ClientEnd)> {
        // If a write fails, the next read fails, too, and its error says more.
        let written = self.conn.stream.write_now(&mut self.to_server);
        if written.is_err() {
            self.to_server.clear();
        }
        if self.client_end.is_none()
            && let Err(error) = self.client.stream.write_part(&mut self.output.bytes)
        {
            self.client_end = Some(error.into());
        }
        if self.client_end.is_some() {
            self.output.drop_messages();
        }
        self.output.release_shared();
        Ok(())
    }

    /// Waits until client or server can be read or written, and reads.
    pub(super) async fn wait(&mut self) -> Result<(), (ServerDisposal, ClientEnd)> {
        let phase = self.phase();
        self.update_timers(phase);
        // Between two requests of a transaction.
        let quiet = self.relay.is_quiet() && self.to_server.is_empty();
        if quiet {
            self.exclusive = None;
            self.add_accepted();
            self.pause();
        }
        let wants_client = self.wants_client();
        let client_interest = interest(wants_client, !self.output.bytes.is_empty());
        let server_interest = interest(
            self.output.bytes.len() < BACKLOG_MAX,
            !self.to_server.is_empty(),
        );
        let client = ready(&self.client.stream, client_interest);
        let server = ready(&self.conn.stream, server_interest);
        // In session mode a client keeps its server connection until it disconnects.
        let signal = match self.client.mode {
            PoolMode::Session => DisconnectSignal::ShutDown,
            PoolMode::Transaction | PoolMode::Statement => DisconnectSignal::Closing,
        };
        let idle = phase == RelayPhase::Idle;
        // The server is not read, so that its end is not noticed.
        let is_blocked = self.output.bytes.len() >= BACKLOG_MAX;
        let signal = if idle {
            signal
        } else {
            DisconnectSignal::Killed
        };
        let disconnect = disconnected(&mut self.client.disconnect, signal);
        let notifications = notification_ready(self.client.listening.as_deref());
        let may_deliver = idle && self.output.bytes.is_empty();
        let expired = tokio::select! {
            biased;
            ready = server => {
                ready.map_err(|e| (ServerDisposal::Close, e.into()))?;
                None
            }
            ready = client => {
                self.client_end = ready.err().map(ClientEnd::from).or(self.client_end.take());
                None
            }
            end = disconnect, if idle || is_blocked => {
                let end = match idle {
                    true => self.after_output(end),
                    false => not_read(),
                };
                return Err((ServerDisposal::Close, end));
            }
            () = notifications, if may_deliver => return self.deliver(),
            why = QueryTimers::expired(&mut self.timers) => Some(why),
        };
        if quiet {
            self.stats.resume(clock::now(), self.relay.status());
            self.sent_at = self.client.pool.sent_at();
        }
        match expired {
            Some(why) => Err((ServerDisposal::Close, self.time_out(phase, why))),
            None => self.read(wants_client),
        }
    }

    fn update_timers(&mut self, phase: RelayPhase) {
        let idle_max = match phase {
            RelayPhase::Idle => self.client.idle_session_timeout(),
            RelayPhase::IdleInTransaction | RelayPhase::Running => Duration::ZERO,
        };
        if self.timers.is_none() && !idle_max.is_zero() {
            self.timers = Some(QueryTimers::new(&self.client.pool.settings()));
        }
        if let Some(timers) = &mut self.timers {
            timers.set_transactions_ended(self.relay.transactions_ended());
            timers.set_phase(phase, std::mem::take(&mut self.input.is_active), idle_max);
        }
    }

    fn pause(&mut self) {
        let (status, sent) = (self.relay.status(), self.relay.forwarded());
        let pool = &self.client.pool;
        if self.relay.take_new_pin() {
            pool.stats.pinned();
        }
        self.stats.pause(clock::now(), status, sent, pool);
        pool.stats.server_parsed(self.conn.side.take_parses());
        if let Some(spans) = &mut self.spans {
            spans.all_answered(self.relay.answered(), self.client);
        }
    }

    fn read(&mut self, wants_client: bool) -> Result<(), (ServerDisposal, ClientEnd)> {
        self.client.proxy.shared.busy_poll.message_received();
        if wants_client && let Err(error) = self.client.stream.read_now(&mut self.client.input) {
            self.client_end = Some(error.into());
        }
        if self.output.bytes.len() >= BACKLOG_MAX {
            return Ok(());
        }
        match self.conn.stream.read_now(&mut self.conn.input) {
            Ok(_) => Ok(()),
            Err(error) => self.server_lost(&error),
        }
    }

    /// Forwards the server's last messages; then the client's connection ends, as it would without Paceline.
    fn server_lost(&mut self, error: &io::Error) -> Result<(), (ServerDisposal, ClientEnd)> {
        tracing::debug!(%error, "server connection lost in a relay");
        while !self.take_server_input()? {}
        self.end_preliminary();
        let mut last = std::mem::take(&mut self.output.bytes);
        if !self.relay.is_fatal() {
            self.client.pool.stats.failed(*b"08006");
            last.extend_from_slice(&self.client.connection_lost());
        }
        Err((ServerDisposal::Close, ClientEnd::ServerLost(last.freeze())))
    }
}

fn interest(read: bool, write: bool) -> Option<Interest> {
    match (read, write) {
        (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
        (true, false) => Some(Interest::READABLE),
        (false, true) => Some(Interest::WRITABLE),
        (false, false) => None,
    }
}

/// Whether the buffer holds as much of a long message as Paceline reads of it. If the names in a Bind are longer, Paceline waits
/// for the whole message.
fn has_head(header: Header, input: &[u8]) -> bool {
    let head = input.get(HEADER_LEN..LONG_HEAD_BYTES);
    head.is_some_and(|head| header.tag != tag::BIND || BindNames::read(head).is_ok())
}

/// Waits for these events; without any, for ever.
async fn ready(stream: &paceline_net::Stream, interest: Option<Interest>) -> io::Result<()> {
    match interest {
        Some(interest) => stream.ready(interest).await.map(|_| ()),
        None => std::future::pending().await,
    }
}
