//! A client relays: bytes go to and fro between its socket and one server connection until the relay is over.

mod ending;
mod flow;
mod listening;
mod meter;

use super::Client;
use super::end::{End, shut_down};
use super::query_timers::QueryTimers;
use crate::cancel::ClientState;
use bytes::{Bytes, BytesMut};
use meter::Meter;
use paceline_batch::line::ROW_AWAITED_MAX;
use paceline_batch::strategy::PlannedRequest;
use paceline_config::PoolMode;
use paceline_net::optional_timeout;
use paceline_pool::analysis::AnalysisTask;
use paceline_pool::messages;
use paceline_pool::pool::{DisconnectSignal, PooledServer, Rows, WaitResult};
use paceline_pool::pools::Exclusive;
use paceline_pool::result_memory::ResultReservation;
use paceline_pool::server::{ServerConn, ServerError, deliver};
use paceline_relay::relay::{ListenNeed, RelayContext, RelayState, Wrap};
use paceline_relay::request::{PartialAnswer, RequestForm};
use paceline_relay::template::{Template, Unparsed};
use paceline_sql::SequenceUse;
use paceline_wire::Frames;
use paceline_wire::backend::Status;
use paceline_wire::frontend::tag;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes kept for a peer that does not take them; then the other one is not read.
const BACKLOG_MAX: usize = 256 * 1024;

/// For the names that statements have on servers, which are longer than most of those that clients give.
const NAMES_BYTES: usize = 128;

/// How long a consumer that relays alone keeps others of its queue waiting, so that they travel together afterwards. They
/// need not wait for what it waits for: alone they would pick other rows.
const QUEUE_HELD_MAX: Duration = Duration::from_millis(20);

/// A unit whose template is measured, and what is to be found out about it.
type Watched = (Arc<PlannedRequest>, Option<AnalysisTask>);

/// The end of an answer that waits for notifications, without a server connection.
struct AwaitedEnd {
    ready: Bytes,
    /// The client's `DISCARD ALL` was carried out.
    unlistens_all: bool,
}

/// A relay under way.
struct RelayTask<'a> {
    client: &'a mut Client,
    conn: &'a mut ServerConn,
    relay: RelayState,
    meter: Meter,
    to_server: BytesMut,
    to_client: BytesMut,
    /// The client said goodbye or is gone.
    client_end: Option<End>,
    /// Bytes of answers for which the client has not waited.
    unread: usize,
    /// What a shared answer that it has taken over takes until the client has it.
    room: Option<ResultReservation>,
    /// Rest of a client's message whose body nobody inspects: CopyData, or the end of a long message …
    body_left: usize,
    /// … and whether it goes to the server.
    body_goes: bool,
    /// The relay's first message is a long one, and yet to come.
    begins: bool,
    /// Limits its times, where they are limited.
    clock: Option<Box<QueryTimers>>,
    /// The client has said something since the clock was looked at.
    heard: bool,
    /// Messages of the client that come before those in its buffer …
    pending: Bytes,
    /// … and are of the relay's first unit.
    pending_is_first: bool,
    /// What the only query in them is, if it is known.
    known: Option<Arc<Template>>,
    /// The client's next message can be taken when this has been parsed …
    unparsed: Option<Unparsed>,
    /// … or the shared connection has done this.
    unheard: Option<ListenNeed>,
    /// The rest of the answer waits for it, and the relay is over.
    awaited_end: Option<AwaitedEnd>,
    /// The server has been asked for the answers that it keeps.
    flushed: bool,
    /// The relay's first unit, as long as it may have to be carried out again.
    first: Option<Bytes>,
    /// The client has said nothing since the relay's first unit.
    is_first: bool,
    /// The server owes the answer to a statement that needs a database without other sessions.
    exclusive: Option<Box<Exclusive>>,
}

/// What becomes of the server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is used again when nothing of the session is left there.
    Reset,
    Drop,
}

/// How a relay ended on the client's side.
struct Ended {
    /// Answers that the client has not taken yet.
    to_client: BytesMut,
    end: Option<End>,
    /// The rest of the answer.
    awaited_end: Option<AwaitedEnd>,
    failed: bool,
    forwarded: u64,
    at: Instant,
}

impl Client {
    /// Carries out a unit on a connection, and whatever follows until the relay is over.
    pub(super) async fn relay(
        &mut self,
        mut server: Box<PooledServer>,
        unit: &Bytes,
        wrap: Wrap,
        watched: Option<Watched>,
    ) -> Result<(), End> {
        let underway = server.take_underway();
        let settings = self.session.settings.as_ref();
        let has_its_own = |conn: &mut ServerConn| conn.side.has(settings);
        if underway.is_none() && !server.conn().is_some_and(has_its_own) {
            // Boxed: every relay would pay for its state.
            server = match Box::pin(self.settle_in(server)).await? {
                Some(server) => server,
                None => return Ok(()),
            };
        }
        let Some((conn, rows)) = server.parts() else {
            return Err(shut_down());
        };
        let entry = Arc::clone(&self.registration.entry);
        let start = Instant::now();
        let single = watched.is_some();
        if !entry.relay_begins(conn.key.clone(), single.then_some(start)) {
            match &underway {
                None => return self.is_cancelled(server).await,
                Some(_) => Box::pin(self.cancel_underway(conn)).await,
            }
        }
        let held_max = watched.as_ref().and_then(|(unit, _)| held_max(unit));
        let outcome = {
            let mut task = match underway {
                Some((underway, room)) => RelayTask::take_over(self, conn, underway, room, start),
                None => {
                    let known = watched.as_ref().map(|(unit, _)| unit);
                    RelayTask::board(self, conn, unit, known, wrap, start)
                }
            };
            // By reference: a future keeps what is moved into it a second time.
            let relaying = std::pin::pin!(task.run_to_end());
            match held_max {
                Some(limit) => hold_rows(rows, limit, relaying).await,
                None => relaying.await,
            }
        };
        entry.leave_server().await;
        let must_close = server.conn().is_some_and(|conn| conn.side.must_close);
        let mut ended = match outcome {
            Ok(ended) => ended,
            Err((Fate::Reset, end)) if !must_close => {
                self.end_session(server);
                return Err(end);
            }
            Err((Fate::Drop | Fate::Reset, end)) => return Err(end),
        };
        match watched {
            // Dropped, it is not used again.
            _ if must_close => drop(server),
            None => server.give_back(),
            Some((unit, analysis)) => {
                let micros = u32::try_from((ended.at - start).as_micros()).unwrap_or(u32::MAX);
                unit.template
                    .pace
                    .record(micros, u32::try_from(ended.forwarded).unwrap_or(u32::MAX));
                match analysis {
                    Some(analysis) if !ended.failed => analysis.run(server),
                    _ => server.give_back(),
                }
            }
        }
        if let Some(awaited) = ended.awaited_end {
            Box::pin(self.await_end(awaited, &mut ended.to_client)).await?;
        }
        // A client that reads slowly holds up nobody but itself.
        if ended.end.is_none() {
            self.stream.write_all(&mut ended.to_client).await?;
        }
        ended.end.map_or(Ok(()), Err)
    }

    /// Its unit was cancelled before any of it was sent.
    async fn is_cancelled(&mut self, server: Box<PooledServer>) -> Result<(), End> {
        server.give_back();
        self.take(WaitResult::cancelled()).await
    }

    /// A read that it takes over was cancelled.
    async fn cancel_underway(&self, conn: &ServerConn) {
        let entry = &self.registration.entry;
        entry.now(ClientState::Relaying(conn.key.clone()));
        let limit = self.proxy.config().paceline.timeouts.cancel_wait_timeout;
        deliver(&conn.key, limit).await;
    }

    /// Puts the client's settings in force. A connection that cannot be reset from what somebody else has left there is dropped,
    /// and another one taken. `None`: the client has been told something else meanwhile.
    async fn settle_in(
        &mut self,
        mut server: Box<PooledServer>,
    ) -> Result<Option<Box<PooledServer>>, End> {
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
                    return Err(End::Told(error));
                }
                Some(Err(_)) => return Err(End::Told(messages::connection_lost())),
                None => return Err(End::Told(messages::timed_out("query timeout"))),
            }
            server = match self.check_out().await? {
                WaitResult::Server(another) => another,
                other => return self.take(other).await.map(|()| None),
            };
        }
    }
}

impl Client {
    /// What it is told whose server connection was lost: it was killed, or nobody knows why.
    fn lost(&self) -> Bytes {
        match *self.disconnect.borrow() {
            DisconnectSignal::Killed => DisconnectSignal::Killed.message(),
            DisconnectSignal::Stay | DisconnectSignal::Closing | DisconnectSignal::ShutDown => {
                messages::connection_lost()
            }
        }
    }
}

/// How long a unit keeps its rows while it relays alone; `None`: to the end, as all that it may wait for is of concern to those
/// who wait for it.
fn held_max(unit: &PlannedRequest) -> Option<Duration> {
    match unit.plan.as_ref()? {
        plan if plan.is_queue() => Some(QUEUE_HELD_MAX),
        plan if plan.waits_for_several_rows() => Some(ROW_AWAITED_MAX),
        _ => None,
    }
}

/// What a unit may do with sequences that is complete and carries nothing out, such as the preparing of a statement.
fn uses_of_names(unit: &Bytes) -> Option<SequenceUse> {
    let harmless = [tag::PARSE, tag::DESCRIBE, tag::CLOSE, tag::SYNC];
    let complete = Frames::new(unit).last().is_some_and(|f| f.tag == tag::SYNC);
    let runs_nothing = complete && Frames::new(unit).all(|f| harmless.contains(&f.tag));
    runs_nothing.then_some(SequenceUse::NONE)
}

/// Carries out a relay; if it takes longer, those who wait for its queue or rows may leave.
async fn hold_rows<T>(
    rows: Rows<'_>,
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
    /// For a unit; `known`: what it is, if it is a single statement.
    fn board(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        unit: &Bytes,
        known: Option<&Arc<PlannedRequest>>,
        wrap: Wrap,
        start: Instant,
    ) -> Self {
        let mut to_server = BytesMut::with_capacity(unit.len() + NAMES_BYTES);
        let mut relay = with_context(client, conn, |context| {
            RelayState::start(context, wrap, &mut to_server)
        });
        if client.mode == PoolMode::Session {
            relay.use_session_pooling();
        }
        let uses = known.map_or_else(|| uses_of_names(unit), |known| Some(known.sequences));
        if let Some(uses) = uses {
            relay.first_request_uses(uses);
        }
        if known
            .is_some_and(|known| matches!(known.form, RequestForm::Extended { describe: true, .. }))
        {
            relay.first_request_describes();
        }
        let query = known.filter(|known| matches!(known.form, RequestForm::Simple));
        let mut task = Self::new(client, conn, relay, start);
        task.to_server = to_server;
        task.pending = unit.clone();
        task.pending_is_first = true;
        task.begins = unit.is_empty();
        task.known = query.map(|query| Arc::clone(&query.template));
        if is_whole(unit) {
            task.relay.allow_retry();
            task.first = Some(unit.clone());
        }
        task
    }

    /// For a read whose answer is coming in.
    fn take_over(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        underway: PartialAnswer,
        room: ResultReservation,
        start: Instant,
    ) -> Self {
        let (relay, to_client) = RelayState::take_over(underway);
        let mut task = Self::new(client, conn, relay, start);
        task.to_client = to_client;
        task.room = Some(room);
        task.meter.unit(Status::Idle);
        task
    }

    fn new(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        relay: RelayState,
        start: Instant,
    ) -> Self {
        Self {
            clock: QueryTimers::of(&client.pool.settings()),
            client,
            conn,
            relay,
            meter: Meter::new(start),
            to_server: BytesMut::new(),
            to_client: BytesMut::new(),
            client_end: None,
            unread: 0,
            room: None,
            body_left: 0,
            body_goes: true,
            begins: false,
            heard: false,
            pending: Bytes::new(),
            pending_is_first: false,
            known: None,
            unparsed: None,
            unheard: None,
            awaited_end: None,
            flushed: false,
            first: None,
            is_first: true,
            exclusive: None,
        }
    }

    /// It met a plan that no longer fits, and nobody knows.
    fn repeat(&mut self) {
        if self.relay.take_retry()
            && let Some(unit) = self.first.take()
        {
            self.pending = unit;
            self.pending_is_first = true;
        }
    }

    async fn run_to_end(&mut self) -> Result<Ended, (Fate, End)> {
        self.conn
            .info
            .request_begins(self.client.proxy.shared.clock.seconds());
        let relayed = self.run().await;
        let at = self.count();
        self.note_accepted();
        for kept in self.relay.warned() {
            let address = self.client.pool.address();
            tracing::warn!(
                database = %address.database,
                user = %address.user,
                "{kept} is lost at the end of the transaction (session_state = warn)"
            );
        }
        relayed?;
        Ok(Ended {
            to_client: std::mem::take(&mut self.to_client),
            end: self.client_end.take(),
            awaited_end: self.awaited_end.take(),
            failed: self.relay.saw_error(),
            forwarded: self.relay.forwarded(),
            at,
        })
    }

    fn note_accepted(&mut self) {
        let accepted = self.relay.take_accepted();
        if !accepted.is_empty() {
            self.client.pool.add_accepted(&accepted);
        }
    }

    /// Counts the relay when it is over, which is now.
    fn count(&mut self) -> Instant {
        let now = Instant::now();
        let (client, pool) = (&*self.client, &self.client.pool);
        let meter = std::mem::replace(&mut self.meter, Meter::new(now));
        meter.end(now, self.relay.forwarded(), pool);
        pool.stats.server_parsed(self.conn.side.take_parses());
        self.conn.info.set_prepared(self.conn.side.prepared());
        let entry = &client.registration.entry;
        entry.info.set_prepared(client.session.statements.named());
        entry.has_settings(&client.session.settings);
        now
    }

    /// Relays until the relay is over or one of the two is gone.
    async fn run(&mut self) -> Result<(), (Fate, End)> {
        loop {
            self.take_client_input().map_err(|end| (Fate::Drop, end))?;
            let heard_out = self.wants_client();
            let answered_out = self.take_server_input()?;
            if self.relay.awaits_notifications() {
                self.awaited_end = Box::pin(self.catch_up()).await;
                if self.awaited_end.is_some() {
                    return Ok(());
                }
                continue;
            }
            if self.relay.discard_failed() {
                return Err((Fate::Drop, End::Told(self.client.lost())));
            }
            if self.begins_transaction() {
                return Err((Fate::Drop, self.refuse_transaction()));
            }
            self.repeat();
            self.flush()?;
            if self.is_over() {
                return Ok(());
            }
            if let Some(unparsed) = self.unparsed.take() {
                Box::pin(self.client.proxy.shared.parse(unparsed)).await;
                continue;
            }
            if let Some(need) = self.unheard.take() {
                Box::pin(self.have_listened(need)).await;
                continue;
            }
            if !answered_out || self.client.turn.is_over() {
                // What is there already can be gone on with, but not while others wait.
                self.client.turn.pass().await;
                continue;
            }
            let has_pending = !self.pending.is_empty() && !self.relay.is_describing();
            if has_pending || (!heard_out && self.wants_client()) {
                // What the client has said already must not wait for what it says next.
                continue;
            }
            if self.client_end.is_some() && !self.can_finish_without_client() {
                let end = self.client_end.take().unwrap_or(End::Left);
                return Err((self.fate_after_session(), end));
            }
            self.wait().await?;
        }
    }

    fn is_over(&self) -> bool {
        self.to_server.is_empty() && self.is_over_so_far()
    }

    /// Nothing is left to do: what the client says next is another unit.
    fn is_over_so_far(&self) -> bool {
        self.pending.is_empty() && !self.begins && self.body_left == 0 && self.relay.is_over()
    }

    /// A client that left has its unit carried out to the end, as PostgreSQL would, which learns of it only when it has more
    /// to say than sockets hold; a transaction that it leaves open, or a unit whose end it never sent, is given up
    /// with its connection.
    fn can_finish_without_client(&self) -> bool {
        !self.relay.awaits_client() && self.body_left == 0 && self.unread <= BACKLOG_MAX
    }

    /// Does the relay need what the client says next?
    fn wants_client(&self) -> bool {
        self.client_end.is_none()
            && !self.has_no_room()
            && !self.relay.owes_many_answers()
            && (self.relay.awaits_client() || self.body_left > 0)
    }
}

/// Does it end where a unit does?
fn is_whole(unit: &[u8]) -> bool {
    let last = Frames::new(unit).last().map(|frame| frame.tag);
    matches!(last, Some(tag::SYNC | tag::QUERY | tag::FUNCTION_CALL))
}

/// The pure part of a relay works on the client's session and the server's state.
fn with_context<R>(
    client: &mut Client,
    conn: &mut ServerConn,
    work: impl FnOnce(&mut RelayContext<'_>) -> R,
) -> R {
    with_context_knowing(client, conn, None, work)
}

/// The same when it is known what the client's query is.
fn with_context_knowing<R>(
    client: &mut Client,
    conn: &mut ServerConn,
    known: Option<&Arc<Template>>,
    work: impl FnOnce(&mut RelayContext<'_>) -> R,
) -> R {
    let settings = client.session.settings.id;
    let pool = &client.pool;
    let taints = |template: &Template| {
        template.calls_functions() && pool.changes_session(template.id, settings).unwrap_or(true)
    };
    let pool_settings = client.pool_settings.load();
    let mut context = RelayContext {
        session: &mut client.session,
        server: &mut conn.side,
        templates: &client.proxy.shared.templates,
        interner: &client.proxy.shared.settings_interner,
        show_source: &**pool,
        may_change_session: &taints,
        policy: &pool_settings.state,
        query: known,
    };
    work(&mut context)
}
