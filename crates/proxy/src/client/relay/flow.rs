//! Moves bytes between client and server: reads from one, writes to the other, and waits for either.

use super::{BACKLOG_MAX, Fate, RelayTask, with_context, with_context_knowing};
use crate::client::end::{End, disconnected};
use crate::client::query_timers::{Phase, QueryTimers};
use crate::shared_listen::mail;
use bytes::{Buf, Bytes, BytesMut};
use paceline_config::PoolMode;
use paceline_pool::address::DatabaseAddress;
use paceline_pool::pool::DisconnectSignal;
use paceline_pool::pools::Exclusive;
use paceline_relay::relay::{NotYet, RelayState};
use paceline_relay::request::{LONG_HEAD_BYTES, is_long};
use paceline_relay::template::Unparsed;
use paceline_wire::frame::HEADER_LEN;
use paceline_wire::frontend::{BindNames, read_header, tag, write_flush};
use paceline_wire::{Frame, Frames, Header};
use std::io;
use std::time::{Duration, Instant};
use tokio::io::Interest;

impl RelayTask<'_> {
    /// Whether the server does not take bytes as fast as the client sends them.
    pub(super) fn has_no_room(&self) -> bool {
        self.to_server.len() >= BACKLOG_MAX
    }

    /// Takes messages of the client until the relay needs no more, the buffer is used up, or the client's turn is over.
    pub(super) fn take_client_input(&mut self) -> Result<(), End> {
        self.take_pending();
        while self.may_take() && self.wants_client() && !self.is_over_so_far() {
            if self.body_left > 0 {
                if !self.take_body() {
                    break;
                }
                continue;
            }
            let input = &mut self.client.input;
            let Some(header) = read_header(input)? else {
                break;
            };
            if header.tag == tag::COPY_DATA {
                (self.body_left, self.body_goes) = (header.len, true);
                continue;
            }
            // While the client listens, the whole text is needed: LISTEN and UNLISTEN in it concern the shared connection, too.
            let is_whole = header.tag == tag::QUERY && self.client.listening.is_some();
            if is_long(header) && !is_whole && has_head(header, input) {
                match self.begin_long(header) {
                    Ok(()) => continue,
                    Err(NotYet::Unparsed(unparsed)) => self.unparsed = Some(unparsed),
                    Err(NotYet::Listening(need)) => self.unheard = Some(need),
                    Err(NotYet::Describing) => {}
                }
                break;
            }
            if input.len() < header.len {
                break;
            }
            self.heard = true;
            if header.tag == tag::TERMINATE {
                self.client_end = Some(End::Left);
                break;
            }
            let message = input.split_to(header.len).freeze();
            self.goes_on();
            self.pending = message;
            self.pending_is_first = false;
            self.take_pending();
        }
        self.ask_for_answers();
        Ok(())
    }

    /// The client sends more. A cancel request for its previous request must not hit this one.
    fn goes_on(&mut self) {
        if std::mem::take(&mut self.is_first) {
            self.client.registration.entry.relays_on();
        }
        self.relay.goes_on();
    }

    /// Whether the client's turn goes on and its next message can be handled now.
    fn may_take(&self) -> bool {
        !self.client.turn.is_over() && self.pending.is_empty() && !self.is_held()
    }

    /// Whether the next message must wait for something other than the server.
    fn is_held(&self) -> bool {
        self.unparsed.is_some() || self.unheard.is_some()
    }

    /// Passes complete messages to the relay.
    fn take_pending(&mut self) {
        while !self.client.turn.is_over() && !self.pending.is_empty() && !self.is_held() {
            let len = Frames::new(&self.pending).next().map(|f| f.bytes.len());
            let message = self.pending.slice(..len.unwrap_or(self.pending.len()));
            match self.take_message(&message) {
                Ok(()) => self.pending.advance(message.len()),
                Err(NotYet::Unparsed(unparsed)) => self.unparsed = Some(unparsed),
                Err(NotYet::Listening(need)) => self.unheard = Some(need),
                Err(NotYet::Describing) => break,
            }
        }
    }

    fn take_message(&mut self, message: &Bytes) -> Result<(), NotYet> {
        if !self.pending_is_first {
            self.begin_if_targeted(message)?;
        }
        let templates = &self.client.proxy.shared.templates;
        let parses = templates.parses();
        let Some(frame) = Frames::new(message).next() else {
            return Ok(());
        };
        let known = self.known.take();
        let Self {
            client,
            conn,
            relay,
            meter,
            to_server,
            ..
        } = self;
        let status = relay.status();
        with_context_knowing(client, conn, known.as_ref(), |context| {
            relay.client_message(frame, context, to_server)
        })?;
        self.begins = false;
        meter.message(frame, status);
        client.turn.message(frame.tag, frame.bytes.len());
        if parses != client.proxy.shared.templates.parses() {
            client.turn.all();
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
        let input = &mut self.client.input;
        let here = input.split_to(input.len().min(self.body_left));
        if here.is_empty() {
            return false;
        }
        self.body_left -= here.len();
        self.heard = true;
        self.meter.copied(here.len());
        self.client.turn.bytes(here.len());
        if self.body_goes {
            self.to_server.extend_from_slice(&here);
        }
        true
    }

    /// Takes the beginning of a long message; the rest follows as a body.
    ///
    /// # Errors
    ///
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
        self.goes_on();
        if RelayState::is_long_targeted(frame, &self.client.session) {
            self.begin_transaction();
        }
        let Self {
            client,
            conn,
            relay,
            meter,
            to_server,
            ..
        } = self;
        let status = relay.status();
        self.body_goes = with_context(client, conn, |context| {
            relay.long_message(frame, header.len, context, to_server)
        })?;
        client.input.advance(head.len());
        meter.message(frame, status);
        client.turn.message(header.tag, head.len());
        self.body_left = header.len - head.len();
        (self.heard, self.begins) = (true, false);
        Ok(())
    }

    /// Asks a server that owes many answers to send those that it keeps until the client waits.
    fn ask_for_answers(&mut self) {
        let owes_much = self.relay.owes_much();
        if owes_much && !self.flushed {
            write_flush(&mut self.to_server);
        }
        self.flushed = owes_much;
    }

    /// Begins a transaction if the client is in none and its next statement must affect an exact number of rows. (The first
    /// request of the relay was checked before the relay.)
    fn begin_if_targeted(&mut self, message: &Bytes) -> Result<(), Unparsed> {
        let templates = &self.client.proxy.shared.templates;
        let may = self.relay.rests() || self.relay.is_within_unit();
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
        if relay.rests() {
            with_context(client, conn, |context| {
                relay.begin_transaction(context, to_server)
            });
        } else if relay.is_within_unit() {
            relay.begin_within_unit(to_server);
        }
    }

    /// Passes the server's messages to the relay. Returns false if more of them remain.
    pub(super) fn take_server_input(&mut self) -> Result<bool, (Fate, End)> {
        let Self {
            client,
            conn,
            relay,
            to_server,
            to_client,
            ..
        } = self;
        let mut input = std::mem::take(&mut conn.input);
        let before = input.len();
        let taken = with_context(client, conn, |context| {
            relay.answer_done(to_client);
            relay.server_bytes(&mut input, context, to_client, to_server)
        });
        if before > 0 {
            client.turn.bytes(before.saturating_sub(input.len()));
        }
        conn.input = input;
        for state in relay.take_errors() {
            client.pool.stats.failed(state);
        }
        if relay.has_accepted_many() {
            client.pool.add_accepted(&relay.take_accepted());
        }
        match taken {
            Ok(more) => Ok(!more),
            Err(error) => Err((Fate::Drop, End::Wire(error))),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), (Fate, End)> {
        // If a write fails, the next read fails, too, and its error says more.
        let written = self.conn.stream.write_now(&mut self.to_server);
        if written.is_err() {
            self.to_server.clear();
        }
        if self.client_end.is_none()
            && let Err(error) = self.client.stream.write_part(&mut self.to_client)
        {
            self.client_end = Some(error.into());
        }
        if self.client_end.is_some() {
            self.unread += self.to_client.len();
            self.to_client.clear();
        }
        if self.to_client.is_empty() && self.room.take().is_some() {
            // The memory of an answer that was taken over is released with its reservation; buffers are reused otherwise.
            self.to_client = BytesMut::new();
        }
        Ok(())
    }

    /// Waits until client or server can be read or written, and reads.
    pub(super) async fn wait(&mut self) -> Result<(), (Fate, End)> {
        let phase = self.phase();
        self.turn_clock(phase);
        // Between two requests of a transaction.
        let quiet = self.relay.is_quiet() && self.to_server.is_empty();
        if quiet {
            self.exclusive = None;
            self.note_accepted();
            self.pause();
        }
        let wants_client = self.wants_client();
        let client_interest = interest(wants_client, !self.to_client.is_empty());
        let server_interest = interest(
            self.to_client.len() < BACKLOG_MAX,
            !self.to_server.is_empty(),
        );
        let client = ready(&self.client.stream, client_interest);
        let server = ready(&self.conn.stream, server_interest);
        // In session mode a client keeps its server connection until it disconnects.
        let call = match self.client.mode {
            PoolMode::Session => DisconnectSignal::ShutDown,
            PoolMode::Transaction | PoolMode::Statement => DisconnectSignal::Closing,
        };
        let disconnect = disconnected(&mut self.client.disconnect, call);
        let idle = phase == Phase::Idle;
        let mail = mail(self.client.listening.as_deref());
        let hears = idle && self.to_client.is_empty();
        let up = tokio::select! {
            biased;
            ready = server => {
                ready.map_err(|e| (Fate::Drop, e.into()))?;
                None
            }
            ready = client => {
                self.client_end = ready.err().map(End::from).or(self.client_end.take());
                None
            }
            end = disconnect, if idle => return Err((Fate::Drop, end)),
            () = mail, if hears => return self.deliver(),
            why = QueryTimers::is_up(&mut self.clock) => Some(why),
        };
        if quiet {
            self.meter.go_on(Instant::now(), self.relay.status());
        }
        match up {
            Some(why) => Err((Fate::Drop, self.time_is_up(phase, why))),
            None => self.read(wants_client),
        }
    }

    fn turn_clock(&mut self, phase: Phase) {
        let idle_max = match phase {
            Phase::Idle => self.client.idle_session_timeout(),
            Phase::IdleInTransaction | Phase::Running => Duration::ZERO,
        };
        if self.clock.is_none() && !idle_max.is_zero() {
            self.clock = Some(QueryTimers::new(&self.client.pool.settings()));
        }
        if let Some(clock) = &mut self.clock {
            clock.turn(phase, std::mem::take(&mut self.heard), idle_max);
        }
    }

    fn pause(&mut self) {
        let (status, sent) = (self.relay.status(), self.relay.forwarded());
        let pool = &self.client.pool;
        if self.relay.take_pin() {
            pool.stats.pinned();
        }
        self.meter.pause(Instant::now(), status, sent, pool);
        pool.stats.server_parsed(self.conn.side.take_parses());
    }

    fn read(&mut self, wants_client: bool) -> Result<(), (Fate, End)> {
        self.client.proxy.shared.busy_poll.message_received();
        if wants_client && let Err(error) = self.client.stream.read_now(&mut self.client.input) {
            self.client_end = Some(error.into());
        }
        if self.to_client.len() >= BACKLOG_MAX {
            return Ok(());
        }
        match self.conn.stream.read_now(&mut self.conn.input) {
            Ok(_) => Ok(()),
            Err(error) => self.server_is_gone(&error),
        }
    }

    /// Forwards the server's last messages; then the client's connection ends, as it would without Paceline.
    fn server_is_gone(&mut self, error: &io::Error) -> Result<(), (Fate, End)> {
        tracing::debug!(%error, "server connection lost in a relay");
        while !self.take_server_input()? {}
        let mut told = std::mem::take(&mut self.to_client);
        if !self.relay.is_fatal() {
            self.client.pool.stats.failed(*b"08006");
            told.extend_from_slice(&self.client.lost());
        }
        Err((Fate::Drop, End::Lost(told.freeze())))
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
