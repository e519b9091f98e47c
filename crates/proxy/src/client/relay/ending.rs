//! Ends a relay before its client disconnects in order, and disposes of the server connection when a session ends.

use super::{RelayTask, ServerDisposal};
use crate::client::Client;
use crate::client::end::ClientEnd;
use crate::client::idle_timer::idle_session;
use crate::client::query_timers::{IDLE_SESSION, RelayPhase};
use bytes::Bytes;
use paceline_config::PoolMode;
use paceline_net::optional_timeout;
use paceline_pool::close_reason;
use paceline_pool::messages;
use paceline_pool::pool::PooledServer;
use paceline_pool::server;
use paceline_wire::backend::{Status, tag};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a ReadyForQuery.
const READY_FOR_QUERY_LEN: usize = 6;

/// Maximum time for `server_reset_query`; after it the connection is closed.
const RESET_MAX: Duration = Duration::from_secs(10);

impl Client {
    /// Resets the connection of a client that has left, in the background, so that another client can use it.
    pub(super) fn end_session(&self, mut server: Box<PooledServer>) {
        let proxy = Arc::clone(&self.proxy);
        tokio::spawn(async move {
            let Some(conn) = server.conn() else {
                return;
            };
            let query = proxy.config().paceline.pooling.server_reset_query.clone();
            let reset = optional_timeout(
                RESET_MAX,
                conn.reset(&query, proxy.shared.settings_interner.none()),
            )
            .await;
            if !matches!(reset, Some(Ok(()))) {
                conn.closes_because(close_reason::RESET_FAILED);
            }
            match reset {
                Some(Ok(())) => server.give_back(),
                Some(Err(error)) => tracing::warn!(%error, "server_reset_query failed"),
                None => tracing::warn!("server_reset_query took too long"),
            }
        });
    }
}

impl RelayTask<'_> {
    /// Whether a request left a transaction open although the pool mode is `statement`.
    pub(super) fn begins_transaction(&self) -> bool {
        let open = self.relay.is_quiet() && self.relay.status() != Status::Idle;
        self.client.mode == PoolMode::Statement && open
    }

    pub(super) fn refuse_transaction(&mut self) -> ClientEnd {
        // The error replaces ReadyForQuery, so that the client takes it for the answer to its request.
        let ready = self.output.bytes.len().saturating_sub(READY_FOR_QUERY_LEN);
        if self.output.bytes.get(ready) == Some(&tag::READY_FOR_QUERY) {
            self.output.bytes.truncate(ready);
        }
        self.end_with("transaction blocks not allowed in statement pooling mode")
    }

    /// The treatment of the server connection if the client leaves during a relay or at the end of its session.
    pub(super) fn disposal_after_session(&self) -> ServerDisposal {
        let config = self.client.proxy.config();
        let all = server::is_discard_all(&config.paceline.pooling.server_reset_query);
        let is_idle = self.relay.is_quiet() && self.relay.status() == Status::Idle;
        let session = self.client.mode == PoolMode::Session && !self.relay.is_fatal();
        // Queries other than DISCARD ALL may leave temporary tables and similar state.
        let clean = all || self.relay.pinned_for().is_empty();
        match session && is_idle && clean && self.to_server.is_empty() && self.input.body.left == 0
        {
            true => ServerDisposal::Reset,
            false => ServerDisposal::Close,
        }
    }

    /// Ends the client's connection for this reason, after the bytes that it has not received yet.
    pub(super) fn end_with(&mut self, why: &str) -> ClientEnd {
        // In the middle of a message no other message can be sent.
        let message = match why {
            _ if self.relay.is_mid_message() => Bytes::new(),
            IDLE_SESSION => idle_session(),
            why => messages::timed_out(why),
        };
        self.after_output(ClientEnd::Error(message))
    }

    /// This end, after the bytes that the client has not received yet.
    pub(super) fn after_output(&mut self, end: ClientEnd) -> ClientEnd {
        match end {
            ClientEnd::Error(message) => {
                let mut last = std::mem::take(&mut self.output.bytes);
                last.extend_from_slice(&message);
                ClientEnd::Error(last.freeze())
            }
            end => end,
        }
    }

    pub(super) fn phase(&self) -> RelayPhase {
        match (self.relay.is_quiet(), self.relay.status()) {
            (false, _) => RelayPhase::Running,
            (true, Status::Idle) => RelayPhase::Idle,
            (true, _) => RelayPhase::IdleInTransaction,
        }
    }

    /// Ends a relay whose time is over. The server gets a cancel request: without one it would continue until it next writes to
    /// the socket.
    pub(super) fn time_out(&mut self, phase: RelayPhase, why: &'static str) -> ClientEnd {
        if phase != RelayPhase::Idle {
            self.conn.closes_because(why);
        }
        if phase == RelayPhase::Running {
            let config = self.client.proxy.config();
            let limit = config.paceline.timeouts.cancel_wait_timeout;
            server::abandon(self.conn.key.clone(), limit);
        }
        self.end_with(why)
    }
}
