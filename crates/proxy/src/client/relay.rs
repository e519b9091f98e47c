//! Relays messages between a client and one server connection until the relay is over. This file holds the state of a relay and its
//! loop; the protocol state is in `paceline_relay`, without sockets.
//!
//! `connection` holds the steps before and after a relay: the client's settings on the server connection, and its return to the pool.
//! `plain` forwards most single statements without a relay. `start` starts a relay; `begin` starts one in a deferred transaction, with
//! `preliminary` statements before the request. `flow` moves bytes, from `input` and to `output`. `listening` waits for notifications.
//! `spans` ends the spans of requests. `ending` ends a relay whose client has disconnected or exceeds a limit. `stats` counts. `context` passes client and server connection
//! to the protocol state.

mod begin;
mod connection;
mod context;
mod ending;
mod flow;
mod input;
mod listening;
mod output;
mod plain;
mod preliminary;
mod spans;
mod start;
mod stats;

pub(super) use connection::SingleRequest;

use super::Client;
use super::end::ClientEnd;
use super::query_timers::QueryTimers;
use bytes::{Bytes, BytesMut};
use input::{Blocked, ClientInput, SentRequest};
use output::ClientOutput;
use paceline_cluster::SentAt;
use paceline_pool::clock;
use paceline_pool::pools::Exclusive;
use paceline_pool::server::ServerConn;
use paceline_relay::relay::RelayState;
use preliminary::Preliminary;
use spans::RelaySpans;
use stats::RelayStats;
use std::time::Instant;

/// Maximum number of bytes buffered for a peer that does not read; while they are buffered, the other peer is not read.
const BACKLOG_MAX: usize = 256 * 1024;

/// The end of an answer that waits for notifications, after the server connection was returned.
struct AwaitedEnd {
    ready: Bytes,
    /// Whether the client's `DISCARD ALL` was executed.
    unlistens_all: bool,
}

/// A relay in progress.
struct RelayTask<'a> {
    client: &'a mut Client,
    conn: &'a mut ServerConn,
    /// The protocol state, without sockets. Boxed because it is large, and a new relay is moved several times.
    relay: Box<RelayState>,
    stats: RelayStats,
    /// The position of the primary that was known last when the first of the requests without an answer was sent.
    sent_at: SentAt,
    /// `None` without time limits.
    timers: Option<Box<QueryTimers>>,
    input: ClientInput,
    /// The statements before the client's request, until the server has answered them.
    preliminary: Option<Box<Preliminary>>,
    to_server: BytesMut,
    /// Whether the server was asked for the answers that it keeps.
    flush_sent: bool,
    output: ClientOutput,
    /// Set when the client has sent Terminate or disconnected.
    client_end: Option<ClientEnd>,
    /// The first request, while it may have to be sent again.
    repeatable: Option<Bytes>,
    /// The rest of the answer, which waits for notifications. The relay is over.
    awaited_end: Option<AwaitedEnd>,
    /// Exists while a statement runs that needs a database without other sessions.
    exclusive: Option<Box<Exclusive>>,
    /// `None` if nothing is traced.
    spans: Option<Box<RelaySpans>>,
}

/// The treatment of the server connection when a relay fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerDisposal {
    /// Resets the session; then another client may use the connection.
    Reset,
    /// Closes the connection.
    Close,
}

/// Result of a relay on the client's side.
struct RelayOutcome {
    /// Messages that the client's socket has not taken yet.
    to_client: BytesMut,
    end: Option<ClientEnd>,
    awaited_end: Option<AwaitedEnd>,
    failed: bool,
    forwarded: u64,
    at: Instant,
}

impl<'a> RelayTask<'a> {
    fn new(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        relay: RelayState,
        start: Instant,
    ) -> Self {
        Self {
            spans: RelaySpans::start(client),
            timers: QueryTimers::of(client.pool_settings.load()),
            sent_at: client.pool.sent_at(),
            output: ClientOutput::new(conn.buffers.take_to_client()),
            client,
            conn,
            relay: Box::new(relay),
            stats: RelayStats::new(start),
            input: ClientInput::default(),
            preliminary: None,
            to_server: BytesMut::new(),
            flush_sent: false,
            client_end: None,
            repeatable: None,
            awaited_end: None,
            exclusive: None,
        }
    }

    /// Sends the first request again if its plan was stale. The client has got nothing that a new answer could contradict.
    fn repeat(&mut self) {
        if self.relay.take_retry()
            && let Some(request) = self.repeatable.take()
        {
            self.input.set_first(request);
            if let Some(spans) = &mut self.spans {
                spans.repeat();
            }
        }
    }

    /// `sent`: the first request, if the server has received it.
    async fn run_to_end(
        &mut self,
        sent: Option<SentRequest>,
    ) -> Result<RelayOutcome, (ServerDisposal, ClientEnd)> {
        if let Some(sent) = sent {
            // Boxed, because its state would be part of every relay.
            Box::pin(self.skip_sent(sent)).await?;
        }
        self.conn
            .info
            .request_begins(self.client.proxy.shared.clock.seconds());
        let relayed = self.run().await;
        let at = self.count();
        if let Some(spans) = self.spans.take() {
            spans.end(self.client, relayed.as_ref().err().map(|(_, end)| end));
        }
        self.add_accepted();
        if let Some(ddl) = self.relay.open_ddl() {
            self.client.pool.shared.ddl_ended(ddl);
        }
        for lost in self.relay.warned() {
            let address = self.client.pool.address();
            tracing::warn!(
                database = %address.database,
                user = %address.user,
                "{lost} is lost at the end of the transaction (session_state = warn)"
            );
        }
        relayed?;
        let mut to_client = std::mem::take(&mut self.output.bytes);
        if to_client.is_empty() {
            let to_server = std::mem::take(&mut self.to_server);
            let kept = std::mem::take(&mut to_client);
            self.conn.buffers.keep(to_server, kept);
        }
        Ok(RelayOutcome {
            to_client,
            end: self.client_end.take(),
            awaited_end: self.awaited_end.take(),
            failed: self.relay.saw_error(),
            forwarded: self.relay.forwarded(),
            at,
        })
    }

    /// Adds the statements that PostgreSQL has accepted to those of the pool.
    fn add_accepted(&mut self) {
        let accepted = self.relay.take_accepted();
        if !accepted.is_empty() {
            self.client.pool.add_accepted(&accepted);
        }
    }

    /// Counts the relay at its end; returns the time of that.
    fn count(&mut self) -> Instant {
        let now = clock::now();
        let (client, pool) = (&*self.client, &self.client.pool);
        let stats = std::mem::replace(&mut self.stats, RelayStats::new(now));
        stats.end(now, self.relay.forwarded(), pool);
        pool.stats.server_parsed(self.conn.side.take_parses());
        self.conn.info.set_prepared(self.conn.side.prepared());
        let entry = &client.registration.entry;
        entry.info.set_prepared(client.session.statements.named());
        entry.set_settings(&client.session.settings);
        now
    }

    /// Relays until the relay is over, or client or server is disconnected.
    async fn run(&mut self) -> Result<(), (ServerDisposal, ClientEnd)> {
        loop {
            self.take_client_input()
                .map_err(|end| (ServerDisposal::Close, end))?;
            let needs_client = self.wants_client();
            let all_taken = self.take_server_input()?;
            self.continue_preliminary()?;
            if self.relay.awaits_notifications() {
                self.awaited_end = Box::pin(self.catch_up()).await;
                if self.awaited_end.is_some() {
                    return Ok(());
                }
                continue;
            }
            if self.relay.discard_failed() {
                return Err((
                    ServerDisposal::Close,
                    ClientEnd::Error(self.client.connection_lost()),
                ));
            }
            if self.begins_transaction() {
                return Err((ServerDisposal::Close, self.refuse_transaction()));
            }
            self.repeat();
            self.flush()?;
            if self.is_over() {
                return Ok(());
            }
            if let Some(blocked) = self.input.blocked.take() {
                match blocked {
                    Blocked::Parse(unparsed) => {
                        Box::pin(self.client.proxy.shared.parse(unparsed)).await;
                    }
                    Blocked::Listen(need) => Box::pin(self.use_shared_listen(need)).await,
                }
                continue;
            }
            if !all_taken || self.client.budget.is_exhausted() {
                // More input is available. Other tasks get their turn first.
                self.client.budget.yield_now().await;
                continue;
            }
            let has_pending = !self.input.pending.is_empty() && !self.relay.is_describing();
            if has_pending || (!needs_client && self.wants_client()) {
                // The buffer may hold messages that the relay can take now. The client may send no further ones before their answer.
                continue;
            }
            if self.client_end.is_some() && !self.can_finish_without_client() {
                let end = self.client_end.take().unwrap_or(ClientEnd::Left);
                return Err((self.disposal_after_session(), end));
            }
            self.wait().await?;
            while self.forward_plain().await? {
                self.wait().await?;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.to_server.is_empty() && self.is_over_so_far()
    }

    /// Whether the relay is over, apart from bytes for the server. The next message of the client begins another relay.
    fn is_over_so_far(&self) -> bool {
        !self.input.is_incomplete() && self.relay.is_over()
    }

    /// Whether the relay continues after the client has disconnected. As in PostgreSQL, which notices that only when its socket
    /// is full, a complete request is executed to its end. An open transaction or an incomplete request is discarded with the
    /// server connection.
    fn can_finish_without_client(&self) -> bool {
        !self.relay.awaits_client()
            && self.input.body.left == 0
            && self.output.dropped <= BACKLOG_MAX
    }

    /// Whether the relay needs further messages of the client now.
    fn wants_client(&self) -> bool {
        self.client_end.is_none()
            && !self.server_is_full()
            && !self.relay.owes_many_answers()
            && (self.relay.awaits_client() || self.input.body.left > 0)
    }
}
