//! Starts a relay: with a request, or with a shared read whose answer is arriving.

use super::RelayTask;
use super::context::with_context;
use super::output::ClientOutput;
use crate::client::Client;
use bytes::Bytes;
use paceline_batch::strategy::PlannedRequest;
use paceline_config::PoolMode;
use paceline_pool::result_memory::ResultReservation;
use paceline_pool::server::ServerConn;
use paceline_relay::relay::{RelayState, Wrap};
use paceline_relay::request::{PartialAnswer, RequestForm};
use paceline_sql::SequenceUse;
use paceline_wire::Frames;
use paceline_wire::backend::Status;
use paceline_wire::frontend::tag;
use std::sync::Arc;
use std::time::Instant;

/// Extra capacity for statement names, which are longer on servers than most clients' names.
const NAMES_BYTES: usize = 128;

impl<'a> RelayTask<'a> {
    /// Starts a relay with a request, or with the BEGIN of the client's deferred transaction. `planned` is the request if it is a
    /// single statement.
    pub(super) fn start(
        client: &'a mut Client,
        conn: &'a mut ServerConn,
        request: &Bytes,
        planned: Option<&Arc<PlannedRequest>>,
        wrap: Wrap,
        start: Instant,
    ) -> Self {
        let mut to_server = conn.buffers.take_to_server();
        to_server.reserve(request.len() + NAMES_BYTES);
        let deferred = client.deferred.take();
        // In a transaction that the client has begun, nothing else needs one.
        let wrap = if deferred.is_some() { Wrap::No } else { wrap };
        let mut relay = with_context(client, conn, |context| {
            RelayState::start(context, wrap, &mut to_server)
        });
        if client.mode == PoolMode::Session {
            relay.use_session_pooling();
        }
        if let Some(transaction) = deferred {
            let mut task = Self::new(client, conn, relay, start);
            task.to_server = to_server;
            task.begin_with(transaction, request);
            return task;
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
    pub(super) fn take_over(
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
        if let Some(spans) = &mut task.spans {
            spans.take_over();
        }
        task
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

/// Whether these messages end with the end of a request.
pub(super) fn is_complete(request: &[u8]) -> bool {
    let last = Frames::new(request).last().map(|frame| frame.tag);
    matches!(last, Some(tag::SYNC | tag::QUERY | tag::FUNCTION_CALL))
}
