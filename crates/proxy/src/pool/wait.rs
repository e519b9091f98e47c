//! Requests that wait for a row: what a free server connection does for them, and how cancel requests and time-outs end a wait.

use super::{Delivery, Inner, Pool, Waiter};
use bytes::{Bytes, BytesMut};
use paceline_batch::line::{
    Dispatch, ExpiredLimit, LineKey, LineKeys, LockOutcome, WaitEntry, WaitSpec, WaiterId,
};
use paceline_batch::strategy::PlannedRequest;
use paceline_batch::strategy::probe;
use paceline_wire::ErrorResponse;
use paceline_wire::backend::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What a free server connection does next.
pub(crate) enum Work {
    /// Carries out a group.
    Group(Dispatch<Waiter>),
    /// Probes these requests, which stay in the line.
    Probe(Vec<(WaiterId, Arc<PlannedRequest>)>),
    /// Waits for a row lock.
    Lock(Box<LockWait>),
}

/// A row whose lock a server connection waits for.
pub(crate) struct LockWait {
    /// The row, which is in flight.
    pub(crate) key: LineKey,
    /// The first request that waits for it. It stays in the line.
    pub(crate) unit: Arc<PlannedRequest>,
    /// What the line knows of that request.
    pub(crate) spec: WaitSpec,
    /// Start of the wait.
    pub(crate) since: Instant,
}

/// Why a request in flight must not be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// Its client has cancelled it.
    Cancelled,
    /// Its client has disconnected. The attempt in flight goes on, as it does in PostgreSQL.
    Left,
}

/// The result of a probe.
pub(crate) type Probed = (WaiterId, probe::ProbeOutcome);

impl Inner {
    /// The requests to be probed.
    pub(super) fn units(&self, waiters: Vec<WaiterId>) -> Vec<(WaiterId, Arc<PlannedRequest>)> {
        let unit = |id: WaiterId| {
            let (_, waiter) = self.line.get(id)?;
            Some((id, Arc::clone(waiter.unit.as_ref()?)))
        };
        waiters.into_iter().filter_map(unit).collect()
    }

    /// The wait for a request's row lock. `None`: nothing is known of the request, and the flight of the row ends.
    pub(super) fn lock_wait(&mut self, now: Instant, waiter: WaiterId) -> Option<Box<LockWait>> {
        let (spec, waiter) = self.line.get(waiter)?;
        let LineKeys::One(key) = spec.keys else {
            return None;
        };
        let (spec, unit) = (spec.clone(), waiter.unit.clone());
        let Some(unit) = unit else {
            self.line.release_rows(now, key, LockOutcome::Blocked);
            return None;
        };
        Some(Box::new(LockWait {
            key,
            unit,
            spec,
            since: now,
        }))
    }
}

impl Pool {
    /// Cancels a request. If it is in the line, its client gets 57014; if it is in flight, it is not tried again. Returns false
    /// if it is in flight.
    pub(crate) fn cancel(self: &Arc<Self>, waiter: WaiterId) -> bool {
        let Some(entry) = self.take_out(waiter) else {
            self.is_unwanted(waiter, Unwanted::Cancelled);
            return false;
        };
        let _ = entry.request.answer.send(Delivery::cancelled());
        true
    }

    /// Ends the client of a request in line with this error. False: the request is not in the line.
    pub(crate) fn refuse(self: &Arc<Self>, waiter: WaiterId, error: ErrorResponse) -> bool {
        let Some(entry) = self.take_out(waiter) else {
            return false;
        };
        let mut out = BytesMut::new();
        error.write(&mut out);
        // A client that has gone needs no answer.
        let _ = entry.request.answer.send(Delivery::Fatal(out.freeze()));
        true
    }

    pub(super) fn is_unwanted(&self, waiter: WaiterId, why: Unwanted) {
        self.lock().unwanted.insert(waiter, why);
    }

    /// The client of a request that must not be tried again has its answer.
    pub(crate) fn forget(&self, waiter: WaiterId) {
        self.lock().unwanted.remove(&waiter);
    }

    /// Whether one of these requests in flight was cancelled, or a time-out of it has expired.
    pub(crate) fn wants_back<'a>(
        &self,
        mut departed: impl Iterator<Item = &'a WaitEntry<Waiter>>,
    ) -> bool {
        let (now, inner) = (Instant::now(), self.lock());
        let cancelled = |waiter| inner.unwanted.get(waiter) == Some(&Unwanted::Cancelled);
        departed.any(|entry| cancelled(&entry.waiter) || entry.is_late(now))
    }

    /// Whether a request still waits for the row.
    pub(crate) fn is_awaited(&self, key: LineKey) -> bool {
        self.lock().line.is_awaited(key)
    }

    /// PostgreSQL has granted the lock: takes the requests that go on with it.
    pub(crate) fn take_locked(&self, wait: &LockWait) -> Dispatch<Waiter> {
        let now = Instant::now();
        let mut inner = self.lock();
        let entries = inner.line.take_locked(now, wait.key, &wait.spec);
        self.have_left(&entries, now);
        Dispatch { entries }
    }

    /// Applies the results of a probe to the requests that are still in the line. Returns those that were answered.
    pub(crate) fn probed(self: &Arc<Self>, probed: Vec<Probed>) -> Vec<WaiterId> {
        let now = Instant::now();
        let mut answered = Vec::new();
        let mut inner = self.lock();
        for (waiter, what) in probed {
            match what {
                probe::ProbeOutcome::Waits => {}
                probe::ProbeOutcome::Leaves => inner.line.detach(now, waiter),
                probe::ProbeOutcome::Answer(answer) => {
                    if let Some(entry) = inner.line.withdraw(now, waiter) {
                        self.counters().waiting.fetch_sub(1, Ordering::Relaxed);
                        answered.push(waiter);
                        let _ = entry.request.answer.send(Delivery::Answer(answer));
                    }
                }
            }
        }
        answered
    }

    /// A probe failed.
    pub(crate) fn probe_failed(&self, waiters: &[WaiterId]) {
        self.lock().line.probe_failed(Instant::now(), waiters);
    }

    /// Answers requests whose time-out has expired.
    pub(super) fn tell_late(&self, late: Vec<(WaitEntry<Waiter>, ExpiredLimit)>) {
        for (entry, why) in late {
            self.counters().waiting.fetch_sub(1, Ordering::Relaxed);
            // A client that has gone needs no answer.
            let _ = entry.request.answer.send(Delivery::timed_out(why));
        }
    }
}

impl Delivery {
    /// The answer to a request whose time-out has expired, in PostgreSQL's words.
    fn timed_out(why: ExpiredLimit) -> Self {
        match why {
            ExpiredLimit::Lock => failed("55P03", "canceling statement due to lock timeout"),
            ExpiredLimit::Statement => {
                failed("57014", "canceling statement due to statement timeout")
            }
            ExpiredLimit::Query => Self::Fatal(crate::trip::timed_out("query timeout")),
        }
    }

    /// The answer to a request that its client has cancelled.
    pub(crate) fn cancelled() -> Self {
        failed("57014", "canceling statement due to user request")
    }
}

fn failed(sqlstate: &'static str, message: &'static str) -> Delivery {
    Delivery::Answer(answer_of(&ErrorResponse::error(sqlstate, message)))
}

fn answer_of(error: &ErrorResponse) -> Bytes {
    let mut out = BytesMut::new();
    error.write(&mut out);
    Status::Idle.write(&mut out);
    out.freeze()
}
