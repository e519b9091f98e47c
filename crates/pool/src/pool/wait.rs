//! Requests that wait for a row: the work of a free server connection for them, and the end of a wait by cancel requests and time-outs.

use super::{Inner, LockWait, Pool, Unwanted, WaitResult, Waiter};
use crate::clock;
use crate::messages;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::{
    Dispatch, ExpiredLimit, LineKey, LineKeys, LockOutcome, WaitEntry, WaiterId,
};
use paceline_batch::strategy::PlannedRequest;
use paceline_batch::strategy::probe;
use paceline_wire::ErrorResponse;
use std::sync::Arc;
use std::time::Instant;

/// The result of a probe.
pub(crate) type ProbeResult = (WaiterId, probe::ProbeOutcome);

impl Inner {
    /// The requests to be probed.
    pub(super) fn to_probe(&self, waiters: Vec<WaiterId>) -> Vec<(WaiterId, Arc<PlannedRequest>)> {
        let request = |id: WaiterId| {
            let (_, waiter) = self.line.get(id)?;
            Some((id, Arc::clone(waiter.request.as_ref()?)))
        };
        waiters.into_iter().filter_map(request).collect()
    }

    /// The wait for a request's row lock. `None`: nothing is known of the request, and the flight of the row ends.
    pub(super) fn lock_wait(&mut self, now: Instant, waiter: WaiterId) -> Option<Box<LockWait>> {
        let (spec, waiter) = self.line.get(waiter)?;
        let LineKeys::One(key) = spec.keys else {
            return None;
        };
        let (spec, request) = (spec.clone(), waiter.request.clone());
        let Some(request) = request else {
            self.line.release_rows(now, key, LockOutcome::Blocked);
            return None;
        };
        Some(Box::new(LockWait {
            key,
            request,
            spec,
            since: now,
        }))
    }
}

impl Pool {
    /// Cancels a request. If it is in the line, its client gets 57014; if it is in flight, it is not tried again. Returns false
    /// if it is in flight.
    pub fn cancel(self: &Arc<Self>, waiter: WaiterId) -> bool {
        let Some(entry) = self.take_out(waiter) else {
            self.set_unwanted(waiter, Unwanted::Cancelled);
            return false;
        };
        let _ = entry.request.answer.send(WaitResult::cancelled());
        true
    }

    /// Ends the client of a request in line with this error. False: the request is not in the line.
    pub fn disconnect_waiter(self: &Arc<Self>, waiter: WaiterId, error: ErrorResponse) -> bool {
        let Some(entry) = self.take_out(waiter) else {
            return false;
        };
        // A client that has left needs no answer.
        let _ = entry
            .request
            .answer
            .send(WaitResult::Fatal(messages::fatal(&error)));
        true
    }

    pub(super) fn set_unwanted(&self, waiter: WaiterId, why: Unwanted) {
        self.lock().unwanted.insert(waiter, why);
    }

    /// The client of a request that must not be tried again has its answer.
    pub fn forget(&self, waiter: WaiterId) {
        self.lock().unwanted.remove(&waiter);
    }

    /// Whether one of these requests in flight was cancelled, or a time-out of it has expired.
    pub(crate) fn must_cancel<'a>(
        &self,
        mut entries: impl Iterator<Item = &'a WaitEntry<Waiter>>,
    ) -> bool {
        let (now, inner) = (clock::now(), self.lock());
        let cancelled = |waiter| inner.unwanted.get(waiter) == Some(&Unwanted::Cancelled);
        entries.any(|entry| cancelled(&entry.waiter) || entry.is_late(now))
    }

    /// Whether a request still waits for the row.
    pub(crate) fn is_awaited(&self, key: LineKey) -> bool {
        self.lock().line.is_awaited(key)
    }

    /// PostgreSQL has granted the lock: takes the requests that go on with it.
    pub(crate) fn take_locked(&self, wait: &LockWait) -> Dispatch<Waiter> {
        let now = clock::now();
        let mut inner = self.lock();
        let entries = inner.line.take_locked(now, wait.key, &wait.spec);
        self.count_dequeued(&entries, now);
        Dispatch {
            entries,
            // Its connection has waited for a lock, which no other group waits for.
            flight: FlightId::UNCOUNTED,
        }
    }

    /// Applies the results of a probe to the requests that are still in the line. Returns those that were answered.
    pub(crate) fn probed(self: &Arc<Self>, probed: Vec<ProbeResult>) -> Vec<WaiterId> {
        let now = clock::now();
        let mut answered = Vec::new();
        let mut inner = self.lock();
        for (waiter, what) in probed {
            match what {
                probe::ProbeOutcome::Waits => {}
                probe::ProbeOutcome::Leaves => inner.line.detach(now, waiter),
                probe::ProbeOutcome::Answer(answer) => {
                    if let Some(entry) = inner.line.withdraw(now, waiter) {
                        self.leaves_line(1);
                        answered.push(waiter);
                        let _ = entry.request.answer.send(WaitResult::Answer(answer));
                    }
                }
            }
        }
        answered
    }

    /// A probe failed.
    pub(crate) fn probe_failed(&self, waiters: &[WaiterId]) {
        self.lock().line.probe_failed(clock::now(), waiters);
    }

    /// Answers requests whose time-out has expired.
    pub(super) fn answer_late(&self, late: Vec<(WaitEntry<Waiter>, ExpiredLimit)>) {
        for (entry, why) in late {
            self.leaves_line(1);
            // A client that has left needs no answer.
            let _ = entry.request.answer.send(WaitResult::timed_out(why));
        }
    }
}

impl WaitResult {
    /// The answer to a request whose time-out has expired, in PostgreSQL's words.
    fn timed_out(why: ExpiredLimit) -> Self {
        match why {
            ExpiredLimit::Lock => failed("55P03", "canceling statement due to lock timeout"),
            ExpiredLimit::Statement => {
                failed("57014", "canceling statement due to statement timeout")
            }
            ExpiredLimit::Query => Self::query_timeout(),
        }
    }

    /// The end of a client whose request has taken longer than `query_timeout`.
    pub(crate) fn query_timeout() -> Self {
        Self::QueryTimeout(messages::timed_out("query timeout"))
    }

    /// The answer to a request that its client has cancelled.
    pub fn cancelled() -> Self {
        failed("57014", "canceling statement due to user request")
    }
}

fn failed(sqlstate: &'static str, message: &'static str) -> WaitResult {
    WaitResult::Answer(messages::answer(&ErrorResponse::error(sqlstate, message)))
}
