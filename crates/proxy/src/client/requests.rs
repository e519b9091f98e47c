//! The requests of a client: each is answered at once, relayed, or handed to the line.

use super::idle_timer::{IdleLimit, IdleTimer};
use super::{Client, End, disconnected, shut_down};
use crate::shared_listen::mail;
use bytes::{Bytes, BytesMut};
use paceline_batch::analysis::GroupingDecision;
use paceline_batch::line::{LineKeys, WaitSpec};
use paceline_batch::strategy::PlannedRequest;
use paceline_config::PoolMode;
use paceline_pool::analysis::AnalysisTask;
use paceline_pool::pool::{Analysis, CheckoutResult, DisconnectSignal, PooledServer, WaitResult};
use paceline_pool::stats::{Prepared, first_state};
use paceline_relay::relay::Wrap;
use paceline_relay::request::{Boundary, Request, RequestForm};
use paceline_relay::session::RequestPlan;
use paceline_relay::settings::IdleTimeout;
use paceline_relay::template::Template;
use paceline_wire::frontend::tag;
use paceline_wire::{ErrorResponse, Frames, WireError};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Sleep;

/// A unit that could travel with others, but whose end does not come for this long, is relayed: its client waits for something
/// else than an answer. (Parts of one packet come sooner.)
const UNIT_PAUSE_MAX: Duration = Duration::from_millis(5);

/// How long a client that only prepares statements waits for a server connection, if PostgreSQL has taken the same texts before:
/// other connections of its program may hold all of them and wait for it.
const NAMES_WAIT_MAX: Duration = Duration::from_millis(5);

impl Client {
    pub(super) async fn run(&mut self) {
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
            let limit = self.idle_limit();
            IdleTimer::begin(
                &mut self.idle_timer,
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
                    () = IdleTimer::is_too_long(&mut self.idle_timer) => {
                        return Err(limit.map_or(End::Left, IdleLimit::end));
                    }
                    disconnect = disconnected(&mut self.disconnect, DisconnectSignal::Closing) => return Err(disconnect),
                    () = mail(self.listening.as_deref()) => {}
                }
            }
            self.stream.read_now(&mut self.input)?;
            self.proxy.shared.busy_poll.message_received();
        }
    }

    /// The limit of the idle time, if there is one.
    fn idle_limit(&self) -> Option<IdleLimit> {
        let own = IdleLimit {
            time: self.idle_session_timeout(),
            is_session: true,
        };
        let configured = IdleLimit {
            time: self.pool.settings().timeouts.client_idle_timeout,
            is_session: false,
        };
        let limits = [own, configured].into_iter();
        let limits = limits.filter(|limit| !limit.time.is_zero());
        limits.min_by_key(|limit| limit.time)
    }

    /// `idle_session_timeout`, which Paceline enforces in the server's place; zero is for ever.
    pub(super) fn idle_session_timeout(&self) -> Duration {
        match self.session.settings.idle_session_timeout() {
            IdleTimeout::NotSet => self.pool.idle_default(),
            IdleTimeout::Unread => Duration::ZERO,
            IdleTimeout::Is(time) => time,
        }
    }

    async fn carry_out(&mut self, bytes: Bytes) -> Result<(), End> {
        self.registration.entry.info.request_begins();
        let first = Frames::new(&bytes).next().map(|frame| frame.tag);
        if self.mode == PoolMode::Session && first == Some(tag::PARSE) {
            // The server that the client is to keep must have its statements.
            let wrap = self.wrap(&bytes).await;
            return self.carry_out_alone(bytes, wrap).await;
        }
        match self.plan(&bytes).await {
            RequestPlan::Answer(mut answer) => {
                self.count_answered(&bytes, answer.len());
                self.turn.message(tag::QUERY, answer.len());
                Ok(self.stream.write_all(&mut answer).await?)
            }
            RequestPlan::Listen(change, unit) if self.shares_listen() => {
                Box::pin(self.listen_alone(change, &unit)).await
            }
            RequestPlan::Listen(_, unit) => self.carry_out_alone(unit.bytes, Wrap::No).await,
            // Who keeps its server travels with nobody.
            RequestPlan::Group(unit) if self.mode == PoolMode::Session => {
                let wrap = match unit.template.hints().target_affect_row {
                    Some(_) => Wrap::Begin,
                    None => Wrap::No,
                };
                self.carry_out_alone(unit.bytes, wrap).await
            }
            RequestPlan::Group(unit) => self.carry_out_single(unit).await,
            RequestPlan::Prepare if self.mode != PoolMode::Session => {
                self.carry_out_names(bytes).await
            }
            RequestPlan::Relay | RequestPlan::Prepare | RequestPlan::Unparsed(_) => {
                let wrap = self.wrap(&bytes).await;
                self.carry_out_alone(bytes, wrap).await
            }
        }
    }

    /// Decides about a complete unit; its texts are parsed then.
    async fn plan(&mut self, bytes: &Bytes) -> RequestPlan {
        loop {
            let parses = self.proxy.shared.templates.parses();
            let plan = self
                .session
                .plan(bytes, &self.proxy.shared.templates, &*self.pool);
            if parses != self.proxy.shared.templates.parses() {
                self.turn.all();
            }
            match plan {
                RequestPlan::Unparsed(unparsed) => {
                    Box::pin(self.proxy.shared.parse(unparsed)).await
                }
                plan => return plan,
            }
        }
    }

    /// How a unit that goes alone, or the beginning of one, gets a transaction of its own.
    async fn wrap(&self, bytes: &Bytes) -> Wrap {
        loop {
            match self
                .session
                .is_targeted(bytes, &self.proxy.shared.templates)
            {
                Ok(true) => return Wrap::Begin,
                Ok(false) => return Wrap::No,
                Err(unparsed) => Box::pin(self.proxy.shared.parse(unparsed)).await,
            }
        }
    }

    /// No server was needed: only what went to and fro counts.
    pub(super) fn count_answered(&self, unit: &[u8], answer_len: usize) {
        let mut prepared = Prepared::default();
        Frames::new(unit).for_each(|frame| prepared.note(frame));
        let stats = &self.pool.stats;
        stats.prepared(prepared);
        stats.moved(unit.len() as u64, answer_len as u64);
        let info = &self.registration.entry.info;
        info.set_prepared(self.session.statements.named());
    }

    /// A unit that Paceline relays without a second look.
    async fn carry_out_alone(&mut self, bytes: Bytes, wrap: Wrap) -> Result<(), End> {
        match self.check_out().await? {
            WaitResult::Server(server) => {
                self.pool.stats.began_own();
                Box::pin(self.relay(server, &bytes, wrap, None)).await
            }
            other => self.take(other).await,
        }
    }

    /// Names of statements: PostgreSQL analyses what the client parses, unless the client would have to wait for a server connection.
    async fn carry_out_names(&mut self, bytes: Bytes) -> Result<(), End> {
        let settings = self.session.settings.id;
        let checkout = self.pool.check_out(WaitSpec::default(), false, || None);
        let (waiter, waits) = match checkout {
            CheckoutResult::Server(server) => return self.relay_alone(server, bytes).await,
            CheckoutResult::Refused(told) => return Err(End::Told(told)),
            CheckoutResult::Waiting(waiter, waits) => (waiter, waits),
        };
        let mut waits = waits;
        match tokio::time::timeout(NAMES_WAIT_MAX, &mut waits).await {
            Ok(Ok(WaitResult::Server(server))) => return self.relay_alone(server, bytes).await,
            Ok(Ok(WaitResult::Queued(further))) => waits = further,
            Ok(Ok(other)) => return self.take(other).await,
            Ok(Err(_)) => return Err(shut_down()),
            Err(_) => {}
        }
        let accepted = |template: &Template| self.pool.has_accepted(template.id, settings);
        let templates = &self.proxy.shared.templates;
        let answer = self.session.answer_prepare(&bytes, templates, &accepted);
        // A text that is to be parsed elsewhere first is not known.
        let Some(mut answer) = answer.ok().flatten() else {
            return match self.wait(waiter, waits, false).await? {
                WaitResult::Server(server) => self.relay_alone(server, bytes).await,
                other => self.take(other).await,
            };
        };
        if !self.pool.withdraw(waiter)
            && let Ok(WaitResult::Server(server)) = waits.await
        {
            // One has come meanwhile.
            server.give_back();
        }
        self.pool.forget(waiter);
        self.count_answered(&bytes, answer.len());
        Ok(self.stream.write_all(&mut answer).await?)
    }

    async fn relay_alone(&mut self, server: Box<PooledServer>, bytes: Bytes) -> Result<(), End> {
        self.pool.stats.began_own();
        Box::pin(self.relay(server, &bytes, Wrap::No, None)).await
    }

    /// One statement in autocommit: alone if it can start at once, else with others if it may.
    async fn carry_out_single(&mut self, unit: Box<Request>) -> Result<(), End> {
        let mut unit = PlannedRequest::from(unit);
        let settings = unit.settings.id;
        let (knowledge, tally) = self.pool.analysis(&unit.template, settings);
        let knowledge = match knowledge {
            Analysis::Running => Box::pin(self.pool.analysis_soon(&unit.template, settings)).await,
            known => known,
        };
        unit.stats = Some(Arc::clone(&tally));
        let (travel, learn) = match &knowledge {
            Analysis::Done(learned) => (learned.decide(&mut unit, self.pool.policy()), None),
            Analysis::Pending | Analysis::Running => (
                GroupingDecision::without_analysis(&unit, self.pool.policy()),
                None,
            ),
            Analysis::Needed => {
                let question = AnalysisTask::new(&self.pool, &unit);
                (
                    GroupingDecision::without_analysis(&unit, self.pool.policy()),
                    Some(question),
                )
            }
        };
        let wrap = match (unit.template.hints().target_affect_row, &travel.spec.keys) {
            (None, _) => Wrap::No,
            (Some(1), LineKeys::One(_)) => Wrap::OneRow,
            _ => Wrap::Begin,
        };
        let shown = travel.spec.group.is_some() || travel.spec.probe_group.is_some();
        let reads = travel.spec.group.is_some_and(|id| id.strategy.reads());
        let unit = Arc::new(unit);
        let checkout = self.pool.check_out(travel.spec, travel.would_group, || {
            shown.then(|| Arc::clone(&unit))
        });
        let (waiter, waits) = match checkout {
            CheckoutResult::Server(server) => {
                return self.relay_single(server, unit, wrap, learn).await;
            }
            CheckoutResult::Refused(told) => return Err(End::Told(told)),
            CheckoutResult::Waiting(waiter, waits) => (waiter, waits),
        };
        if travel.would_group {
            tally.count_would_have_grouped();
        }
        let delivery = self.wait(waiter, waits, reads).await?;
        if let Some(answer) = delivery.answer() {
            self.session
                .group_answered(&unit, answer, self.proxy.shared.templates.new_id());
            if let RequestForm::Extended { parse: true, .. } = unit.form {
                let info = &self.registration.entry.info;
                info.set_prepared(self.session.statements.named());
            }
        }
        match delivery {
            WaitResult::Server(server) => self.relay_single(server, unit, wrap, learn).await,
            other => self.take(other).await,
        }
    }

    async fn relay_single(
        &mut self,
        server: Box<PooledServer>,
        unit: Arc<PlannedRequest>,
        wrap: Wrap,
        learn: Option<AnalysisTask>,
    ) -> Result<(), End> {
        if let Some(tally) = &unit.stats {
            tally.count_alone();
        }
        let bytes = unit.bytes.clone();
        Box::pin(self.relay(server, &bytes, wrap, Some((unit, learn)))).await
    }
}

/// Returns when a pause is over; never without one.
async fn over(pause: &mut Option<Pin<Box<Sleep>>>) {
    match pause {
        Some(pause) => pause.await,
        None => std::future::pending().await,
    }
}
