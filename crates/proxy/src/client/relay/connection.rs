//! The server connection of a relay, from the client's settings on it to its return to the pool.

use super::{RelayOutcome, RelayTask, ServerDisposal};
use crate::cancel::ClientState;
use crate::client::Client;
use crate::client::end::{ClientEnd, shut_down};
use bytes::Bytes;
use paceline_batch::line::ROW_AWAITED_MAX;
use paceline_batch::strategy::PlannedRequest;
use paceline_net::optional_timeout;
use paceline_pool::analysis::AnalysisTask;
use paceline_pool::clock;
use paceline_pool::close_reason::CANCEL_PENDING;
use paceline_pool::messages;
use paceline_pool::pool::{
    Admission, AnalysisState, DisconnectSignal, PooledServer, RowsInFlight, WaitResult,
};
use paceline_pool::server::{ServerConn, ServerError};
use paceline_relay::relay::Wrap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which a relayed queue consumer makes others of its queue wait, so that they form a group afterwards. They need not wait for the
/// locks that it waits for: without Paceline they would skip those rows.
const QUEUE_HELD_MAX: Duration = Duration::from_millis(20);

/// A single statement in autocommit that is relayed. Its duration is measured.
pub(in crate::client) struct SingleRequest {
    pub(in crate::client) request: Arc<PlannedRequest>,
    /// The analysis of its template, if this client has taken that on.
    pub(in crate::client) analysis: Option<Box<AnalysisTask>>,
}

impl Client {
    /// Relays a request, and further ones until the relay is over. `single` is the request if it is a single statement.
    pub(in crate::client) async fn relay(
        &mut self,
        mut server: Box<PooledServer>,
        request: &Bytes,
        wrap: Wrap,
        single: Option<SingleRequest>,
    ) -> Result<(), ClientEnd> {
        // The request has begun, also if it needs another connection.
        self.admission = Admission::Always;
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
        if let Some(trace) = &mut self.trace {
            trace.relayed(conn.key.address(), single.is_some());
        }
        let entry = Arc::clone(&self.registration.entry);
        let start = clock::now();
        let is_first = single.is_some() || self.deferred.is_some();
        if !entry.relay_begins(conn.key.clone(), is_first.then_some(start)) {
            match &underway {
                None => return self.answer_cancelled(server).await,
                Some(_) => Box::pin(self.cancel_underway(conn)).await,
            }
        }
        let deferred = self.deferred.as_mut();
        let read = deferred.and_then(|deferred| deferred.read.take());
        let held_max = single.as_ref().and_then(|single| held_max(&single.request));
        let plain = match (&underway, &single, held_max) {
            (None, Some(single), None) => {
                self.relay_plain(conn, &single.request, wrap, start).await
            }
            _ => Err(None),
        };
        let outcome = match plain {
            Ok(outcome) => Ok(outcome),
            Err(sent) => {
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
                let relaying = std::pin::pin!(task.run_to_end(sent));
                match held_max {
                    Some(limit) => hold_rows(rows, limit, relaying).await,
                    None => relaying.await,
                }
            }
        };
        let cancel_pending = entry.relay_ends().await;
        if cancel_pending && let Some(conn) = server.conn() {
            conn.side.must_close = true;
            conn.closes_because(CANCEL_PENDING);
        }
        self.primary_served();
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
            false => match read {
                Some(read) if !outcome.failed => self.analyze_read(server, &read),
                _ => return_server(server, single, &outcome, start),
            },
        }
        if let Some(awaited) = outcome.awaited_end {
            Box::pin(self.await_end(awaited, &mut outcome.to_client)).await?;
            // Notifications of later commits may have arrived.
            self.primary_served();
        }
        // The server connection is already returned: a client that reads slowly delays no other client.
        if outcome.end.is_none() {
            self.send(&mut outcome.to_client).await?;
        }
        outcome.end.map_or(Ok(()), Err)
    }

    /// Returns the server connection after a transaction that could not be deferred any more because of this read. Analyzes the read
    /// first if no other client has, so that replicas may answer it in later transactions.
    fn analyze_read(&self, server: Box<PooledServer>, read: &PlannedRequest) {
        let (state, _) = self.pool.analysis(&read.template, read.settings.id);
        match state {
            AnalysisState::Needed => AnalysisTask::new(&self.pool, read).run(server),
            AnalysisState::Done(_) | AnalysisState::Pending | AnalysisState::Running => {
                server.give_back();
            }
        }
    }

    /// Answers a request that was cancelled before any of it was sent.
    async fn answer_cancelled(&mut self, server: Box<PooledServer>) -> Result<(), ClientEnd> {
        server.give_back();
        self.handle_wait_result(WaitResult::cancelled()).await
    }

    /// Cancels a shared read that this client takes over.
    async fn cancel_underway(&self, conn: &ServerConn) {
        let entry = &self.registration.entry;
        let limit = self.proxy.config().paceline.timeouts.cancel_wait_timeout;
        entry.relay_cancelled(&conn.key, limit).await;
    }

    /// Activates the client's settings on the server connection. If state of an earlier client prevents that, closes the connection
    /// and checks out another one. `None`: the client got another answer while it waited for that one.
    async fn adopt_settings(
        &mut self,
        mut server: Box<PooledServer>,
    ) -> Result<Option<Box<PooledServer>>, ClientEnd> {
        let limit = self.pool.settings().timeouts.query_timeout;
        let entry = Arc::clone(&self.registration.entry);
        loop {
            // `relay_begins` learns of a cancel request that arrives meanwhile.
            entry.set_state(ClientState::Starting);
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
            if entry.wait_ended(ClientState::Nothing) {
                self.handle_wait_result(WaitResult::cancelled()).await?;
                return Ok(None);
            }
            server = match self.check_out().await? {
                WaitResult::Server(another) => another,
                other => {
                    entry.wait_ended(ClientState::Nothing);
                    return self.handle_wait_result(other).await.map(|()| None);
                }
            };
        }
    }

    /// The error for a client whose server connection was lost.
    pub(super) fn connection_lost(&self) -> Bytes {
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
    let took = outcome.at - start;
    let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
    let bytes = u32::try_from(outcome.forwarded).unwrap_or(u32::MAX);
    request.record_pace(micros, bytes);
    if let Some(stats) = &request.stats {
        stats.count_alone_time(took);
    }
    match analysis {
        Some(analysis) if !outcome.failed => analysis.run(server),
        _ => server.give_back(),
    }
}

/// Time for which a relayed request keeps its rows in flight. `None`: to its end, because requests on the same row would wait for the same
/// locks.
fn held_max(request: &PlannedRequest) -> Option<Duration> {
    match request.plan.as_ref()? {
        plan if plan.is_queue() => Some(QUEUE_HELD_MAX),
        plan if plan.waits_for_several_rows() => Some(ROW_AWAITED_MAX),
        _ => None,
    }
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
