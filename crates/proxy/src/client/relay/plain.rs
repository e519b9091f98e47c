//! Single statements whose request and answer are forwarded as they are. Unless PostgreSQL's answer is an unusual one, there is no
//! [`RelayTask`] for them.

use super::context::with_context;
use super::input::SentRequest;
use super::stats::RelayStats;
use super::{RelayOutcome, RelayTask, ServerDisposal};
use crate::client::Client;
use crate::client::end::{ClientEnd, shut_down};
use crate::client::query_timers::QueryTimers;
use bytes::{Buf, BytesMut};
use paceline_batch::strategy::PlannedRequest;
use paceline_config::PoolMode;
use paceline_pool::server::ServerConn;
use paceline_relay::relay::{PlainQuery, Wrap};
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
        let query = self.start_plain(conn, planned, wrap).ok_or(None)?;
        let at = self.pool.sent_at();
        let mut rest = &*planned.bytes;
        // If the connection is lost, the relay finds that out.
        let _ = conn.stream.write_now(&mut rest);
        let len = planned.bytes.len() - rest.len();
        let sent = SentRequest { len, at };
        if !rest.is_empty() || conn.stream.readable().await.is_err() {
            return Err(Some(sent));
        }
        self.proxy.shared.busy_poll.message_received();
        let read = conn.stream.read_now(&mut conn.input);
        let commits = match read {
            Ok(true) => query.answered(&conn.input),
            Ok(false) | Err(_) => None,
        };
        let Some(commits) = commits else {
            return Err(Some(sent));
        };
        // Before the client gets the answer.
        self.pool.committed(at, commits);
        Ok(self.end_plain(conn, planned, start))
    }

    /// Whether nothing but the answer of the server needs attention until the request ends, and how to read that.
    fn start_plain(
        &mut self,
        conn: &mut ServerConn,
        planned: &PlannedRequest,
        wrap: Wrap,
    ) -> Option<PlainQuery> {
        let may = wrap == Wrap::No
            && self.mode != PoolMode::Session
            && self.listening.is_none()
            && conn.input.is_empty()
            && !self.budget.is_exhausted()
            && !QueryTimers::are_needed(self.pool_settings.load());
        if !may {
            return None;
        }
        let query = with_context(self, conn, |context| PlainQuery::start(planned, context))?;
        conn.info.request_begins(self.proxy.shared.clock.seconds());
        Some(query)
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
        let at = Instant::now();
        stats.end(at, forwarded as u64, &self.pool);
        self.registration.entry.set_settings(&self.session.settings);
        RelayOutcome {
            to_client,
            end: end.map(ClientEnd::from),
            awaited_end: None,
            failed: false,
            forwarded: forwarded as u64,
            at,
            unanalyzed: None,
        }
    }
}

impl RelayTask<'_> {
    /// The server has received the first request, which the relay must not send again.
    ///
    /// # Errors
    /// The relay would send other bytes, which cannot be.
    pub(super) fn skip_sent(
        &mut self,
        SentRequest { len, at }: SentRequest,
    ) -> Result<(), (ServerDisposal, ClientEnd)> {
        self.sent_at = at;
        let request = self.input.pending.clone();
        self.take_pending();
        let is_same = self.to_server == request;
        if !is_same {
            return Err((ServerDisposal::Close, shut_down()));
        }
        self.to_server.advance(len);
        Ok(())
    }
}
