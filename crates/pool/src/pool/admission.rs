//! Limits of the requests that a pool accepts. `max_requests_per_second`: requests wait before they ask for a server connection.
//! `max_queued`: if so many requests wait, in the line or for their turn, further ones are refused. The pools of replicas and shards
//! count with the pool beside which they are.

use super::{Inner, Pool};
use crate::messages;
use bytes::Bytes;
use paceline_batch::line::WaitSpec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum time after which the first request that waits for its turn looks at the limit again: a reload may have changed it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether `max_queued` applies to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Admission {
    /// It does.
    #[default]
    Limited,
    /// It does not: the request belongs to a transaction, has begun, or has waited for its turn.
    Always,
}

/// A place among the requests that wait for their turn; given up when this is dropped.
pub struct Turn(Arc<Pool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.admissions.throttled.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turn {
    /// Returns when the request may begin.
    pub async fn begins(&self) {
        let admissions = &self.0.admissions;
        let _first = admissions.first.lock().await;
        loop {
            let per_second = self.0.settings().pooling.max_requests_per_second;
            match admissions.begin(per_second) {
                Ok(()) => return,
                Err(wait) => tokio::time::sleep(wait.min(LOOK_EVERY)).await,
            }
        }
    }
}

impl Pool {
    /// Whether a request may begin now under `max_requests_per_second`. If so, it is counted.
    pub fn begins_now(&self, per_second: usize) -> bool {
        let is_first = || self.admissions.throttled.load(Ordering::Relaxed) == 0;
        per_second == 0 || (is_first() && self.admissions.begin(per_second).is_ok())
    }

    /// A place among the requests that wait for their turn.
    ///
    /// # Errors
    /// The answer to the request if too many wait.
    pub fn await_turn(self: &Arc<Self>, admission: Admission) -> Result<Turn, Bytes> {
        match self.refusal_if_full(admission) {
            Some(refusal) => Err(refusal),
            None => {
                self.admissions.throttled.fetch_add(1, Ordering::Relaxed);
                Ok(Turn(Arc::clone(self)))
            }
        }
    }

    /// Counts transactions that a client has begun on a server connection that it already had.
    pub fn begun_beside(&self, transactions: u64) {
        let per_second = self.settings().pooling.max_requests_per_second;
        self.admissions.charge(per_second, transactions);
    }

    /// Number of requests that `max_queued` has refused.
    pub fn refused(&self) -> u64 {
        self.admissions.refused.load(Ordering::Relaxed)
    }

    /// Number of requests that wait for their turn.
    pub fn throttled(&self) -> usize {
        self.admissions.throttled.load(Ordering::Relaxed)
    }

    /// The answer to a request that would have to wait, if too many do. It is counted.
    pub(super) fn refusal_if_full(&self, admission: Admission) -> Option<Bytes> {
        let queued_max = self.settings().pooling.max_queued;
        if admission == Admission::Always || queued_max == 0 {
            return None;
        }
        let admissions = &self.admissions;
        if admissions.waiting() < queued_max {
            return None;
        }
        admissions.refused.fetch_add(1, Ordering::Relaxed);
        let refusal = messages::queue_is_full(queued_max);
        if let Some(state) = crate::stats::first_state(&refusal) {
            self.stats.failed(state);
        }
        Some(refusal)
    }

    /// The same for a request that enters the line in any case. It does not have to wait if it may start at once on an idle connection; or
    /// if it would be the only one in the line and a connection can be opened for it: the line may be empty while the pools with which this
    /// one counts are full.
    pub(super) fn refusal_in_line(
        &self,
        inner: &mut Inner,
        now: Instant,
        spec: &WaitSpec,
        admission: Admission,
    ) -> Option<Bytes> {
        let may_open = inner.line.is_empty() && inner.servers.open < self.settings().size;
        let is_served =
            (may_open || !inner.servers.idle.is_empty()) && inner.line.may_start_at_once(now, spec);
        match is_served {
            true => None,
            false => self.refusal_if_full(admission),
        }
    }

    /// Counts requests that enter the line.
    pub(super) fn enters_line(&self, requests: usize) {
        let process = &self.shared.counters.waiting;
        process.fetch_add(requests as u64, Ordering::Relaxed);
        let own = &self.admissions.in_line;
        own.fetch_add(requests, Ordering::Relaxed);
    }

    /// Counts requests that leave the line.
    pub(super) fn leaves_line(&self, requests: usize) {
        let process = &self.shared.counters.waiting;
        process.fetch_sub(requests as u64, Ordering::Relaxed);
        let own = &self.admissions.in_line;
        own.fetch_sub(requests, Ordering::Relaxed);
    }
}
