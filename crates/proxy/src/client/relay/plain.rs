//! Single statements whose request and answer are forwarded as they are. Unless PostgreSQL's answer is an unusual one, there is no
//! [`RelayTask`] for them.

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
        let mut rest = &*messages;
        // If the connection is lost, the relay finds that out.
        let _ = conn.stream.write_now(&mut rest);
        let len = messages.len() - rest.len();
        let is_sent = rest.is_empty();
        let sent = SentRequest { messages, len, at };
        if !is_sent || conn.stream.readable().await.is_err() {
            return Err(Some(sent));
        }
        self.proxy.shared.busy_poll.message_received();
        let Ok(true) = conn.stream.read_now(&mut conn.input) else {
            return Err(Some(sent));
        };
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
