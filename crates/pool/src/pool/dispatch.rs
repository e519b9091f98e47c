//! The line and the server connections: gives connections to requests and groups, and takes them back.
//!
//! A task that frees a connection asks the line for the next request and passes the connection on; there is no other queue.

use super::{
    Admission, CheckoutResult, Inner, Pool, PooledServer, Purpose, ServerWork, Unwanted,
    WaitResult, Waiter,
};
use crate::clock;
use crate::counters::Counters;
use crate::group_run;
use crate::server::ServerConn;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::{
    Dispatch, GroupId, LineKey, LineKeys, LockOutcome, NextStep, WaitEntry, WaitSpec, WaiterId,
};
use paceline_batch::strategy::{PlannedRequest, Retry, Strategy};
use paceline_cluster::Lsn;
use paceline_relay::sequences::SequenceToken;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

fn release_rows(inner: &mut Inner, now: Instant, keys: &LineKeys) {
    for key in keys.as_slice() {
        inner.line.release_rows(now, *key, LockOutcome::Free);
    }
}

impl Pool {
    /// Asks for a server connection for a client's request. `request` returns the request if it may join a group, or if
    /// its template is being analyzed.
    pub fn check_out(
        self: &Arc<Self>,
        admission: Admission,
        spec: WaitSpec,
        would_group: bool,
        request: impl FnOnce() -> Option<Arc<PlannedRequest>>,
    ) -> CheckoutResult {
        let own = SequenceToken::default();
        self.check_out_for(Purpose::Request, admission, spec, own, would_group, request)
    }

    /// The same for a request that joins no group and may read sequence values. An idle connection that remembers those of the client
    /// (`own`) is preferred: another one may have to discard what it remembers.
    pub fn check_out_alone(
        self: &Arc<Self>,
        admission: Admission,
        own: SequenceToken,
    ) -> CheckoutResult {
        let spec = WaitSpec::default();
        self.check_out_for(Purpose::Relay, admission, spec, own, false, || None)
    }

    /// Asks for a server connection for a query of Paceline's own during a login.
    pub fn check_out_for_login(self: &Arc<Self>) -> CheckoutResult {
        let (admission, spec) = (Admission::Always, WaitSpec::default());
        let own = SequenceToken::default();
        self.check_out_for(Purpose::Login, admission, spec, own, false, || None)
    }

    fn check_out_for(
        self: &Arc<Self>,
        purpose: Purpose,
        admission: Admission,
        spec: WaitSpec,
        own: SequenceToken,
        would_group: bool,
        request: impl FnOnce() -> Option<Arc<PlannedRequest>>,
    ) -> CheckoutResult {
        let now = clock::now();
        let mut inner = self.lock();
        if !inner.servers.idle.is_empty()
            && !self.groups_single(&spec)
            && let Some(flight) = inner.line.start_at_once(now, &spec)
        {
            self.prefer_own(&mut inner, now, own);
            if let Some(conn) = self.take_idle(&mut inner, now) {
                if purpose != Purpose::Login {
                    self.stats.assigned_at_once();
                }
                return CheckoutResult::Server(PooledServer::new(self, conn, spec.keys, flight));
            }
            release_rows(&mut inner, now, &spec.keys);
            inner.line.flight_ended(now, flight);
        }
        let refusal = inner.gave_up(now);
        if let Some(message) = refusal.or_else(|| inner.servers.refusal(now)) {
            return CheckoutResult::Refused(message);
        }
        if let Some(answer) = self.refusal_in_line(&mut inner, now, &spec, admission) {
            return CheckoutResult::Full(answer);
        }
        let counters = &self.shared.counters;
        if would_group {
            Counters::count(&counters.would_have_grouped);
        }
        let (answer, result) = oneshot::channel();
        let waiter = Waiter {
            purpose,
            request: request(),
            answer,
            queued_sent: false,
            position: Lsn::ZERO,
        };
        let id = self.enter_line(&mut inner, now, spec, waiter);
        CheckoutResult::Waiting(id, result)
    }

    /// Other requests may use the rows, though the request that uses them has not ended.
    pub(super) fn release_rows_early(self: &Arc<Self>, keys: &LineKeys) {
        let now = clock::now();
        let mut inner = self.lock();
        inner.line.release_rows_early(now, keys.as_slice());
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
    }

    /// Ends the flight of rows.
    pub(super) fn release_rows(self: &Arc<Self>, keys: &LineKeys) {
        let now = clock::now();
        let mut inner = self.lock();
        release_rows(&mut inner, now, keys);
        self.dispatch(&mut inner, now);
    }

    /// The time at which a request entered the line. `None`: it has left the line.
    pub fn waiting_since(&self, waiter: WaiterId) -> Option<Instant> {
        self.lock().line.arrived(waiter)
    }

    /// Takes the request of a client that needs no answer out of the line. False: the request has left the line.
    pub fn withdraw(self: &Arc<Self>, waiter: WaiterId) -> bool {
        self.take_out(waiter).is_some()
    }

    /// The client of a request in flight has disconnected: if its group cannot serve it, it is not tried again. The caller waits
    /// for the end of the request, and then calls [`Pool::forget`].
    pub fn client_left(&self, waiter: WaiterId) {
        self.set_unwanted(waiter, Unwanted::Left);
    }

    /// Takes a request out of the line. Requests behind it may get connections that were idle because of it.
    pub(super) fn take_out(self: &Arc<Self>, waiter: WaiterId) -> Option<WaitEntry<Waiter>> {
        let now = clock::now();
        let mut inner = self.lock();
        let entry = inner.line.withdraw(now, waiter)?;
        self.leaves_line(1);
        self.dispatch(&mut inner, now);
        Some(entry)
    }

    /// Takes a connection back, or counts it as lost (`None`), and ends the flight of rows and of the group.
    pub(crate) fn check_in(
        self: &Arc<Self>,
        conn: Option<Box<ServerConn>>,
        keys: &LineKeys,
        flight: FlightId,
    ) {
        let now = clock::now();
        let mut inner = self.lock();
        inner.line.flight_ended(now, flight);
        release_rows(&mut inner, now, keys);
        let mut closing = None;
        match conn {
            Some(mut conn) => match self.why_close(&mut inner, &conn, now) {
                Some(why) => {
                    // Its successor may need its slot.
                    conn.slot = None;
                    conn.closes_because(why);
                    closing = Some(conn);
                    self.lost(&mut inner);
                }
                None => {
                    conn.idle_since = now;
                    self.return_idle(&mut inner, conn);
                }
            },
            None => {
                self.suspect_host(&inner);
                self.lost(&mut inner);
            }
        }
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
        drop(inner);
        if let Some(conn) = closing {
            conn.terminate();
        }
    }

    /// Makes a free connection idle, or suspends or closes it.
    pub(super) fn return_idle(self: &Arc<Self>, inner: &mut Inner, conn: Box<ServerConn>) {
        if inner.may_serve(&conn) {
            inner.servers.idle.push(conn);
        } else {
            self.suspend_or_close(inner, conn);
        }
    }

    /// Ends a group run: puts members that were not served back into the line, ends the flight of rows, and returns what the
    /// connection does next.
    pub(crate) fn finish_run(
        self: &Arc<Self>,
        conn: &mut ServerConn,
        flight: FlightId,
        rows: Vec<(LineKey, LockOutcome)>,
        again: Vec<(WaitEntry<Waiter>, Retry)>,
    ) -> Option<ServerWork> {
        let now = clock::now();
        self.shared.counters.fell_back(again.len());
        let mut inner = self.lock();
        inner.line.flight_ended(now, flight);
        self.put_back(&mut inner, now, again, rows);
        conn.idle_since = now;
        // A connection that is about to be closed takes no further group.
        let is_over = inner.is_lifetime_over(&self.settings(), conn, now);
        let serves = inner.may_serve(conn) && !is_over && !self.must_yield(&inner, conn, now);
        let free = inner.servers.idle.len() + 1;
        let next = serves
            .then(|| self.dequeue(&mut inner, now, free))
            .flatten();
        if let Some(ServerWork::Group(group)) = &next {
            self.count_group(group);
        }
        // Requests on the rows may get connections that were idle because of them.
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
        next
    }

    /// Ends a group run whose connection is lost.
    pub(crate) fn run_lost(
        self: &Arc<Self>,
        keys: Vec<LineKey>,
        flight: FlightId,
        again: Vec<(WaitEntry<Waiter>, Retry)>,
    ) {
        let now = clock::now();
        self.shared.counters.fell_back(again.len());
        let mut inner = self.lock();
        inner.line.flight_ended(now, flight);
        let rows = keys.into_iter().map(|key| (key, LockOutcome::Free));
        self.put_back(&mut inner, now, again, rows.collect());
        self.suspect_host(&inner);
        self.lost(&mut inner);
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
    }

    /// Counts a connection as closed; another one may be opened.
    pub(super) fn lost(self: &Arc<Self>, inner: &mut Inner) {
        inner.servers.open -= 1;
        let now = clock::now();
        self.grant_replication(inner, now);
        if inner.servers.may_open(now) && inner.servers.idle.is_empty() && inner.line.has_next(now)
        {
            self.grow(inner);
        }
        self.signals.look_again.notify_one();
        self.signals.closed.notify_waiters();
    }

    /// Puts members of a pipeline that has stalled back into the line.
    pub(crate) fn resubmit(self: &Arc<Self>, again: Vec<(WaitEntry<Waiter>, Retry)>) {
        let now = clock::now();
        self.shared.counters.fell_back(again.len());
        let mut inner = self.lock();
        self.put_back(&mut inner, now, again, Vec::new());
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
    }

    /// Puts requests back into the line, and ends the flight of rows.
    fn put_back(
        &self,
        inner: &mut Inner,
        now: Instant,
        again: Vec<(WaitEntry<Waiter>, Retry)>,
        mut rows: Vec<(LineKey, LockOutcome)>,
    ) {
        let mut cohorts: HashMap<Retry, u64> = HashMap::new();
        let mut entries = Vec::with_capacity(again.len());
        for (mut entry, how) in again {
            if how == Retry::Blocked {
                rows.iter_mut()
                    .filter(|(key, _)| entry.spec.keys.as_slice().contains(key))
                    .for_each(|(_, outcome)| *outcome = LockOutcome::Blocked);
            } else if how != Retry::Row {
                entry.restart();
            }
            if entry.request.answer.is_closed() {
                continue;
            }
            if inner.unwanted.remove(&entry.waiter).is_some() {
                let _ = entry.request.answer.send(WaitResult::cancelled());
                continue;
            }
            if self.is_of_replica() || how == Retry::Elsewhere {
                let _ = entry.request.answer.send(WaitResult::Elsewhere);
                continue;
            }
            self.enters_line(1);
            let group = &mut entry.spec.group;
            match (how, &entry.spec.keys) {
                (Retry::Line | Retry::Blocked, _) => {}
                (Retry::Row, LineKeys::One(key)) => {
                    *group = group.map(|mut id| {
                        id.cohort = key.cohort();
                        id
                    });
                }
                (Retry::Alone | Retry::Row | Retry::Elsewhere, _) => *group = None,
                (Retry::FirstHalf | Retry::SecondHalf, _) => {
                    let cohort = cohorts
                        .entry(how)
                        .or_insert_with(|| inner.line.new_cohort());
                    *group = group.map(|mut id| {
                        id.cohort = *cohort;
                        id
                    });
                }
            }
            entries.push(entry);
        }
        self.fail_killed(inner, &mut entries);
        inner.line.put_back(now, entries, rows);
        let late = inner.line.time_out(now);
        self.answer_late(late);
    }

    /// Hands idle connections to the requests and groups that are next.
    pub(super) fn dispatch(self: &Arc<Self>, inner: &mut Inner, now: Instant) {
        inner.line.release_held(now);
        self.reject_waiters(inner, now);
        self.grant_replication(inner, now);
        while inner.line.has_next(now)
            && let Some(conn) = self.take_idle(inner, now)
        {
            let free = inner.servers.idle.len() + 1;
            match self.dequeue(inner, now, free) {
                Some(work) => self.start(inner, conn, work),
                None => inner.servers.idle.push(conn),
            }
        }
        let servers = &inner.servers;
        if servers.open == 0 && inner.line.has_ready() && servers.grow_not_before <= now {
            self.grow(inner);
        }
    }

    /// Takes the next work from the line, for one of `free` free connections.
    fn dequeue(&self, inner: &mut Inner, now: Instant, free: usize) -> Option<ServerWork> {
        loop {
            match inner.line.next(now, free)? {
                NextStep::Group(group) => {
                    self.count_dequeued(&group.entries, now);
                    if let [entry] = group.entries.as_slice()
                        && entry.request.purpose == Purpose::Relay
                    {
                        let waited = now.saturating_duration_since(entry.arrived);
                        inner.servers.waits.add(now, waited);
                    }
                    return Some(ServerWork::Group(group));
                }
                NextStep::Probe(waiters) => {
                    let requests = inner.to_probe(waiters);
                    if !requests.is_empty() {
                        return Some(ServerWork::Probe(requests));
                    }
                }
                NextStep::Lock(waiter) => {
                    if let Some(wait) = inner.lock_wait(now, waiter) {
                        return Some(ServerWork::Lock(wait));
                    }
                }
            }
        }
    }

    /// Counts requests that have left the line together.
    pub(super) fn count_dequeued(&self, entries: &[WaitEntry<Waiter>], now: Instant) {
        self.leaves_line(entries.len());
        let is_request = |entry: &&WaitEntry<Waiter>| entry.request.purpose != Purpose::Login;
        let waited = |entry: &WaitEntry<Waiter>| now.saturating_duration_since(entry.arrived);
        let requests = entries.iter().filter(is_request);
        self.stats.assigned(requests.map(waited));
    }

    /// Counts a group of writes that has a connection. (Before, the line may still change it.)
    fn count_group(&self, group: &Dispatch<Waiter>) {
        let members = group.entries.len();
        let reads =
            |entry: &WaitEntry<Waiter>| entry.spec.group.is_some_and(|id| id.strategy.reads());
        if members > 1 && !group.entries.first().is_some_and(reads) {
            self.shared.counters.group_sent(members);
        }
    }

    /// Whether the client of a single request relays it. A read on a replica and a statement on a shard are never relayed: their clients
    /// get no part of an answer that does not count. A consumer is relayed only if its group cannot start at a position in the queue, or has failed.
    pub(crate) fn is_relayed(&self, group: &Dispatch<Waiter>) -> bool {
        let [entry] = group.entries.as_slice() else {
            return false;
        };
        let plan = || entry.request.request.as_ref()?.plan.as_ref();
        let positioned =
            self.groups_single(&entry.spec) && plan().is_some_and(|plan| plan.starts_at_position());
        // Of a shard, only the analysis of a template checks out connections.
        let is_kept = self.is_of_shard() && entry.request.request.is_some();
        !positioned && !is_kept && !self.is_of_replica()
    }

    /// Whether a request may be a group of its own, so that it does not read the whole queue. A half of a group that has failed
    /// may not.
    pub(crate) fn groups_single(&self, spec: &WaitSpec) -> bool {
        let takes = |id: GroupId| id.strategy == Strategy::Take && id.cohort == 0;
        spec.group.is_some_and(takes) && !self.settings().grouping.queue_reorder_time.is_zero()
    }

    /// Gives a connection to the client of a single request, or starts a group run.
    fn start(self: &Arc<Self>, inner: &mut Inner, conn: Box<ServerConn>, work: ServerWork) {
        let mut single = match work {
            ServerWork::Group(group) if self.is_relayed(&group) => group,
            other => {
                if let ServerWork::Group(group) = &other {
                    self.count_group(group);
                }
                tokio::spawn(group_run::run_groups(Arc::clone(self), conn, other));
                return;
            }
        };
        let flight = single.flight;
        if let Some(entry) = single.entries.pop()
            && let Some((conn, keys)) = self.hand_over(entry, conn, flight)
        {
            // The client left in this moment.
            let now = clock::now();
            release_rows(inner, now, &keys);
            inner.line.flight_ended(now, flight);
            inner.servers.idle.push(conn);
        }
    }
}
