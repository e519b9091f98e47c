//! The requests of a client: each is answered at once, relayed, or put into the line.

use super::idle_timer::{IdleLimit, IdleReason, IdleTimer};
use super::replicas::PositionRequest;
use super::taken::Taken;
use super::trace::RequestTrace;
use super::{Client, ClientEnd, disconnected, shut_down};
use crate::cancel::ClientState;
use crate::shared_listen::notification_ready;
use bytes::{Buf, Bytes, BytesMut};
use paceline_batch::line::{WaitSpec, WaiterId};
use paceline_config::PoolMode;
use paceline_pool::pool::{CheckoutResult, DisconnectSignal, PooledServer, WaitResult};
use paceline_pool::stats::{PreparedCounts, first_state};
use paceline_relay::relay::Wrap;
use paceline_relay::request::Boundary;
use paceline_relay::session::RequestPlan;
use paceline_relay::settings::IdleTimeout;
use paceline_relay::template::Template;
use paceline_wire::backend::Status;
use paceline_wire::frontend::tag;
use paceline_wire::{ErrorResponse, Frames, WireError};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// If the rest of a request that could be grouped does not arrive within this time, the request is relayed: its client waits for
/// something other than the answer. (Parts of one packet arrive sooner.)
const REQUEST_PAUSE_MAX: Duration = Duration::from_millis(5);

/// Maximum time that a request which only prepares statements waits for a server connection, if PostgreSQL accepted the same texts
/// before the last DDL: other connections of the same program may hold all server connections and wait for this one. If PostgreSQL
/// accepted the texts after the last DDL, the request does not wait.
const NAMES_WAIT_MAX: Duration = Duration::from_millis(5);

impl Client {
    pub(super) async fn run(&mut self) {
        let end = loop {
            if let Err(end) = self.serve_request().await {
                break end;
            }
            if self.budget.is_exhausted() {
                self.budget.yield_now().await;
            }
        };
        self.log_end(&end);
        let mut out = BytesMut::new();
        match end {
            // PostgreSQL closes the connection without an error if the length word is invalid.
            ClientEnd::Left | ClientEnd::Io(_) | ClientEnd::Wire(WireError::FrontendLength) => {
                return;
            }
            ClientEnd::Wire(error) => {
                ErrorResponse::fatal("08P01", error.to_string()).write(&mut out)
            }
            ClientEnd::Error(message) => {
                if let Some(state) = first_state(&message) {
                    self.pool.stats.failed(state);
                }
                out.extend_from_slice(&message);
            }
            ClientEnd::ServerLost(message) => out.extend_from_slice(&message),
        }
        self.send_last(out).await;
    }

    async fn serve_request(&mut self) -> Result<(), ClientEnd> {
        let boundary = self.next_boundary().await?;
        self.finish_delivery().await?;
        match boundary {
            Boundary::Complete(len) => {
                self.budget.bytes(len);
                let bytes = self.input.split_to(len).freeze();
                self.trace_begins(&bytes);
                let end = match self.begin_request(&bytes, Taken::All).await {
                    Ok(true) => self.handle(bytes).await,
                    Ok(false) => Ok(()),
                    Err(end) => Err(end),
                };
                self.trace_ends(&end);
                end
            }
            Boundary::Relay(len) | Boundary::Long(len) => {
                let bytes = self.input.split_to(len).freeze();
                self.trace_begins(&bytes);
                let end = match self.begin_request(&bytes, Taken::of(&bytes)).await {
                    Ok(true) => {
                        let wrap = self.wrap(&bytes).await;
                        self.relay_alone(bytes, wrap).await
                    }
                    Ok(false) => Ok(()),
                    Err(end) => Err(end),
                };
                self.trace_ends(&end);
                end
            }
            Boundary::Ignored(len) => {
                self.input.advance(len);
                self.budget.bytes(len);
                Ok(())
            }
            Boundary::Terminate(_) | Boundary::Incomplete => Err(ClientEnd::Left),
        }
    }

    /// A request begins with these messages. Decides whether it is traced.
    fn trace_begins(&mut self, messages: &Bytes) {
        if self.proxy.shared.traces.is_on() {
            self.trace = RequestTrace::begin(&self.proxy.shared, messages);
        }
    }

    /// A request has ended. If no relay has taken its span over, the span ends.
    fn trace_ends(&mut self, end: &Result<(), ClientEnd>) {
        if let Some(mut trace) = self.trace.take() {
            end.as_ref()
                .err()
                .into_iter()
                .for_each(|end| trace.client_ends(end));
            trace.end(&self.proxy.shared, &self.session);
        }
    }

    /// Reads until a request is complete, or must be relayed in parts.
    async fn next_boundary(&mut self) -> Result<Boundary, ClientEnd> {
        loop {
            self.take_begin();
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
            // Boxed, and only present in the middle of a request: it is rare, and would be part of every client's state.
            let mut pause = self
                .scanner
                .awaits_more()
                .then(|| Box::pin(tokio::time::sleep(REQUEST_PAUSE_MAX)));
            loop {
                // PostgreSQL delivers no notification in a transaction.
                let delivers = self.deferred.is_none();
                let interest = match delivers {
                    true => self.deliver()?,
                    false => Interest::READABLE,
                };
                tokio::select! {
                    biased;
                    ready = self.stream.ready(interest) => match ready?.is_readable() {
                        true => break,
                        false => continue,
                    },
                    () = over(&mut pause) => return Ok(self.scanner.give_up()),
                    () = IdleTimer::is_too_long(&mut self.idle_timer) => {
                        return Err(limit.map_or(ClientEnd::Left, IdleLimit::end));
                    }
                    disconnect = disconnected(&mut self.disconnect, DisconnectSignal::Closing) => return Err(disconnect),
                    () = notification_ready(self.listening.as_deref()), if delivers => {}
                }
            }
            self.stream.read_now(&mut self.input)?;
            self.proxy.shared.busy_poll.message_received();
        }
    }

    /// The shortest limit of the idle time; `None` without a limit.
    fn idle_limit(&mut self) -> Option<IdleLimit> {
        if let Some(deferred) = &self.deferred {
            return self.idle_limit_in_transaction(deferred.idle_max);
        }
        let configured = self.pool_settings.load().timeouts.client_idle_timeout;
        IdleLimit::shortest([
            (self.idle_session_timeout(), IdleReason::Session),
            (configured, IdleReason::Client),
        ])
    }

    /// `idle_session_timeout`, which Paceline enforces instead of the server; zero means none.
    pub(super) fn idle_session_timeout(&self) -> Duration {
        match self.session.settings.idle_session_timeout() {
            IdleTimeout::NotSet => self.pool.idle_default(),
            IdleTimeout::Unread => Duration::ZERO,
            IdleTimeout::Is(time) => time,
        }
    }

    async fn handle(&mut self, bytes: Bytes) -> Result<(), ClientEnd> {
        self.registration.entry.info.request_begins();
        if let Some(mut answer) = self.answer_transaction(&bytes) {
            if self.deferred.is_none() && self.listening.is_some() {
                // Boxed, because its state would be part of every client.
                Box::pin(self.append_notifications(&mut answer)).await?;
            }
            Status::Idle.write(&mut answer);
            return self.send_local(&bytes, answer).await;
        }
        if self.has_failed() {
            return self.relay_alone(bytes, Wrap::No).await;
        }
        let first = Frames::new(&bytes).next().map(|frame| frame.tag);
        if self.mode == PoolMode::Session && first == Some(tag::PARSE) {
            // The server connection that the client will keep needs the client's statements.
            let wrap = self.wrap(&bytes).await;
            return self.relay_alone(bytes, wrap).await;
        }
        let Some(plan) = self.plan(&bytes).await? else {
            return Ok(());
        };
        match plan {
            RequestPlan::Answer(answer) => self.send_local(&bytes, answer).await,
            RequestPlan::Listen(change, request)
                if self.deferred.is_none() && self.shares_listen() =>
            {
                Box::pin(self.listen_alone(change, &request)).await
            }
            RequestPlan::Listen(_, request) => self.relay_alone(request.bytes, Wrap::No).await,
            // In session mode a client is in no group.
            RequestPlan::Group(request) if self.mode == PoolMode::Session => {
                let wrap = Wrap::of(request.template.hints());
                self.relay_alone(request.bytes, wrap).await
            }
            RequestPlan::Group(request) => self.handle_single(request).await,
            RequestPlan::Prepare if self.mode != PoolMode::Session && self.deferred.is_none() => {
                self.prepare_names(bytes).await
            }
            RequestPlan::Relay | RequestPlan::Prepare | RequestPlan::Unparsed(_) => {
                let wrap = self.wrap(&bytes).await;
                self.relay_alone(bytes, wrap).await
            }
        }
    }

    /// Sends the answer to a request that needs no server.
    async fn send_local(&mut self, bytes: &Bytes, answer: BytesMut) -> Result<(), ClientEnd> {
        self.count_answered(bytes, answer.len());
        self.budget.message(tag::QUERY, answer.len());
        self.send_answer(answer, false).await
    }

    /// Classifies a complete request; parses its texts for that. `None`: the client has got an error.
    async fn plan(&mut self, bytes: &Bytes) -> Result<Option<RequestPlan>, ClientEnd> {
        match self.position_request(bytes).await? {
            PositionRequest::Other => {}
            PositionRequest::Of(source) => {
                let templates = &self.proxy.shared.templates;
                let plan = self.session.plan(bytes, templates, &source);
                self.follow(source);
                return Ok(Some(plan));
            }
            PositionRequest::Answered => return Ok(None),
        }
        loop {
            let parses = self.proxy.shared.templates.parses();
            let plan = self
                .session
                .plan(bytes, &self.proxy.shared.templates, &*self.pool);
            if parses != self.proxy.shared.templates.parses() {
                self.budget.exhaust();
            }
            match plan {
                RequestPlan::Unparsed(unparsed) => {
                    let entry = Arc::clone(&self.registration.entry);
                    entry.set_state(ClientState::Starting);
                    Box::pin(self.proxy.shared.parse(unparsed)).await;
                    if entry.wait_ended(ClientState::Nothing) {
                        self.handle_wait_result(WaitResult::cancelled()).await?;
                        return Ok(None);
                    }
                }
                plan => return Ok(Some(plan)),
            }
        }
    }

    /// Whether a request that is relayed needs a transaction of its own.
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

    /// Counts a request that was answered without a server.
    pub(super) fn count_answered(&self, request: &[u8], answer_len: usize) {
        let mut prepared = PreparedCounts::default();
        Frames::new(request).for_each(|frame| prepared.note(frame));
        let stats = &self.pool.stats;
        stats.prepared(prepared);
        stats.moved(request.len() as u64, answer_len as u64);
        let info = &self.registration.entry.info;
        info.set_prepared(self.session.statements.named());
    }

    /// Relays a request that joins no group.
    pub(super) async fn relay_alone(&mut self, bytes: Bytes, wrap: Wrap) -> Result<(), ClientEnd> {
        match self.check_out().await? {
            WaitResult::Server(server) => {
                self.pool.stats.began_own();
                Box::pin(self.relay(server, &bytes, wrap, None)).await
            }
            other => self.handle_wait_result(other).await,
        }
    }

    /// Prepares statements. PostgreSQL analyzes them, unless the client would have to wait for a server connection.
    async fn prepare_names(&mut self, bytes: Bytes) -> Result<(), ClientEnd> {
        let (admission, spec) = (self.admission, WaitSpec::default());
        let checkout = self.pool.check_out(admission, spec, false, || None);
        let (waiter, receiver) = match checkout {
            CheckoutResult::Server(server) => return self.relay_on(server, bytes).await,
            CheckoutResult::Refused(message) => return Err(ClientEnd::Error(message)),
            CheckoutResult::Full(answer) => {
                return self.handle_wait_result(WaitResult::Answer(answer)).await;
            }
            CheckoutResult::Waiting(waiter, receiver) => (waiter, receiver),
        };
        let mut receiver = receiver;
        let mut answer = self.answer_prepare(&bytes, self.proxy.shared.last_ddl());
        if answer.is_none() {
            let entry = Arc::clone(&self.registration.entry);
            entry.set_state(ClientState::Waiting(Arc::clone(&self.pool), waiter));
            let waited = tokio::time::timeout(NAMES_WAIT_MAX, &mut receiver).await;
            if entry.wait_ended(ClientState::Nothing) {
                // The request left the line before the cancel request arrived.
                self.pool.forget(waiter);
                match waited {
                    Ok(Ok(WaitResult::Server(server))) => server.give_back(),
                    Ok(_) => {}
                    Err(_) => self.leave_line(waiter, receiver).await,
                }
                return self.handle_wait_result(WaitResult::cancelled()).await;
            }
            match waited {
                Ok(Ok(WaitResult::Server(server))) => return self.relay_on(server, bytes).await,
                Ok(Ok(WaitResult::Queued(further))) => receiver = further,
                Ok(Ok(other)) => return self.handle_wait_result(other).await,
                Ok(Err(_)) => return Err(shut_down()),
                Err(_) => {}
            }
            answer = self.answer_prepare(&bytes, 0);
        }
        let Some(mut answer) = answer else {
            return match self.wait(waiter, receiver, false).await? {
                WaitResult::Server(server) => self.relay_on(server, bytes).await,
                other => self.handle_wait_result(other).await,
            };
        };
        self.leave_line(waiter, receiver).await;
        self.count_answered(&bytes, answer.len());
        self.send(&mut answer).await
    }

    /// Withdraws a request that needs no server connection any more.
    async fn leave_line(&self, waiter: WaiterId, receiver: oneshot::Receiver<WaitResult>) {
        if !self.pool.withdraw(waiter)
            && let Ok(WaitResult::Server(server)) = receiver.await
        {
            // A connection became free in the meantime.
            server.give_back();
        }
    }

    /// Answers a request that prepares statements, if PostgreSQL has accepted each of them after this time. `None` also for a text
    /// that must be parsed in another thread first.
    fn answer_prepare(&mut self, bytes: &Bytes, after: u64) -> Option<BytesMut> {
        let (pool, settings) = (&self.pool, self.session.settings.id);
        let accepted = |template: &Template| pool.has_accepted(template.id, settings, after);
        let templates = &self.proxy.shared.templates;
        let answer = self.session.answer_prepare(bytes, templates, &accepted);
        answer.ok().flatten()
    }

    async fn relay_on(&mut self, server: Box<PooledServer>, bytes: Bytes) -> Result<(), ClientEnd> {
        self.pool.stats.began_own();
        Box::pin(self.relay(server, &bytes, Wrap::No, None)).await
    }
}

/// Returns when the pause is over; without one, never.
async fn over(pause: &mut Option<Pin<Box<Sleep>>>) {
    match pause {
        Some(pause) => pause.await,
        None => std::future::pending().await,
    }
}
