//! A pool of connections to a replica. It serves only reads, in groups of one or more. A read that it cannot serve is sent to the
//! primary by its client.

use super::{Admission, Inner, Pool, Purpose, SubmitResult, WaitResult, Waiter};
use crate::clock;
use crate::close_reason;
use paceline_batch::line::{GroupId, WaitSpec, WaiterId};
use paceline_batch::strategy::PlannedRequest;
use paceline_cluster::Lsn;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::oneshot;

impl Pool {
    /// Whether the pool leads to a replica.
    pub fn is_of_replica(&self) -> bool {
        self.replica.is_some()
    }

    /// Shows the pool in the console under the name of the primary's pool, if that has one.
    pub(crate) fn name_as(&self, primary: &Self) {
        if let Some(name) = primary.name.get() {
            self.set_name(&name.database, &name.user);
        }
    }

    /// Puts a read into the line for connections to a replica that has replayed the log up to `position`.
    pub fn read(
        self: &Arc<Self>,
        admission: Admission,
        group: GroupId,
        request: Arc<PlannedRequest>,
        position: Lsn,
    ) -> SubmitResult {
        let now = clock::now();
        let mut inner = self.lock();
        if inner.servers.refusal(now).is_some() {
            return SubmitResult::Unreachable;
        }
        let spec = WaitSpec {
            group: Some(group),
            ..WaitSpec::default()
        };
        if let Some(answer) = self.refusal_in_line(&mut inner, now, &spec, admission) {
            return SubmitResult::Full(answer);
        }
        let (answer, result) = oneshot::channel();
        let waiter = Waiter {
            purpose: Purpose::Request,
            request: Some(request),
            answer,
            queued_sent: false,
            position,
        };
        let id = self.enter_line(&mut inner, now, spec, waiter);
        if inner.servers.open == 0 {
            self.send_elsewhere(&mut inner, now);
            return SubmitResult::Unreachable;
        }
        SubmitResult::Waiting(id, result)
    }

    /// Reads that wait or are under way.
    pub(crate) fn work(&self) -> usize {
        let inner = self.lock();
        let servers = &inner.servers;
        inner.line.len() + servers.open.saturating_sub(servers.idle.len())
    }

    /// The replica may not serve reads any more: those that wait or are under way run elsewhere.
    pub(crate) fn leave_replica(self: &Arc<Self>) {
        let now = clock::now();
        let mut inner = self.lock();
        if inner.servers.open == 0 && inner.line.is_empty() {
            return;
        }
        self.replace_connections(&mut inner, close_reason::REPLICA_LOST);
        let past = inner.servers.past.iter().filter_map(Weak::upgrade);
        past.for_each(|generation| generation.shut_down());
        self.send_elsewhere(&mut inner, now);
    }

    /// Sends the requests in the line to the primary, or to the coordinator.
    pub(super) fn send_elsewhere(&self, inner: &mut Inner, now: Instant) {
        let entries = inner.line.drain(now);
        self.leaves_line(entries.len());
        for entry in entries {
            // A client that has left needs no answer.
            let _ = entry.request.answer.send(WaitResult::Elsewhere);
        }
    }

    /// Sends a read in the line of the primary to a replica.
    pub(super) fn send_read_elsewhere(&self, inner: &mut Inner, now: Instant, waiter: WaiterId) {
        if let Some(entry) = inner.line.withdraw(now, waiter) {
            self.leaves_line(1);
            // A client that has left needs no answer.
            let _ = entry.request.answer.send(WaitResult::Elsewhere);
        }
    }

    /// A connection could not be opened, or was lost: the state of its host may have changed.
    pub(super) fn suspect_host(&self, inner: &Inner) {
        let replica = self.replica.as_ref().map(|replica| &replica.hosts);
        if let Some(hosts) = inner.servers.hosts.as_ref().or(replica) {
            hosts.suspect();
        }
    }

    /// Puts a request into the line, and hands idle connections on.
    pub(super) fn enter_line(
        self: &Arc<Self>,
        inner: &mut Inner,
        now: Instant,
        spec: WaitSpec,
        waiter: Waiter,
    ) -> WaiterId {
        self.shared.busy_poll.request_queued();
        let id = inner.line.submit(now, spec, waiter);
        self.enters_line(1);
        self.decide_if_analyzed(inner, now, id);
        if inner.servers.open == 0 || !inner.servers.idle.is_empty() {
            self.dispatch(inner, now);
        }
        self.start_timer(inner);
        id
    }
}
