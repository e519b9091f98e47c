//! A pool of connections to a shard. It serves single statements, in groups of one or more; one that certainly has done nothing may
//! be sent to the coordinator by its client.

use super::{
    Admission, AnalysisState, CheckoutResult, Pool, Purpose, SubmitResult, WaitResult, Waiter,
};
use crate::analysis::AnalysisTask;
use crate::clock;
use paceline_batch::analysis::GroupingDecision;
use paceline_batch::line::{GroupId, WaitSpec};
use paceline_batch::strategy::PlannedRequest;
use paceline_cluster::Lsn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

impl Pool {
    /// Whether the pool leads to a shard.
    pub fn is_of_shard(&self) -> bool {
        self.shard.is_some()
    }

    /// Whether the database has shards, of which this is the pool of the coordinator.
    pub fn has_shards(&self) -> bool {
        self.has_shards.load(Ordering::Relaxed)
    }

    /// From now on the database has shards, or none. What is known of templates must contain what shards need.
    pub(crate) fn set_has_shards(&self, has_shards: bool) {
        if has_shards && !self.has_shards.swap(true, Ordering::Relaxed) {
            self.forget_analyses();
        }
        self.has_shards.store(has_shards, Ordering::Relaxed);
    }

    /// Whether the pool is beside the one that clients name, with which it counts.
    pub fn is_beside(&self) -> bool {
        self.is_of_shard() || self.is_of_replica()
    }

    /// Whether there is no connection, and none can be opened now.
    pub fn is_unreachable(&self) -> bool {
        self.lock().servers.is_unreachable(clock::now())
    }

    /// Puts a statement into the line for connections to a shard.
    pub fn submit(
        self: &Arc<Self>,
        admission: Admission,
        mut request: PlannedRequest,
    ) -> SubmitResult {
        let spec = self.decide_on_shard(&mut request);
        let now = clock::now();
        let mut inner = self.lock();
        if inner.servers.is_unreachable(now) {
            return SubmitResult::Unreachable;
        }
        if let Some(answer) = self.refusal_in_line(&mut inner, now, &spec, admission) {
            return SubmitResult::Full(answer);
        }
        let (answer, result) = oneshot::channel();
        let waiter = Waiter {
            purpose: Purpose::Request,
            request: Some(Arc::new(request)),
            answer,
            queued_sent: false,
            position: Lsn::ZERO,
        };
        let id = self.enter_line(&mut inner, now, spec, waiter);
        if inner.servers.is_unreachable(now) {
            self.send_elsewhere(&mut inner, now);
            return SubmitResult::Unreachable;
        }
        SubmitResult::Waiting(id, result)
    }

    /// The group in which a replica of the shard may answer a read. `None`: the primary must, also while the analysis of its template on
    /// the shard is not in force: the statement that the primary executes then begins it.
    pub fn group_on_replica(&self, request: &mut PlannedRequest) -> Option<GroupId> {
        let (template, settings) = (request.template.id, request.settings.id);
        let analysis = {
            let inner = self.lock();
            let redefined = self.redefined(&inner);
            inner.analyses.in_force(template, settings, redefined)?
        };
        // Its group needs what is decided about it.
        analysis.decide(request, self.policy());
        analysis.group_on_replica(request)
    }

    /// The pool is used no more: the coordinator executes the statements in its line. Those under way end on their connections.
    pub(crate) fn leave_shard(&self) {
        self.send_elsewhere(&mut self.lock(), clock::now());
    }

    /// Decides how a statement enters the line, by the analysis of its template on the shard. The first statement begins it.
    fn decide_on_shard(self: &Arc<Self>, request: &mut PlannedRequest) -> WaitSpec {
        let policy = self.policy();
        let (state, _) = self.analysis(&request.template, request.settings.id);
        let decision = match state {
            AnalysisState::Done(analysis) => analysis.decide(request, policy),
            AnalysisState::Pending | AnalysisState::Running => {
                request.awaits_analysis = true;
                GroupingDecision::without_analysis(request)
            }
            AnalysisState::Needed => {
                request.awaits_analysis = true;
                let task = AnalysisTask::new(self, request);
                tokio::spawn(Arc::clone(self).analyze(task));
                GroupingDecision::without_analysis(request)
            }
        };
        decision.spec
    }

    /// Analyzes a template on a connection of its own: no client relays statements to a shard, and the coordinator may reject a statement
    /// that a shard executes.
    pub async fn analyze(self: Arc<Self>, task: AnalysisTask) {
        let spec = WaitSpec::default();
        let server = match self.check_out(Admission::Always, spec, false, || None) {
            CheckoutResult::Server(server) => server,
            CheckoutResult::Refused(_) | CheckoutResult::Full(_) => return,
            CheckoutResult::Waiting(_, result) => match result.await {
                Ok(WaitResult::Server(server)) => server,
                _ => return,
            },
        };
        task.run_apart(server).await;
    }
}
