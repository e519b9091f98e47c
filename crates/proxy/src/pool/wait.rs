//! Units that wait for a row: what a free connection does for them, and how a wait ends by a cancel request or a time-out.

use super::{Delivery, Inner, Pool, Waiter};
use bytes::{Bytes, BytesMut};
use paceline_line::line::{Departure, Entry, Key, Keys, Landing, Slip, Ticket, TimeOut};
use paceline_line::strategy::probe;
use paceline_line::unit::Unit;
use paceline_wire::ErrorResponse;
use paceline_wire::backend::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What a free connection does.
pub(crate) enum Work {
    /// It carries these out.
    Group(Departure<Waiter>),
    /// It asks whether these, which stay in the line, would wait for their rows by themselves.
    Probe(Vec<(Ticket, Arc<Unit>)>),
    /// It waits for the lock of a row.
    Lock(Box<LockWait>),
}

/// A row whose lock is waited for.
pub(crate) struct LockWait {
    /// The row; in flight as long as this is waited for.
    pub(crate) key: Key,
    /// The first unit that waits for it. It stays in the line, and may leave it.
    pub(crate) unit: Arc<Unit>,
    /// What the line knows of that unit.
    pub(crate) slip: Slip,
    /// When the wait began.
    pub(crate) since: Instant,
}

/// Why the answer to a unit that has departed is not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// Its client has cancelled it.
    Cancelled,
    /// Its client has left. What is under way is carried out, as PostgreSQL carries it out.
    Left,
}

/// What a probe has found out.
pub(crate) type Probed = (Ticket, probe::Probed);

impl Inner {
    /// Units of the line that are asked about.
    pub(super) fn units(&self, tickets: Vec<Ticket>) -> Vec<(Ticket, Arc<Unit>)> {
        let unit = |ticket: Ticket| {
            let (_, waiter) = self.line.get(ticket)?;
            Some((ticket, Arc::clone(waiter.unit.as_ref()?)))
        };
        tickets.into_iter().filter_map(unit).collect()
    }

    /// The wait for the lock of a unit's row, which is in flight. `None`: there is nothing to wait with, and the row lands.
    pub(super) fn lock_wait(&mut self, now: Instant, ticket: Ticket) -> Option<Box<LockWait>> {
        let (slip, waiter) = self.line.get(ticket)?;
        let Keys::One(key) = slip.keys else {
            return None;
        };
        let (slip, unit) = (slip.clone(), waiter.unit.clone());
        let Some(unit) = unit else {
            self.line.land(now, key, Landing::Blocked);
            return None;
        };
        Some(Box::new(LockWait {
            key,
            unit,
            slip,
            since: now,
        }))
    }
}

impl Pool {
    /// A unit is cancelled by its client. If it waits, its answer says so; if it has departed, it does not go again. False: it
    /// has departed.
    pub(crate) fn cancel(self: &Arc<Self>, ticket: Ticket) -> bool {
        let Some(entry) = self.take_out(ticket) else {
            self.is_unwanted(ticket, Unwanted::Cancelled);
            return false;
        };
        let _ = entry.unit.answer.send(Delivery::cancelled());
        true
    }

    pub(super) fn is_unwanted(&self, ticket: Ticket, why: Unwanted) {
        self.lock().unwanted.insert(ticket, why);
    }

    /// The client of a unit that was unwanted knows what has become of it.
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.lock().unwanted.remove(&ticket);
    }

    /// Was one of these, which have departed, cancelled, or is its time up?
    pub(crate) fn wants_back<'a>(
        &self,
        mut departed: impl Iterator<Item = &'a Entry<Waiter>>,
    ) -> bool {
        let (now, inner) = (Instant::now(), self.lock());
        let cancelled = |ticket| inner.unwanted.get(ticket) == Some(&Unwanted::Cancelled);
        departed.any(|entry| cancelled(&entry.ticket) || entry.is_late(now))
    }

    /// Does anybody wait for the row whose lock is waited for?
    pub(crate) fn is_awaited(&self, key: Key) -> bool {
        self.lock().line.is_awaited(key)
    }

    /// The lock is granted: those leave who can go on with it.
    pub(crate) fn take_locked(&self, wait: &LockWait) -> Departure<Waiter> {
        let now = Instant::now();
        let mut inner = self.lock();
        let entries = inner.line.take_locked(now, wait.key, &wait.slip);
        self.have_left(&entries, now);
        Departure { entries }
    }

    /// A probe has been answered; those who are still in the line hear of it. Says how many were answered.
    pub(crate) fn probed(self: &Arc<Self>, probed: Vec<Probed>) -> Vec<Ticket> {
        let now = Instant::now();
        let mut answered = Vec::new();
        let mut inner = self.lock();
        for (ticket, what) in probed {
            match what {
                probe::Probed::Waits => {}
                probe::Probed::Leaves => inner.line.detach(now, ticket),
                probe::Probed::Answer(answer) => {
                    if let Some(entry) = inner.line.withdraw(now, ticket) {
                        self.counters().waiting.fetch_sub(1, Ordering::Relaxed);
                        answered.push(ticket);
                        let _ = entry.unit.answer.send(Delivery::Answer(answer));
                    }
                }
            }
        }
        answered
    }

    /// A probe has come to nothing.
    pub(crate) fn probe_failed(&self, tickets: &[Ticket]) {
        self.lock().line.probe_failed(Instant::now(), tickets);
    }

    /// The time of these is up, which have left the line.
    pub(super) fn tell_late(&self, late: Vec<(Entry<Waiter>, TimeOut)>) {
        for (entry, why) in late {
            self.counters().waiting.fetch_sub(1, Ordering::Relaxed);
            // A client that has gone needs no answer.
            let _ = entry.unit.answer.send(Delivery::timed_out(why));
        }
    }
}

impl Delivery {
    /// The answer to a unit whose time is up, in PostgreSQL's words.
    fn timed_out(why: TimeOut) -> Self {
        match why {
            TimeOut::Lock => failed("55P03", "canceling statement due to lock timeout"),
            TimeOut::Statement => failed("57014", "canceling statement due to statement timeout"),
            TimeOut::Query => Self::Fatal(crate::trip::timed_out("query timeout")),
        }
    }

    /// The answer to a unit that its client has cancelled.
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
