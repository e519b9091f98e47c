//! Relays messages between a client and one server connection until the relay is over.

mod ending;
mod flow;
mod input;
mod listening;
mod output;
mod stats;

use super::Client;
use super::end::{ClientEnd, shut_down};
use super::query_timers::QueryTimers;
use crate::cancel::ClientState;
use bytes::{Bytes, BytesMut};
use input::{Blocked, ClientInput};
use output::ClientOutput;
use paceline_batch::line::ROW_AWAITED_MAX;
use paceline_batch::strategy::PlannedRequest;
use paceline_config::PoolMode;
use paceline_net::optional_timeout;
use paceline_pool::analysis::AnalysisTask;
use paceline_pool::messages;
use paceline_pool::pool::{DisconnectSignal, PooledServer, RowsInFlight, WaitResult};
use paceline_pool::pools::Exclusive;
use paceline_pool::result_memory::ResultReservation;
use paceline_pool::server::{ServerConn, ServerError, deliver};
use paceline_relay::relay::{RelayContext, RelayState, Wrap};
use paceline_relay::request::{PartialAnswer, RequestForm};
use paceline_relay::template::Template;
use paceline_sql::SequenceUse;
use paceline_wire::Frames;
use paceline_wire::backend::Status;
use paceline_wire::frontend::tag;
use stats::RelayStats;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of bytes buffered for a peer that does not read; while they are buffered, the other peer is not read.
const BACKLOG_MAX: usize = 256 * 1024;

/// Extra capacity for statement names, which are longer on servers than most clients' names.
const NAMES_BYTES: usize = 128;

/// How long a queue consumer that is relayed makes others of its queue wait, so that they form a group afterwards. They need not
/// wait for the locks that it waits for: without Paceline they would skip those rows.
const QUEUE_HELD_MAX: Duration = Duration::from_millis(20);

/// A single statement in autocommit that is relayed. Its duration is measured.
pub(super) struct SingleRequest {
    pub(super) request: Arc<PlannedRequest>,
    /// The analysis of its template, if this client has taken that on.
    pub(super) analysis: Option<AnalysisTask>,
}

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
    /// The protocol state, without sockets.
    relay: RelayState,
    stats: RelayStats,
    /// `None` without time limits.
    timers: Option<Box<QueryTimers>>,
    input: ClientInput,
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
}

/// What the client's task does with the server connection when a relay fails.
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

impl Client {
    /// Relays a request, and further ones until the relay is over. `single` is the request if it is a single statement.
    pub(super) async fn relay(
        &mut self,
        mut server: Box<PooledServer>,
        request: &Bytes,
        wrap: Wrap,
        single: Option<SingleRequest>,
    ) -> Result<(), ClientEnd> {
        let underway = server.take_underway();
        let settings = self.session.settings.as_ref();
        let has_settings = |conn: &mut ServerConn| conn.side.has(settings);
        if underway.is_none() && !server.conn().is_some_and(has_settings) {
            // Boxed because it is rare: its state would be part of every relay.
            server = match Box::pin(self.adopt_settings(server)).await? {
                Some(server) => server,
                None => return Ok(()),
            };
        }
        let Some((conn, rows)) = server.parts() else {
            return Err(shut_down());
        };
        let entry = Arc::clone(&self.registration.entry);
        let start = Instant::now();
        if !entry.relay_begins(conn.key.clone(), single.is_some().then_some(start)) {
            match &underway {
                None => return self.answer_cancelled(server).await,
                Some(_) => Box::pin(self.cancel_underway(conn)).await,
            }
        }
        let held_max = single.as_ref().and_then(|single| held_max(&single.request));
        let outcome = {
            let mut task = match underway {
                Some((underway, memory)) => {
                    RelayTask::take_over(self, conn, underway, memory, start)
                }
                None => {
                    let planned = single.as_ref().map(|single| &single.request);
                    RelayTask::start(self, conn, request, planned, wrap, start)
                }
            };
            // By reference: a future that is moved in would be stored twice.
            let relaying = std::pin::pin!(task.run_to_end());
            match held_max {
                Some(limit) => hold_rows(rows, limit, relaying).await,
                None => relaying.await,
            }
        };
        entry.relay_ends().await;
        let must_close = server.conn().is_some_and(|conn| conn.side.must_close);
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err((ServerDisposal::Reset, end)) if !must_close => {
                self.end_session(server);
                return Err(end);
            }
            Err((ServerDisposal::Close | ServerDisposal::Reset, end)) => return Err(end),
        };
        match must_close {
            // A server connection that is dropped instead of given back is closed.
            true => drop(server),
            false => return_server(server, single, &outcome, start),
        }
        if let Some(awaited) = outcome.awaited_end {
            Box::pin(self.await_end(awaited, &mut outcome.to_client)).await?;
        }
        // The server connection is already returned: a client that reads slowly delays no other client.
        if outcome.end.is_none() {
            self.stream.write_all(&mut outcome.to_client).await?;
        }
        outcome.end.map_or(Ok(()), Err)
    }

    /// Answers a request that was cancelled before any of it was sent.
    async fn answer_cancelled(&mut self, server: Box<PooledServer>) -> Result<(), ClientEnd> {
        server.give_back();
        self.handle_wait_result(WaitResult::cancelled()).await
    }

    /// Cancels a shared read that this client takes over.
    async fn cancel_underway(&self, conn: &ServerConn) {
        let entry = &self.registration.entry;
        entry.set_state(ClientState::Relaying(conn.key.clone()));
        let limit = self.proxy.config().paceline.timeouts.cancel_wait_timeout;
        deliver(&conn.key, limit).await;
    }

    /// Activates the client's settings on the server connection. If state of an earlier client prevents that, closes the connection
    /// and checks out another one. `None`: the client got another answer while it waited for that one.
    async fn adopt_settings(
        &mut self,
        mut server: Box<PooledServer>,
    ) -> Result<Option<Box<PooledServer>>, ClientEnd> {
        let limit = self.pool.settings().timeouts.query_timeout;
        loop {
            let Some(conn) = server.conn() else {
                return Err(shut_down());
            };
            let needs_reset = conn.side.needs_reset;
            let adopting = conn.adopt_for(&self.session.settings, self.session.sequences);
            match optional_timeout(limit, adopting).await {
                Some(Ok(())) => return Ok(Some(server)),
                Some(Err(ServerError::Refused(_))) if needs_reset => drop(server),
                Some(Err(ServerError::Refused(error))) => {
                    server.give_back();
                    return Err(ClientEnd::Error(error));
                }
                Some(Err(_)) => return Err(ClientEnd::Error(messages::connection_lost())),
                None => return Err(ClientEnd::Error(messages::timed_out("query timeout"))),
            }
            server = match self.check_out().await? {
                WaitResult::Server(another) => another,
                other => return self.handle_wait_result(other).await.map(|()| None),
            };
        }
    }
}

impl Client {
    /// The error for a client whose server connection was lost.
    fn connection_lost(&self) -> Bytes {
        match *self.disconnect.borrow() {
            DisconnectSignal::Killed => DisconnectSignal::Killed.message(),
            DisconnectSignal::Stay | DisconnectSignal::Closing | DisconnectSignal::ShutDown => {
                messages::connection_lost()
            }
        }
    }
}

/// Returns the server connection to the pool. Before that, records the duration of a single request, and runs the analysis of its
/// template on the connection.
fn return_server(
    server: Box<PooledServer>,
    single: Option<SingleRequest>,
    outcome: &RelayOutcome,
    start: Instant,
) {
    let Some(SingleRequest { request, analysis }) = single else {
        return server.give_back();
    };
    let micros = u32::try_from((outcome.at - start).as_micros()).unwrap_or(u32::MAX);
    let bytes = u32::try_from(outcome.forwarded).unwrap_or(u32::MAX);
    request.template.pace.record(micros, bytes);
    match analysis {
        Some(analysis) if !outcome.failed => analysis.run(server),
        _ => server.give_back(),
    }
}

/// How long a relayed request keeps its rows in flight. `None`: to its end, because requests on the same row would wait for the same
/// locks.
fn held_max(request: &PlannedRequest) -> Option<Duration> {
    match request.plan.as_ref()? {
        plan if plan.is_queue() => Some(QUEUE_HELD_MAX),
        plan if plan.waits_for_several_rows() => Some(ROW_AWAITED_MAX),
        _ => None,
    }
}

/// The use of sequences by a complete request that executes nothing, such as one that prepares a statement.
fn sequence_use_without_execute(request: &Bytes) -> Option<SequenceUse> {
    let harmless = [tag::PARSE, tag::DESCRIBE, tag::CLOSE, tag::SYNC];
    let complete = Frames::new(request)
        .last()
        .is_some_and(|f| f.tag == tag::SYNC);
    let runs_nothing = complete && Frames::new(request).all(|f| harmless.contains(&f.tag));
    runs_nothing.then_some(SequenceUse::NONE)
}

/// Runs a relay. After `limit`, requests that wait for its queue or rows may leave the line.
async fn hold_rows<T>(
    rows: RowsInFlight<'_>,
    limit: Duration,
    mut relaying: Pin<&mut impl Future<Output = T>>,
) -> T {
    match tokio::time::timeout(limit, &mut relaying).await {
        Ok(outcome) => outcome,
        Err(_) => {
            rows.release_early();
            relaying.await
        }
    }
}

impl<'a> RelayTask<'a> {
    /// Starts a relay with a request. `planned` is the request if it is a single statement.
    fn start(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        request: &Bytes,
        planned: Option<&Arc<PlannedRequest>>,
        wrap: Wrap,
        start: Instant,
    ) -> Self {
        let mut to_server = BytesMut::with_capacity(request.len() + NAMES_BYTES);
        let mut relay = with_context(client, conn, |context| {
            RelayState::start(context, wrap, &mut to_server)
        });
        if client.mode == PoolMode::Session {
            relay.use_session_pooling();
        }
        let uses = planned.map_or_else(
            || sequence_use_without_execute(request),
            |planned| Some(planned.sequences),
        );
        if let Some(uses) = uses {
            relay.first_request_uses(uses);
        }
        if planned.is_some_and(|request| {
            matches!(request.form, RequestForm::Extended { describe: true, .. })
        }) {
            relay.first_request_describes();
        }
        let query = planned.filter(|request| matches!(request.form, RequestForm::Simple));
        let mut task = Self::new(client, conn, relay, start);
        task.to_server = to_server;
        task.input.set_first(request.clone());
        task.input.awaits_long = request.is_empty();
        task.input.template = query.map(|query| Arc::clone(&query.template));
        if is_complete(request) {
            task.relay.allow_retry();
            task.repeatable = Some(request.clone());
        }
        task
    }

    /// Continues a shared read whose answer is arriving.
    fn take_over(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        underway: PartialAnswer,
        memory: ResultReservation,
        start: Instant,
    ) -> Self {
        let (relay, answer) = RelayState::take_over(underway);
        let mut task = Self::new(client, conn, relay, start);
        task.output = ClientOutput::of_shared(answer, memory);
        task.stats.request(Status::Idle);
        task
    }

    fn new(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        relay: RelayState,
        start: Instant,
    ) -> Self {
        Self {
            timers: QueryTimers::of(&client.pool.settings()),
            client,
            conn,
            relay,
            stats: RelayStats::new(start),
            input: ClientInput::default(),
            to_server: BytesMut::new(),
            flush_sent: false,
            output: ClientOutput::default(),
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
        }
    }

    async fn run_to_end(&mut self) -> Result<RelayOutcome, (ServerDisposal, ClientEnd)> {
        self.conn
            .info
            .request_begins(self.client.proxy.shared.clock.seconds());
        let relayed = self.run().await;
        let at = self.count();
        self.add_accepted();
        for lost in self.relay.warned() {
            let address = self.client.pool.address();
            tracing::warn!(
                database = %address.database,
                user = %address.user,
                "{lost} is lost at the end of the transaction (session_state = warn)"
            );
        }
        relayed?;
        Ok(RelayOutcome {
            to_client: std::mem::take(&mut self.output.bytes),
            end: self.client_end.take(),
            awaited_end: self.awaited_end.take(),
            failed: self.relay.saw_error(),
            forwarded: self.relay.forwarded(),
            at,
        })
    }

    /// Tells the pool which statements PostgreSQL has accepted.
    fn add_accepted(&mut self) {
        let accepted = self.relay.take_accepted();
        if !accepted.is_empty() {
            self.client.pool.add_accepted(&accepted);
        }
    }

    /// Counts the relay at its end; returns the time of that.
    fn count(&mut self) -> Instant {
        let now = Instant::now();
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
        }
    }

    fn is_over(&self) -> bool {
        self.to_server.is_empty() && self.is_over_so_far()
    }

    /// Whether the relay is over, apart from bytes for the server. The next message of the client begins another relay.
    fn is_over_so_far(&self) -> bool {
        !self.input.is_incomplete() && self.relay.is_over()
    }

    /// Whether the relay goes on after the client has disconnected. As in PostgreSQL, which notices that only when its socket is full,
    /// a complete request is executed to its end. An open transaction or an incomplete request is given up with the server connection.
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

/// Whether these messages end with the end of a request.
fn is_complete(request: &[u8]) -> bool {
    let last = Frames::new(request).last().map(|frame| frame.tag);
    matches!(last, Some(tag::SYNC | tag::QUERY | tag::FUNCTION_CALL))
}

/// Runs `work` with the context that the protocol state needs: the client's session and the server connection's state.
fn with_context<R>(
    client: &mut Client,
    conn: &mut ServerConn,
    work: impl FnOnce(&mut RelayContext<'_>) -> R,
) -> R {
    with_context_and_template(client, conn, None, work)
}

/// The same, with the template of the client's query if it is known.
fn with_context_and_template<R>(
    client: &mut Client,
    conn: &mut ServerConn,
    template: Option<&Arc<Template>>,
    work: impl FnOnce(&mut RelayContext<'_>) -> R,
) -> R {
    let settings = client.session.settings.id;
    let pool = &client.pool;
    let may_change_session = |template: &Template| {
        template.calls_functions() && pool.changes_session(template.id, settings).unwrap_or(true)
    };
    let pool_settings = client.pool_settings.load();
    let mut context = RelayContext {
        session: &mut client.session,
        server: &mut conn.side,
        templates: &client.proxy.shared.templates,
        interner: &client.proxy.shared.settings_interner,
        show_source: &**pool,
        may_change_session: &may_change_session,
        policy: &pool_settings.state,
        query: template,
    };
    work(&mut context)
}
