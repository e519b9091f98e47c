//! Single statements in autocommit or in a deferred transaction: a replica answers a statement if it may; else the statement is relayed
//! if it can start at once; else it may join a group.

use super::relay::SingleRequest;
use super::shards::ShardEnd;
use super::{Client, ClientEnd};
use crate::cancel::ClientState;
use bytes::Bytes;
use paceline_batch::analysis::{GroupingDecision, TemplateAnalysis};
use paceline_batch::strategy::PlannedRequest;
use paceline_pool::analysis::AnalysisTask;
use paceline_pool::pool::{AnalysisState, CheckoutResult, PooledServer, WaitResult};
use paceline_relay::relay::Wrap;
use paceline_relay::request::{Request, RequestForm};
use std::sync::Arc;

/// A single statement that has asked for a server connection.
struct EnteredSingle {
    checkout: CheckoutResult,
    planned: Arc<PlannedRequest>,
    wrap: Wrap,
    /// The client analyzes its template afterwards.
    analysis: Option<Box<AnalysisTask>>,
    /// Whether it is a plain read.
    reads: bool,
}

impl Client {
    /// Handles a single statement in autocommit or in a deferred transaction.
    pub(super) async fn handle_single(&mut self, request: Box<Request>) -> Result<(), ClientEnd> {
        let mut request = PlannedRequest::from(request);
        let trace = self.trace.as_mut();
        request.trace = trace.map(|trace| trace.member(&request.template));
        let mut may_use_shard = true;
        // Kept until the statement has ended.
        let mut _outage = None;
        loop {
            let settings = request.settings.id;
            let (mut state, stats) = self.pool.analysis(&request.template, settings);
            request.stats = Some(stats);
            let mut last = match may_use_shard {
                true => self.last_analysis(&mut state, &request),
                false => None,
            };
            let awaits = match &state {
                _ if last.is_some() => false,
                AnalysisState::Done(_) => false,
                AnalysisState::Running => true,
                AnalysisState::Pending | AnalysisState::Needed => {
                    may_use_shard && self.may_use_shard(&request)
                }
            };
            if awaits {
                state = match Box::pin(self.await_analysis(state, &request)).await {
                    Some(state) => state,
                    None => return self.handle_wait_result(WaitResult::cancelled()).await,
                };
                if may_use_shard {
                    last = self.last_analysis(&mut state, &request);
                }
            }
            if let Some(read) = self.replica_read(&state, &request) {
                // Its group needs what is decided about it.
                self.decide(&state, &mut request);
                let planned = Arc::new(request);
                // Boxed, because its state would be part of every client.
                if Box::pin(self.read_on_replica(read, &planned, &planned)).await? {
                    return Ok(());
                }
                request = Arc::unwrap_or_clone(planned);
            }
            if may_use_shard && self.shards.load().is_some() {
                may_use_shard = false;
                // Boxed, because its state would be part of every client.
                match Box::pin(self.try_shard(last.as_ref(), &state, &request)).await? {
                    ShardEnd::Answered => return Ok(()),
                    ShardEnd::Coordinator(permit) => _outage = permit,
                }
            }
            if self.deferred.is_some() {
                let bytes = self.begin_deferred(&state, request);
                let relayed = Box::pin(self.relay_alone(bytes, Wrap::No)).await;
                if let Some(deferred) = &mut self.deferred {
                    // The transaction has not begun.
                    deferred.read = None;
                }
                return relayed;
            }
            let entered = self.enter_line(&state, request);
            let (wrap, analysis, planned) = (entered.wrap, entered.analysis, entered.planned);
            let result = match entered.checkout {
                CheckoutResult::Server(server) => WaitResult::Server(server),
                CheckoutResult::Refused(message) => WaitResult::Fatal(message),
                CheckoutResult::Full(answer) => WaitResult::Answer(answer),
                CheckoutResult::Waiting(waiter, receiver) => {
                    let result = self.wait(waiter, receiver, entered.reads).await?;
                    self.note_group_answer(&planned, &result);
                    result
                }
            };
            match result {
                WaitResult::Server(server) => {
                    return self.relay_single(server, planned, wrap, analysis).await;
                }
                // It is a read that a replica may answer.
                WaitResult::Elsewhere => request = Arc::unwrap_or_clone(planned),
                other => return self.handle_wait_result(other).await,
            }
        }
    }

    /// The result that shards use while the analysis of a template is being repeated. Begins the repetition if the caller must.
    fn last_analysis(
        &self,
        state: &mut AnalysisState,
        request: &PlannedRequest,
    ) -> Option<Arc<TemplateAnalysis>> {
        if matches!(state, AnalysisState::Done(_)) || !self.may_use_shard(request) {
            return None;
        }
        let (template, settings) = (request.template.id, request.settings.id);
        let last = self.pool.last_analysis(template, settings)?;
        self.begin_analysis(state, request);
        Some(last)
    }

    /// Begins an analysis for which no client waits, if the caller must.
    fn begin_analysis(&self, state: &mut AnalysisState, request: &PlannedRequest) {
        if matches!(state, AnalysisState::Needed) {
            let task = AnalysisTask::new(&self.pool, request);
            tokio::spawn(Arc::clone(&self.pool).analyze(task));
            *state = AnalysisState::Pending;
        }
    }

    /// Waits shortly for the end of an analysis that runs. If the statement may run on a shard, waits longer, and begins it.
    /// `None`: the client has cancelled its request.
    async fn await_analysis(
        &self,
        mut state: AnalysisState,
        request: &PlannedRequest,
    ) -> Option<AnalysisState> {
        let (pool, template) = (&self.pool, &request.template);
        let settings = request.settings.id;
        let ended = async {
            match self.may_use_shard(request) {
                true => {
                    self.begin_analysis(&mut state, request);
                    pool.analysis_ended(template, settings).await
                }
                false => pool.analysis_soon(template, settings).await,
            }
        };
        let mut found = None;
        let entry = &self.registration.entry;
        let result = entry
            .unless_cancelled(ClientState::Starting, async { found = Some(ended.await) })
            .await;
        if result.is_none()
            && let Some(found) = &mut found
        {
            // Other clients count on the one that must analyze the template.
            self.begin_analysis(found, request);
        }
        result.and(found)
    }

    /// A statement with which a deferred transaction really begins. It joins no group, which would run outside of the transaction. The
    /// analysis is left to any client, because the transaction may take long.
    fn begin_deferred(&mut self, state: &AnalysisState, mut request: PlannedRequest) -> Bytes {
        let (_, analysis) = self.decide(state, &mut request);
        drop(analysis);
        let bytes = request.bytes.clone();
        if let Some(deferred) = &mut self.deferred {
            deferred.read = Some(Arc::new(request));
        }
        bytes
    }

    /// Asks for a server connection for a single statement. Not async, because the decision would be part of every client.
    fn enter_line(&self, state: &AnalysisState, mut request: PlannedRequest) -> EnteredSingle {
        let (decision, analysis) = self.decide(state, &mut request);
        let reads = decision.joins_reads();
        let GroupingDecision { spec, would_group } = decision;
        let wrap = Wrap::of(request.template.hints());
        let planned = Arc::new(request);
        let shown = spec.group.is_some() || spec.probe_group.is_some() || planned.awaits_analysis;
        let checkout = self.pool.check_out(self.admission, spec, would_group, || {
            shown.then(|| Arc::clone(&planned))
        });
        if would_group
            && let (CheckoutResult::Waiting(..), Some(stats)) = (&checkout, &planned.stats)
        {
            stats.count_would_have_grouped();
        }
        EnteredSingle {
            checkout,
            planned,
            wrap,
            analysis,
            reads,
        }
    }

    /// Decides how a single statement enters the line, by the analysis of its template. The client may have to analyze it after the
    /// request; if another client has to, the pool decides again when that analysis ends.
    fn decide(
        &self,
        state: &AnalysisState,
        request: &mut PlannedRequest,
    ) -> (GroupingDecision, Option<Box<AnalysisTask>>) {
        let policy = self.pool.policy();
        request.awaits_analysis = false;
        let analysis = match state {
            AnalysisState::Done(analysis) => return (analysis.decide(request, policy), None),
            AnalysisState::Pending | AnalysisState::Running => None,
            AnalysisState::Needed => Some(Box::new(AnalysisTask::new(&self.pool, request))),
        };
        request.awaits_analysis = analysis.is_none();
        request.prefers_replica = self.prefers_replica(request);
        let decision = GroupingDecision::without_analysis(request);
        (decision, analysis)
    }

    /// The client analyzes the template after its request if the client that was to analyze it has left, or its request has failed.
    fn take_over_analysis(&self, request: &PlannedRequest) -> Option<Box<AnalysisTask>> {
        if !request.awaits_analysis {
            return None;
        }
        let (state, _) = self.pool.analysis(&request.template, request.settings.id);
        let needed = matches!(state, AnalysisState::Needed);
        needed.then(|| Box::new(AnalysisTask::new(&self.pool, request)))
    }

    /// Notes what the answer that a group has brought changes for the client.
    pub(super) fn note_group_answer(&mut self, request: &Request, result: &WaitResult) {
        let Some(answer) = result.answer() else {
            return;
        };
        let now = self.proxy.shared.templates.new_id();
        self.session.group_answered(request, answer, now);
        if let RequestForm::Extended { parse: true, .. } = request.form {
            let info = &self.registration.entry.info;
            info.set_prepared(self.session.statements.named());
        }
    }

    async fn relay_single(
        &mut self,
        mut server: Box<PooledServer>,
        request: Arc<PlannedRequest>,
        wrap: Wrap,
        analysis: Option<Box<AnalysisTask>>,
    ) -> Result<(), ClientEnd> {
        let request = server.take_request().unwrap_or(request);
        let analysis = analysis.or_else(|| self.take_over_analysis(&request));
        if let Some(stats) = &request.stats {
            stats.count_alone();
        }
        let bytes = request.bytes.clone();
        let single = SingleRequest { request, analysis };
        Box::pin(self.relay(server, &bytes, wrap, Some(single))).await
    }
}
