//! A client connection: login, then unit after unit, each carried out by itself or handed to the line.

mod clock;
mod listening;
mod logging;
mod login;
mod relay;
mod replication;
mod silence;
mod turn;

use crate::cancel::{Doing, Registration};
use crate::learn::Question;
use crate::log::{self, ClientNames};
use crate::pool::{Delivery, Knowledge, Pool, Seat, SettingsCache, Submitted, Summons};
use crate::proxy::Proxy;
use crate::serve::Visit;
use crate::shared_listen::{ListeningClient, mail};
use crate::stats::{Prepared, first_state};
use bytes::{Bytes, BytesMut};
use login::{Entered, Place};
use paceline_batch::learned::Travel;
use paceline_batch::line::{Keys, WaitSpec, WaiterId};
use paceline_batch::strategy::PlannedRequest;
use paceline_config::PoolMode;
use paceline_net::Stream;
use paceline_relay::relay::Wrap;
use paceline_relay::request::{Boundary, Form, Request, Scanner};
use paceline_relay::session::{Plan, Session};
use paceline_relay::settings::IdleTimeout;
use paceline_relay::template::Template;
use paceline_wire::frontend::tag;
use paceline_wire::{ErrorResponse, Frames, WireError};
use silence::{Silence, SilenceMax};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Sleep;
use turn::Turn;

/// Bytes that are read ahead while a client's unit is in the line; more waits in the socket.
const READ_AHEAD_MAX: usize = 64 * 1024;

/// A unit that could travel with others, but whose end does not come for this long, is relayed: its client waits for something
/// else than an answer. (Parts of one packet come sooner.)
const UNIT_PAUSE_MAX: Duration = Duration::from_millis(5);

/// How long a client that only prepares statements waits for a server connection, if PostgreSQL has taken the same texts before:
/// other connections of its program may hold all of them and wait for it.
const NAMES_WAIT_MAX: Duration = Duration::from_millis(5);

/// Bytes that a client takes, without its buffers and statements.
pub(crate) const SIZE: usize = size_of::<Client>();

/// A client that is logged in.
struct Client {
    proxy: Arc<Proxy>,
    pool: Arc<Pool>,
    /// The settings of the pool.
    pool_settings: SettingsCache,
    stream: Stream,
    input: BytesMut,
    scanner: Scanner,
    session: Session,
    registration: Registration,
    /// That of its pool when it logged in.
    mode: PoolMode,
    turn: Turn,
    /// It listens by a shared connection.
    listening: Option<Box<ListeningClient>>,
    /// Watches how long it says nothing, where that is limited.
    silence: Option<Box<Silence>>,
    summons: watch::Receiver<Summons>,
    _place: Place,
}

/// Why a client's connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    /// It said goodbye, or a cancel request was carried out.
    #[error("client left")]
    Left,
    /// Its socket failed or it left without a word.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It broke the protocol.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// It was told why with these messages.
    #[error("connection ended by the server")]
    Told(Bytes),
    /// Its server connection was lost, with these last messages; their errors are counted.
    #[error("server connection lost")]
    Lost(Bytes),
}

/// Serves a connection from its first byte to its last; so long lasts its visit, unless it is an operator's.
pub(crate) async fn serve(proxy: Arc<Proxy>, stream: Stream, visit: Visit) {
    match Box::pin(login::log_in(Arc::clone(&proxy), stream)).await {
        // In a task of its own: an idle client does not pay for the login's state, and an operator can end it.
        Some(Entered::Client(mut client)) => {
            let whereabouts = Arc::clone(&client.registration.whereabouts);
            // By reference: a future keeps what is moved into it a second time.
            let task = tokio::spawn(async move {
                client.run().await;
                drop(visit);
            });
            whereabouts.presence.runs_in(task.abort_handle());
        }
        Some(Entered::Replication(mut client)) => {
            let whereabouts = client.whereabouts();
            let task = tokio::spawn(async move {
                client.run().await;
                drop(visit);
            });
            whereabouts.presence.runs_in(task.abort_handle());
        }
        Some(Entered::Console(session, said)) => {
            drop(visit);
            let (peer, began) = (session.peer(), proxy.clock.seconds());
            session.run().await;
            let client = ClientNames {
                database: said.as_ref().map(|(database, _)| database.as_str()),
                user: said.as_ref().map(|(_, user)| user.as_str()),
                peer: &peer,
            };
            let age = proxy.clock.seconds().saturating_sub(began);
            let config = proxy.config();
            log::client_closed(
                &config.paceline.logging,
                client,
                "client close request",
                age,
            );
        }
        None => {}
    }
}

impl Client {
    async fn run(&mut self) {
        let end = loop {
            if let Err(end) = self.serve_unit().await {
                break end;
            }
            if self.turn.is_over() {
                self.turn.pass().await;
            }
        };
        self.log_end(&end);
        let mut out = BytesMut::new();
        match end {
            // PostgreSQL says nothing to a client that sends a length which no message has.
            End::Left | End::Io(_) | End::Wire(WireError::FrontendLength) => return,
            End::Wire(error) => ErrorResponse::fatal("08P01", error.to_string()).write(&mut out),
            End::Told(told) => {
                if let Some(state) = first_state(&told) {
                    self.pool.stats.failed(state);
                }
                out.extend_from_slice(&told);
            }
            End::Lost(told) => out.extend_from_slice(&told),
        }
        // The client may be gone already; the connection ends either way.
        let _ = self.stream.write_all(&mut out).await;
    }

    async fn serve_unit(&mut self) -> Result<(), End> {
        let boundary = self.next_boundary().await?;
        self.finish_delivery().await?;
        match boundary {
            Boundary::Complete(len) => {
                self.turn.bytes(len);
                let bytes = self.input.split_to(len).freeze();
                self.carry_out(bytes).await
            }
            Boundary::Relay(len) | Boundary::Long(len) => {
                let bytes = self.input.split_to(len).freeze();
                let wrap = self.wrap(&bytes).await;
                self.carry_out_alone(bytes, wrap).await
            }
            Boundary::Terminate(_) | Boundary::Incomplete => Err(End::Left),
        }
    }

    /// Reads until a unit is there.
    async fn next_boundary(&mut self) -> Result<Boundary, End> {
        loop {
            match self.scanner.scan(&self.input)? {
                Boundary::Incomplete => {}
                found => return Ok(found),
            }
            if self.input.is_empty() {
                // An idle client keeps no buffer.
                self.input = BytesMut::new();
            }
            let limit = self.silence_max();
            Silence::begin(
                &mut self.silence,
                limit.map_or(Duration::ZERO, |limit| limit.time),
            );
            // Boxed, and only where a unit has begun: it is rare, and every client would pay for it.
            let mut pause = self
                .scanner
                .awaits_more()
                .then(|| Box::pin(tokio::time::sleep(UNIT_PAUSE_MAX)));
            loop {
                let interest = self.deliver()?;
                tokio::select! {
                    biased;
                    ready = self.stream.ready(interest) => match ready?.is_readable() {
                        true => break,
                        false => continue,
                    },
                    () = over(&mut pause) => return Ok(self.scanner.give_up()),
                    () = Silence::is_too_long(&mut self.silence) => {
                        return Err(limit.map_or(End::Left, SilenceMax::end));
                    }
                    summons = summoned(&mut self.summons, Summons::Closing) => return Err(summons),
                    () = mail(self.listening.as_deref()) => {}
                }
            }
            self.stream.read_now(&mut self.input)?;
            self.proxy.busy_poll.message_received();
        }
    }

    /// How long the client may say nothing, if that is limited.
    fn silence_max(&self) -> Option<SilenceMax> {
        let own = SilenceMax {
            time: self.idle_session_timeout(),
            is_session: true,
        };
        let configured = SilenceMax {
            time: self.pool.settings().timeouts.client_idle_timeout,
            is_session: false,
        };
        let limits = [own, configured].into_iter();
        let limits = limits.filter(|limit| !limit.time.is_zero());
        limits.min_by_key(|limit| limit.time)
    }

    /// `idle_session_timeout`, which Paceline enforces in the server's place; zero is for ever.
    fn idle_session_timeout(&self) -> Duration {
        match self.session.settings.idle_session_timeout() {
            IdleTimeout::NotSet => self.pool.idle_default(),
            IdleTimeout::Unread => Duration::ZERO,
            IdleTimeout::Is(time) => time,
        }
    }

    async fn carry_out(&mut self, bytes: Bytes) -> Result<(), End> {
        self.registration.whereabouts.presence.begins();
        let first = Frames::new(&bytes).next().map(|frame| frame.tag);
        if self.mode == PoolMode::Session && first == Some(tag::PARSE) {
            // The server that the client is to keep must have its statements.
            let wrap = self.wrap(&bytes).await;
            return self.carry_out_alone(bytes, wrap).await;
        }
        match self.plan(&bytes).await {
            Plan::Answer(mut answer) => {
                self.count_answered(&bytes, answer.len());
                self.turn.message(tag::QUERY, answer.len());
                Ok(self.stream.write_all(&mut answer).await?)
            }
            Plan::Listen(change, unit) if self.shares_listen() => {
                Box::pin(self.listen_alone(change, &unit)).await
            }
            Plan::Listen(_, unit) => self.carry_out_alone(unit.bytes, Wrap::No).await,
            // Who keeps its server travels with nobody.
            Plan::Single(unit) if self.mode == PoolMode::Session => {
                let wrap = match unit.template.hints().target_affect_row {
                    Some(_) => Wrap::Begin,
                    None => Wrap::No,
                };
                self.carry_out_alone(unit.bytes, wrap).await
            }
            Plan::Single(unit) => self.carry_out_single(unit).await,
            Plan::Names if self.mode != PoolMode::Session => self.carry_out_names(bytes).await,
            Plan::Alone | Plan::Names | Plan::Unparsed(_) => {
                let wrap = self.wrap(&bytes).await;
                self.carry_out_alone(bytes, wrap).await
            }
        }
    }

    /// Decides about a complete unit; its texts are parsed then.
    async fn plan(&mut self, bytes: &Bytes) -> Plan {
        loop {
            let parses = self.proxy.templates.parses();
            let plan = self.session.plan(bytes, &self.proxy.templates, &*self.pool);
            if parses != self.proxy.templates.parses() {
                self.turn.all();
            }
            match plan {
                Plan::Unparsed(unparsed) => Box::pin(self.proxy.parse(unparsed)).await,
                plan => return plan,
            }
        }
    }

    /// How a unit that goes alone, or the beginning of one, gets a transaction of its own.
    async fn wrap(&self, bytes: &Bytes) -> Wrap {
        loop {
            match self.session.is_targeted(bytes, &self.proxy.templates) {
                Ok(true) => return Wrap::Begin,
                Ok(false) => return Wrap::No,
                Err(unparsed) => Box::pin(self.proxy.parse(unparsed)).await,
            }
        }
    }

    /// No server was needed: only what went to and fro counts.
    fn count_answered(&self, unit: &[u8], answer_len: usize) {
        let mut prepared = Prepared::default();
        Frames::new(unit).for_each(|frame| prepared.note(frame));
        let stats = &self.pool.stats;
        stats.prepared(prepared);
        stats.moved(unit.len() as u64, answer_len as u64);
        let presence = &self.registration.whereabouts.presence;
        presence.has_prepared(self.session.named());
    }

    /// A unit that Paceline relays without a second look.
    async fn carry_out_alone(&mut self, bytes: Bytes, wrap: Wrap) -> Result<(), End> {
        match self.seat().await? {
            Delivery::Seat(seat) => {
                self.pool.leases.fetch_add(1, Ordering::Relaxed);
                Box::pin(self.relay(seat, &bytes, wrap, None)).await
            }
            other => self.take(other).await,
        }
    }

    /// Names of statements: PostgreSQL analyses what the client parses, unless the client would have to wait for a server connection.
    async fn carry_out_names(&mut self, bytes: Bytes) -> Result<(), End> {
        let settings = self.session.settings.id;
        let submitted = self.pool.submit(WaitSpec::default(), false, || None);
        let (waiter, waits) = match submitted {
            Submitted::Seat(seat) => return self.relay_alone(seat, bytes).await,
            Submitted::Refused(told) => return Err(End::Told(told)),
            Submitted::Waiting(waiter, waits) => (waiter, waits),
        };
        let mut waits = waits;
        match tokio::time::timeout(NAMES_WAIT_MAX, &mut waits).await {
            Ok(Ok(Delivery::Seat(seat))) => return self.relay_alone(seat, bytes).await,
            Ok(Ok(Delivery::Queued(further))) => waits = further,
            Ok(Ok(other)) => return self.take(other).await,
            Ok(Err(_)) => return Err(shut_down()),
            Err(_) => {}
        }
        let accepted = |template: &Template| self.pool.has_accepted(template.id, settings);
        let templates = &self.proxy.templates;
        let answer = self.session.answer_names(&bytes, templates, &accepted);
        // A text that is to be parsed elsewhere first is not known.
        let Some(mut answer) = answer.ok().flatten() else {
            return match self.wait(waiter, waits, false).await? {
                Delivery::Seat(seat) => self.relay_alone(seat, bytes).await,
                other => self.take(other).await,
            };
        };
        if !self.pool.withdraw(waiter)
            && let Ok(Delivery::Seat(seat)) = waits.await
        {
            // One has come meanwhile.
            seat.leave();
        }
        self.pool.forget(waiter);
        self.count_answered(&bytes, answer.len());
        Ok(self.stream.write_all(&mut answer).await?)
    }

    async fn relay_alone(&mut self, seat: Box<Seat>, bytes: Bytes) -> Result<(), End> {
        self.pool.leases.fetch_add(1, Ordering::Relaxed);
        Box::pin(self.relay(seat, &bytes, Wrap::No, None)).await
    }

    /// A connection for the client alone, or what it is told instead.
    async fn seat(&mut self) -> Result<Delivery, End> {
        Ok(
            match self.pool.submit(WaitSpec::default(), false, || None) {
                Submitted::Seat(seat) => Delivery::Seat(seat),
                Submitted::Refused(told) => Delivery::Fatal(told),
                Submitted::Waiting(waiter, waits) => self.wait(waiter, waits, false).await?,
            },
        )
    }

    /// One statement in autocommit: alone if it can start at once, else with others if it may.
    async fn carry_out_single(&mut self, unit: Box<Request>) -> Result<(), End> {
        let mut unit = PlannedRequest::from(unit);
        let settings = unit.settings.id;
        let (knowledge, tally) = self.pool.knowledge(&unit.template, settings);
        let knowledge = match knowledge {
            Knowledge::Asked => Box::pin(self.pool.known_soon(&unit.template, settings)).await,
            known => known,
        };
        unit.tally = Some(Arc::clone(&tally));
        let (travel, learn) = match &knowledge {
            Knowledge::Learned(learned) => (learned.travel(&mut unit, self.pool.policy()), None),
            Knowledge::Pending | Knowledge::Asked => {
                (Travel::unlearned(&unit, self.pool.policy()), None)
            }
            Knowledge::Ask => {
                let question = Question::new(&self.pool, &unit);
                (Travel::unlearned(&unit, self.pool.policy()), Some(question))
            }
        };
        let wrap = match (unit.template.hints().target_affect_row, &travel.spec.keys) {
            (None, _) => Wrap::No,
            (Some(1), Keys::One(_)) => Wrap::OneRow,
            _ => Wrap::Begin,
        };
        let shown = travel.spec.group.is_some() || travel.spec.probe.is_some();
        let reads = travel.spec.group.is_some_and(|id| id.strategy.reads());
        let unit = Arc::new(unit);
        let submitted = self.pool.submit(travel.spec, travel.would_group, || {
            shown.then(|| Arc::clone(&unit))
        });
        let (waiter, waits) = match submitted {
            Submitted::Seat(seat) => return self.relay_single(seat, unit, wrap, learn).await,
            Submitted::Refused(told) => return Err(End::Told(told)),
            Submitted::Waiting(waiter, waits) => (waiter, waits),
        };
        if travel.would_group {
            tally.would_have_grouped();
        }
        let delivery = self.wait(waiter, waits, reads).await?;
        if let Some(answer) = delivery.answer() {
            self.session
                .served(&unit, answer, self.proxy.templates.new_id());
            if let Form::Extended { parse: true, .. } = unit.form {
                let presence = &self.registration.whereabouts.presence;
                presence.has_prepared(self.session.named());
            }
        }
        match delivery {
            Delivery::Seat(seat) => self.relay_single(seat, unit, wrap, learn).await,
            other => self.take(other).await,
        }
    }

    async fn relay_single(
        &mut self,
        seat: Box<Seat>,
        unit: Arc<PlannedRequest>,
        wrap: Wrap,
        learn: Option<Question>,
    ) -> Result<(), End> {
        if let Some(tally) = &unit.tally {
            tally.goes_alone();
        }
        let bytes = unit.bytes.clone();
        Box::pin(self.relay(seat, &bytes, wrap, Some((unit, learn)))).await
    }

    /// Passes on what needs no relay.
    async fn take(&mut self, delivery: Delivery) -> Result<(), End> {
        match delivery {
            Delivery::Answer(mut answer) => Ok(self.stream.write_all(&mut answer).await?),
            Delivery::Fatal(told) => Err(End::Told(told)),
            Delivery::Seat(seat) => {
                seat.leave();
                Ok(())
            }
            // It has been waited for.
            Delivery::Queued(_) => Ok(()),
        }
    }

    /// Waits in the line; a client that leaves or cancels before dispatch leaves it. A unit that only `reads` may be left
    /// at any time: it changes nothing, and others go on without it.
    async fn wait(
        &mut self,
        waiter: WaiterId,
        mut waits: oneshot::Receiver<Delivery>,
        reads: bool,
    ) -> Result<Delivery, End> {
        let whereabouts = Arc::clone(&self.registration.whereabouts);
        let mut cancelled = std::pin::pin!(whereabouts.cancelled_too_late());
        whereabouts.now(Doing::Waiting(Arc::clone(&self.pool), waiter));
        let mut gone = None;
        let delivery = loop {
            let watch = gone.is_none() && self.input.len() < READ_AHEAD_MAX;
            tokio::select! {
                biased;
                delivery = &mut waits => match delivery {
                    Ok(Delivery::Queued(further)) => {
                        waits = further;
                        if gone.is_none() {
                            // Boxed: it is rare, and every client would pay for its state.
                            gone = Box::pin(self.tell_queued()).await.err();
                        }
                    }
                    delivery => break delivery,
                },
                () = &mut cancelled, if reads => break Ok(Delivery::cancelled()),
                ready = self.stream.readable(), if watch => {
                    let read = ready.and_then(|()| self.stream.read_now(&mut self.input));
                    if let Err(error) = read {
                        if self.pool.withdraw(waiter) || reads {
                            whereabouts.now(Doing::Nothing);
                            return Err(error.into());
                        }
                        // It has departed: its group carries it out to the end.
                        gone = Some(error);
                    }
                }
            }
        };
        let next = match &delivery {
            Ok(Delivery::Seat(_)) => Doing::Starting,
            _ => Doing::Nothing,
        };
        let cancelled = whereabouts.has_waited(next);
        if cancelled || gone.is_some() {
            self.pool.forget(waiter);
        }
        match (delivery, gone) {
            // The request came between the line and the connection.
            (Ok(Delivery::Seat(seat)), None) if cancelled && seat.is_fresh() => {
                whereabouts.now(Doing::Nothing);
                seat.leave();
                Ok(Delivery::cancelled())
            }
            (Ok(delivery), None) => Ok(delivery),
            (Ok(_), Some(error)) => Err(error.into()),
            (Err(_), _) => Err(shut_down()),
        }
    }

    /// The NOTICE of `query_wait_notify`, in PgBouncer's words. Between two units it disturbs nothing.
    async fn tell_queued(&self) -> io::Result<()> {
        const WORDS: &str =
            "No server connection available in postgres backend, client being queued";
        let mut out = BytesMut::new();
        ErrorResponse::notice(WORDS).write(&mut out);
        self.stream.write_all(&mut out).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let whereabouts = &self.registration.whereabouts;
        if !whereabouts.presence.is_killed() {
            return;
        }
        self.log_error("admin forced disconnect");
        if whereabouts.may_be_told() {
            let mut out = BytesMut::new();
            ErrorResponse::fatal("08P01", "admin forced disconnect").write(&mut out);
            // The connection ends, whether or not the client hears why.
            let _ = self.stream.write_now(&mut out);
        }
    }
}

/// Returns when a pause is over; never without one.
async fn over(pause: &mut Option<Pin<Box<Sleep>>>) {
    match pause {
        Some(pause) => pause.await,
        None => std::future::pending().await,
    }
}

/// The process ends.
fn shut_down() -> End {
    End::Told(Summons::ShutDown.farewell())
}

/// Returns when a client that does nothing is called to go, by this call or a stronger one.
async fn summoned(summons: &mut watch::Receiver<Summons>, least: Summons) -> End {
    match summons.wait_for(|summons| *summons >= least).await {
        Ok(summons) => End::Told(summons.farewell()),
        Err(_) => shut_down(),
    }
}
