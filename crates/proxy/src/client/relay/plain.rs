//! Single statements whose request and answer are forwarded as they are. Unless PostgreSQL's answer is an unusual one, there is no
//! [`RelayTask`] for them in autocommit, and it does little in a transaction.

use super::context::with_context;
use super::input::{Blocked, SentRequest};
use super::stats::RelayStats;
use super::{RelayOutcome, RelayTask, ServerDisposal};
use crate::client::Client;
use crate::client::end::ClientEnd;
use crate::client::query_timers::QueryTimers;
use crate::client::work_budget::WorkBudget;
use bytes::{Buf, BytesMut};
use paceline_batch::strategy::PlannedRequest;
use paceline_config::PoolMode;
use paceline_pool::clock;
use paceline_pool::server::ServerConn;
use paceline_relay::relay::{PlainStatement, RelayContext, Wrap};
use paceline_wire::Frames;
use paceline_wire::backend::Status;
use std::time::Instant;

impl Client {
    /// Relays a single statement whose answer is likely to be forwarded as it is.
    ///
    /// # Errors
    /// A relay must process the statement, or only its answer if the server has received it.
    pub(super) async fn relay_plain(
        &mut self,
        conn: &mut ServerConn,
        planned: &PlannedRequest,
        wrap: Wrap,
        start: Instant,
    ) -> Result<RelayOutcome, Option<SentRequest>> {
        let mut messages = conn.buffers.take_to_server();
        let Some(statement) = self.start_plain(conn, planned, wrap, &mut messages) else {
            conn.buffers.keep_to_server(messages);
            return Err(None);
        };
        let at = self.pool.sent_at();
        let (len, has_arrived) = self.exchange(conn, &messages).await;
        let sent = SentRequest { messages, len, at };
        if !has_arrived {
            return Err(Some(sent));
        }
        let answer = std::mem::take(&mut conn.input);
        let commits = with_context(self, conn, |context| statement.answered(&answer, context));
        conn.input = answer;
        let Some(commits) = commits else {
            return Err(Some(sent));
        };
        // Before the client gets the answer.
        self.pool.committed(at, commits);
        let SentRequest { mut messages, .. } = sent;
        messages.clear();
        conn.buffers.keep_to_server(messages);
        Ok(self.end_plain(conn, planned, start))
    }

    /// Sends messages and reads an answer. Returns the number of bytes that were sent, and whether anything has arrived. If the connection
    /// is lost, the relay finds that out.
    async fn exchange(&self, conn: &mut ServerConn, messages: &[u8]) -> (usize, bool) {
        let mut rest = messages;
        let _ = conn.stream.write_now(&mut rest);
        let has_arrived = rest.is_empty()
            && conn.stream.readable().await.is_ok()
            && matches!(conn.stream.read_now(&mut conn.input), Ok(true));
        if has_arrived {
            self.proxy.shared.busy_poll.message_received();
        }
        (messages.len() - rest.len(), has_arrived)
    }

    /// Whether nothing but the answer of the server needs attention until the request ends, and what the server receives.
    fn start_plain(
        &mut self,
        conn: &mut ServerConn,
        planned: &PlannedRequest,
        wrap: Wrap,
        out: &mut BytesMut,
    ) -> Option<PlainStatement> {
        let may = wrap == Wrap::No
            && self.mode != PoolMode::Session
            && self.listening.is_none()
            && conn.input.is_empty()
            && !self.budget.is_exhausted()
            && !QueryTimers::are_needed(self.pool_settings.load());
        if !may {
            return None;
        }
        let start = |context: &mut RelayContext<'_>| PlainStatement::start(planned, context, out);
        let statement = with_context(self, conn, start)?;
        conn.info.request_begins(self.proxy.shared.clock.seconds());
        Some(statement)
    }

    /// Sends the answer to the client, as far as the client's socket takes it, and counts the request.
    fn end_plain(
        &mut self,
        conn: &mut ServerConn,
        planned: &PlannedRequest,
        start: Instant,
    ) -> RelayOutcome {
        let forwarded = conn.input.len();
        self.budget.bytes(forwarded);
        let end = self.stream.write_part(&mut conn.input).err();
        if end.is_some() {
            conn.input.clear();
        }
        let to_client = match conn.input.is_empty() {
            true => BytesMut::new(),
            false => std::mem::take(&mut conn.input),
        };
        let mut stats = RelayStats::new(start);
        for frame in Frames::new(&planned.bytes) {
            stats.message(frame, Status::Idle);
            self.budget.message(frame.tag, frame.bytes.len());
        }
        let at = clock::now();
        stats.end(at, forwarded as u64, &self.pool);
        self.registration.entry.set_settings(&self.session.settings);
        RelayOutcome {
            to_client,
            end: end.map(ClientEnd::from),
            awaited_end: None,
            failed: false,
            forwarded: forwarded as u64,
            at,
        }
    }
}

impl RelayTask<'_> {
    /// Forwards what the client has sent, and the answer, if it is a plain statement of an open transaction. Returns false if the relay
    /// must process the client's messages or the answer.
    pub(super) async fn forward_plain(&mut self) -> Result<bool, (ServerDisposal, ClientEnd)> {
        let Some(statement) = self.start_plain() else {
            return Ok(false);
        };
        let (len, has_arrived) = self.client.exchange(self.conn, &self.to_server).await;
        if has_arrived && self.plain_answered(statement) {
            // The relay ends if the client has disconnected.
            return Ok(self.client_end.is_none());
        }
        let sent = SentRequest {
            messages: std::mem::take(&mut self.to_server),
            len,
            at: self.sent_at,
        };
        let request = self.client.input.split().freeze();
        self.input.set_message(request);
        // Boxed because it is rare: its state would be part of every relay.
        Box::pin(self.skip_sent(sent)).await?;
        Ok(false)
    }

    /// Whether nothing but the answer of the server needs attention until the request ends. Then `to_server` has what the server receives.
    fn start_plain(&mut self) -> Option<PlainStatement> {
        let may = self.client_end.is_none()
            && self.conn.input.is_empty()
            && self.to_server.is_empty()
            && self.output.bytes.is_empty()
            && self.preliminary.is_none()
            && self.timers.is_none()
            && self.spans.is_none()
            && self.client.listening.is_none()
            && !self.input.is_incomplete()
            && !self.client.budget.is_exhausted();
        if !may {
            return None;
        }
        let parses = self.client.proxy.shared.templates.parses();
        let messages = std::mem::take(&mut self.client.input);
        let Self {
            client,
            conn,
            relay,
            to_server,
            ..
        } = self;
        let statement = with_context(client, conn, |context| {
            relay.start_plain(&messages, context, to_server)
        });
        self.client.input = messages;
        if parses != self.client.proxy.shared.templates.parses() {
            self.client.budget.exhaust();
        }
        if statement.is_some() {
            self.note_further_message();
        }
        statement
    }

    /// Sends the answer to the client, as far as the client's socket takes it, and counts the request. Returns false if it is not one that
    /// can be forwarded as it is.
    fn plain_answered(&mut self, statement: PlainStatement) -> bool {
        let Self {
            client,
            conn,
            relay,
            stats,
            ..
        } = self;
        let mut answer = std::mem::take(&mut conn.input);
        let is_plain = with_context(client, conn, |context| {
            relay.plain_answered(statement, &answer, context)
        });
        if !is_plain {
            conn.input = answer;
            return false;
        }
        client.budget.bytes(answer.len());
        if let Err(error) = client.stream.write_part(&mut answer) {
            self.client_end = Some(error.into());
            answer.clear();
        }
        for frame in Frames::new(&client.input) {
            stats.message(frame, Status::Transaction);
            client.budget.message(frame.tag, frame.bytes.len());
        }
        client.input.clear();
        self.to_server.clear();
        match answer.is_empty() {
            true => conn.input = answer,
            false => self.output.bytes = answer,
        }
        true
    }

    /// The server has received the first request: has the relay take it as a whole, and not send it again.
    ///
    /// # Errors
    /// The relay would send other bytes; the outcome of the request is not known.
    pub(super) async fn skip_sent(
        &mut self,
        SentRequest { messages, len, at }: SentRequest,
    ) -> Result<(), (ServerDisposal, ClientEnd)> {
        self.sent_at = at;
        let mut turn = WorkBudget::default();
        loop {
            let left = self.input.pending.len();
            // Even if the client's turn ends within the request.
            turn.add(std::mem::take(&mut self.client.budget));
            self.take_pending();
            match self.input.blocked.take() {
                // Its template was dropped meanwhile.
                Some(Blocked::Parse(unparsed)) => self.client.proxy.shared.parse(unparsed).await,
                Some(Blocked::Listen(_)) => break,
                None if left == self.input.pending.len() => break,
                None => {}
            }
        }
        self.client.budget.add(turn);
        if self.to_server != messages {
            let error = ClientEnd::Error(self.client.connection_lost());
            return Err((ServerDisposal::Close, error));
        }
        self.to_server.advance(len);
        Ok(())
    }
}
