//! A trip: a group on a server connection. The next group is on its way before the answers of the last one are
//! dealt out, so that the database never waits for clients.

mod fares;
mod lock;
mod owed;
mod probe;
mod share;

use crate::cancel;
use crate::pool::{Delivery, Pool, Waiter, Work};
use crate::room::Room;
use crate::server::{ServerConn, ServerError};
use bytes::{Bytes, BytesMut};
use fares::Fares;
use owed::Owed;
use paceline_batch::learned::Learned;
use paceline_batch::line::{Dispatch, Entry, Keys, LockOutcome, Strategy};
use paceline_batch::strategy::{
    self, Again, Batch, Dealt, Invalidation, MemberOutcome, PlannedRequest,
};
use paceline_batch::tally::{Fallback, Served};
use paceline_net::READ_BYTES;
use paceline_net::optional_timeout;
use paceline_relay::request::{Request, Underway};
use paceline_wire::{ErrorResponse, Frames};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;

use crate::status::Counters;

/// A pipeline from which nothing has come for this long sends its members elsewhere.
const PIPELINE_STALL: Duration = Duration::from_millis(100);

/// If the server has sent nothing for this long, and a member was cancelled or its time-out has expired, the group is cancelled on
/// the server: it probably waits for a lock on the table.
const CALLED_BACK_AFTER: Duration = Duration::from_millis(20);

/// Bytes of answers that a pipeline may keep; its members are known to be short.
const PIPELINE_ANSWER_MAX: usize = 1024 * 1024;

/// A group on its way.
struct Trip {
    entries: Vec<Option<Entry<Waiter>>>,
    batch: Option<Box<dyn Batch>>,
    strategy: Option<Strategy>,
    served: Served,
    since: Instant,
    /// How the flight of its rows ends.
    outcome: LockOutcome,
}

/// What became of a trip.
enum Way {
    /// It is over.
    Arrived(Vec<Dealt>),
    /// A shared answer that is too long to be kept, and the room that it takes so far.
    HandedOver(Underway, Room),
}

/// Carries out `work` on `conn`, then what the line has next for it, until there is nothing left.
pub(crate) async fn drive(pool: Arc<Pool>, conn: Box<ServerConn>, work: Work) {
    let mut owed = Owed::new(Arc::clone(&pool));
    // A connection that is lost is closed, and its place is free, before another one is opened for it: also if a batch panics.
    let mut conn = conn;
    let mut out = BytesMut::new();
    let mut next = Some(work);
    loop {
        let mut trip = match next {
            None => return owed.settle().release(Some(conn), &Keys::Unknown),
            Some(Work::Group(group)) if group.entries.len() == 1 => return seat(owed, group, conn),
            Some(Work::Group(group)) => {
                owed.depart(&group);
                let mut trip = Trip::new(group);
                if let Err(error) = trip.set_out(&pool, &mut conn, &mut out).await {
                    conn.failed(&error);
                    drop(conn);
                    return trip.wreck(owed, &error);
                }
                trip
            }
            // Boxed, as waits for locks are: they are rare, and every trip would pay for their state.
            Some(Work::Probe(units)) => {
                let asked = Box::pin(probe::ask(units, owed, conn, &mut out)).await;
                match asked {
                    Some(done) => (owed, conn, next) = done,
                    None => return,
                }
                continue;
            }
            Some(Work::Lock(wait)) => {
                match Box::pin(lock::wait(wait, owed, conn, &mut out)).await {
                    Some((its, same, Locked::Group(trip))) => {
                        (owed, conn) = (its, same);
                        *trip
                    }
                    Some((its, same, Locked::Nobody(then))) => {
                        (owed, conn, next) = (its, same, then);
                        continue;
                    }
                    None => return,
                }
            }
        };
        next = loop {
            let last = match trip.travel_in_time(&pool, &mut conn, &mut out).await {
                Ok(Way::Arrived(last)) => last,
                Ok(Way::HandedOver(underway, room)) => {
                    return trip.hand_over(owed, conn, underway, room);
                }
                Err(error) => {
                    conn.failed(&error);
                    drop(conn);
                    return trip.wreck(owed, &error);
                }
            };
            let group = match trip.arrive(&mut owed, &mut conn, &last) {
                Some(Work::Group(group)) if group.entries.len() == 1 => {
                    seat(owed, group, conn);
                    return trip.deal(last);
                }
                Some(Work::Group(group)) => group,
                other => {
                    trip.deal(last);
                    break other;
                }
            };
            owed.depart(&group);
            let mut following = Trip::new(group);
            // Nobody waits for his answer until others have their settings.
            let last = match following.finds_its_settings(&conn) {
                true => Some(last),
                false => {
                    trip.deal(last);
                    None
                }
            };
            let set_out = following.set_out(&pool, &mut conn, &mut out).await;
            last.into_iter().for_each(|last| trip.deal(last));
            trip = following;
            if let Err(error) = set_out {
                conn.failed(&error);
                drop(conn);
                return trip.wreck(owed, &error);
            }
        };
    }
}

/// A connection that is free again, and what it does next.
type Done = (Owed, Box<ServerConn>, Option<Work>);

/// Result of a wait for a lock.
enum Locked {
    /// This group goes on with the lock.
    Group(Box<Trip>),
    /// No group does; the connection does this next.
    Nobody(Option<Work>),
}

/// The connection goes to the client whose unit is next.
fn seat(owed: Owed, mut group: Dispatch<Waiter>, conn: Box<ServerConn>) {
    let pool = owed.settle();
    let empty = group.entries.pop().and_then(|entry| pool.seat(entry, conn));
    if let Some((conn, keys)) = empty {
        pool.release(Some(conn), &keys);
    }
}

impl Trip {
    fn new(dispatch: Dispatch<Waiter>) -> Self {
        let entries = dispatch.entries;
        Self {
            strategy: entries
                .first()
                .and_then(|e| e.spec.group)
                .map(|id| id.strategy),
            entries: entries.into_iter().map(Some).collect(),
            batch: None,
            served: Served::default(),
            since: Instant::now(),
            outcome: LockOutcome::Free,
        }
    }

    /// The connection has the settings of the group's members already.
    fn finds_its_settings(&self, conn: &ServerConn) -> bool {
        let first = self.entries.iter().flatten().next();
        let unit = first.and_then(|entry| entry.unit.unit.as_deref());
        unit.is_none_or(|unit| conn.side.has(&unit.settings))
    }

    /// Writes the batch, as far as the socket takes it.
    async fn set_out(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<(), ServerError> {
        out.clear();
        let first = self.entries.iter().flatten().next();
        let Some(first) = first.and_then(|entry| entry.unit.unit.clone()) else {
            return Ok(());
        };
        conn.card.begins(pool.proxy.clock.seconds());
        // Without their settings they cannot go: each learns why by itself.
        if !adopt(&first, pool, conn).await? {
            return Ok(());
        }
        self.build(pool, conn, out);
        conn.side.notified = true;
        conn.stream.write_now(out)?;
        Ok(())
    }

    /// Appends the batch to `out`, if it can be built.
    fn build(&mut self, pool: &Pool, conn: &mut ServerConn, out: &mut BytesMut) {
        let entries = self.entries.iter().flatten();
        let units: Vec<&PlannedRequest> = entries.filter_map(|e| e.unit.unit.as_deref()).collect();
        if let Some(strategy) = self.strategy.filter(|_| units.len() == self.entries.len()) {
            let chain = &pool.proxy.chain;
            self.batch = strategy::build(strategy, &units, chain, &mut conn.side, out);
        }
    }

    /// As [`Trip::travel`], within `query_timeout`. The members have it in common and left together: when the group's time
    /// is up, so is that of each, and none is cut off before another.
    async fn travel_in_time(
        &mut self,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<Way, ServerError> {
        let limit = pool.settings().timeouts.query_timeout;
        let travelled = {
            // By reference: a future keeps what is moved into it a second time.
            let travelling = pin!(self.travel(pool, conn, out));
            optional_timeout(limit, travelling).await
        };
        travelled.unwrap_or_else(|| {
            let limit = pool.proxy.config().paceline.timeouts.cancel_wait_timeout;
            cancel::abandon(conn.key.clone(), limit);
            Err(ServerError::QueryTimeout)
        })
    }

    /// Reads the batch's answers to the end; those of a pipeline are dealt out as they come.
    async fn travel(
        &mut self,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<Way, ServerError> {
        if self.strategy == Some(Strategy::Share) {
            return self.travel_shared(pool, conn, out).await;
        }
        let mut dealt = Vec::new();
        let Some(mut batch) = self.batch.take() else {
            return Ok(Way::Arrived(self.all_alone(Fallback::Unfit)));
        };
        let pipeline = self.strategy == Some(Strategy::Pipeline);
        let stall = match pipeline {
            true => PIPELINE_STALL,
            false => CALLED_BACK_AFTER,
        };
        let mut called_back = false;
        while !receive(&mut *batch, conn, &mut dealt)? {
            if pipeline {
                // Answers go out as they come; who goes again does so at the end.
                let answered =
                    |dealt: &mut Dealt| matches!(dealt.verdict, MemberOutcome::Answer(_));
                let answered: Vec<Dealt> = dealt.extract_if(.., answered).collect();
                self.count(pool, &answered);
                self.deal(answered);
            }
            match optional_timeout(stall, exchange(conn, out)).await {
                Some(read) => read?,
                None if pipeline => self.reroute(pool, &mut *batch),
                // Boxed: it is rare, and every trip would pay for its state.
                None if !called_back && pool.wants_back(self.entries.iter().flatten()) => {
                    called_back = true;
                    Box::pin(call_back(pool, conn)).await?;
                }
                None => {}
            }
            if pipeline && conn.input.len() + batch.kept() > PIPELINE_ANSWER_MAX {
                return Err(io::Error::other("an answer in a pipeline is too long").into());
            }
        }
        self.batch = Some(batch);
        Ok(Way::Arrived(dealt))
    }

    /// Members of a pipeline that has come to a halt need not wait for the one that holds it up.
    fn reroute(&mut self, pool: &Arc<Pool>, batch: &mut dyn Batch) {
        let abandoned = batch.abandon().unwrap_or_default();
        self.count(pool, &abandoned);
        let again = self.take_again(&abandoned);
        for (entry, _) in &again {
            if let Some(unit) = &entry.unit.unit {
                unit.template.pace.record(u32::MAX, 0);
            }
        }
        pool.reroute(again);
    }

    /// The trip is over: rows are free, members that were not served go again, who is next?
    fn arrive(&mut self, owed: &mut Owed, conn: &mut ServerConn, dealt: &[Dealt]) -> Option<Work> {
        let pool = &owed.pool;
        pool.proxy.busy_poll.message_received();
        self.measure();
        if let Some(batch) = &self.batch {
            if batch.failed() {
                Counters::count(&pool.proxy.counters.errors);
            }
            if let Some(invalidation) = batch.invalidation() {
                self.learn(pool, invalidation);
            }
        }
        pool.stats.server_parsed(conn.side.take_parses());
        conn.card.has_prepared(conn.side.prepared());
        self.count(pool, dealt);
        self.count_group(pool);
        let again = self.take_again(dealt);
        let rows = owed.take_rows().into_iter();
        let rows = rows.map(|key| (key, self.outcome)).collect();
        owed.pool.turn(conn, rows, again)
    }

    /// Records how long a group of writes of one template took.
    fn measure(&self) {
        let committed = self.batch.as_ref().is_some_and(|batch| !batch.failed());
        let one_template = self
            .strategy
            .is_some_and(|s| !s.reads() && s != Strategy::Chain);
        let first = self
            .entries
            .iter()
            .flatten()
            .find_map(|e| e.unit.unit.as_ref());
        if let Some(unit) = first.filter(|_| committed && one_template) {
            let micros = u32::try_from(self.since.elapsed().as_micros()).unwrap_or(u32::MAX);
            unit.template.pace.record_group(micros, self.entries.len());
        }
    }

    /// What was learned of the members' templates no longer holds. A refusal speaks of the first: only in a chain there are others,
    /// and of them nothing is known.
    fn learn(&self, pool: &Pool, invalidation: Invalidation) {
        let mut instead = match invalidation {
            Invalidation::Changed => None,
            Invalidation::Refused(why) => Some(Learned::refused(why)),
        };
        let entries = self.entries.iter().flatten();
        let units = entries.filter_map(|entry| entry.unit.unit.as_ref());
        let mut seen = Vec::new();
        for unit in units {
            let template = (unit.template.id, unit.settings.id);
            if !seen.contains(&template) {
                seen.push(template);
                pool.learn(template.0, template.1, instead.take());
            }
        }
    }

    /// Counts what has become of members, before they hear of it.
    fn count(&mut self, pool: &Pool, dealt: &[Dealt]) {
        let mut fares = Fares::default();
        for Dealt { member, verdict } in dealt {
            let entry = self.entries.get(*member).and_then(Option::as_ref);
            let unit = entry.and_then(|entry| entry.unit.unit.as_ref());
            if let (Some(unit), MemberOutcome::Answer(answer)) = (unit, verdict) {
                fares.take(unit, answer, &pool.stats);
            }
            if let Some(tally) = unit.and_then(|unit| unit.tally.as_ref())
                && let Some(strategy) = self.strategy
            {
                match verdict {
                    MemberOutcome::Answer(_) => self.served.one(tally),
                    MemberOutcome::Again(_, why) => tally.came_back(strategy, *why),
                }
            }
        }
        fares.count(self.since, &pool.stats);
    }

    /// Counts the group itself when it is over.
    fn count_group(&mut self, pool: &Pool) {
        if let (Some(strategy), Some(batch)) = (self.strategy, &self.batch) {
            let committed = !strategy.reads() && !batch.failed();
            let rows = batch.rows_written();
            let units = self.served.count(strategy, rows, committed);
            pool.sizes.count(strategy, units);
        }
    }

    fn take_again(&mut self, dealt: &[Dealt]) -> Vec<(Entry<Waiter>, Again)> {
        let mut again = Vec::new();
        for Dealt { member, verdict } in dealt {
            if let MemberOutcome::Again(how, _) = verdict
                && let Some(entry) = self.entries.get_mut(*member).and_then(Option::take)
            {
                again.push((entry, *how));
            }
        }
        again
    }

    /// Hands out answers.
    fn deal(&mut self, dealt: Vec<Dealt>) {
        for Dealt { member, verdict } in dealt {
            if let MemberOutcome::Answer(answer) = verdict
                && let Some(entry) = self.entries.get_mut(member).and_then(Option::take)
            {
                // A client that has gone needs no answer.
                let _ = entry.unit.answer.send(Delivery::Answer(answer));
            }
        }
    }

    fn all_alone(&self, why: Fallback) -> Vec<Dealt> {
        let alone = |member| Dealt {
            member,
            verdict: MemberOutcome::Again(Again::Alone, why),
        };
        (0..self.entries.len()).map(alone).collect()
    }

    /// The connection is lost. Reads go again; for writes a commit may have been under way, so each member is told
    /// what it would have been told alone. So is each when the time is up: reads have no more of it, either.
    fn wreck(mut self, owed: Owed, error: &ServerError) {
        let pool = &owed.pool;
        Counters::count(&pool.proxy.counters.errors);
        let in_time = !matches!(error, ServerError::QueryTimeout);
        let reads = self.strategy.filter(|strategy| strategy.reads());
        if let Some(strategy) = reads.filter(|_| in_time) {
            let alone = self.all_alone(Fallback::Lost);
            self.count(pool, &alone);
            let units = self.served.count(strategy, 0, false);
            pool.sizes.count(strategy, units);
            return owed.wreck(self.take_again(&alone));
        }
        let told = match in_time {
            true => lost(),
            false => timed_out("query timeout"),
        };
        for entry in self.entries.into_iter().flatten() {
            let _ = entry.unit.answer.send(Delivery::Fatal(told.clone()));
        }
        owed.wreck(Vec::new());
    }
}

/// Puts the settings of a request in force. Returns false if the server refuses them.
async fn adopt(unit: &Request, pool: &Pool, conn: &mut ServerConn) -> Result<bool, ServerError> {
    if conn.side.has(&unit.settings) {
        return Ok(true);
    }
    let limit = pool.settings().timeouts.query_timeout;
    // Boxed: it is rare, and every trip would pay for its state.
    match optional_timeout(limit, Box::pin(conn.adopt(&unit.settings))).await {
        Some(Err(ServerError::Refused(_))) => Ok(false),
        other => other
            .unwrap_or(Err(ServerError::QueryTimeout))
            .map(|()| true),
    }
}

/// Sends a cancel request for this connection. The server's answer is still to be read.
async fn call_back(pool: &Pool, conn: &ServerConn) -> Result<(), ServerError> {
    let limit = pool.proxy.config().paceline.timeouts.cancel_wait_timeout;
    match optional_timeout(limit, conn.key.cancel()).await {
        Some(told) => Ok(told?),
        // One that comes later could hit somebody else on this connection.
        None => Err(ServerError::Timeout(limit)),
    }
}

/// What a client is told whose server connection was lost under its unit.
pub(crate) fn lost() -> Bytes {
    let mut out = BytesMut::new();
    ErrorResponse::fatal("08006", "server closed the connection unexpectedly")
        .with_detail("Whether the transaction was committed is not known.")
        .write(&mut out);
    out.freeze()
}

/// What a client is told whose time is up; its connection ends, as with PgBouncer.
pub(crate) fn timed_out(why: &str) -> Bytes {
    let mut out = BytesMut::new();
    ErrorResponse::fatal("08P01", why).write(&mut out);
    out.freeze()
}

/// Feeds whole messages to the batch. True: it is over.
fn receive(
    batch: &mut dyn Batch,
    conn: &mut ServerConn,
    dealt: &mut Vec<Dealt>,
) -> Result<bool, ServerError> {
    let mut frames = Frames::new(&conn.input);
    let mut over = false;
    while !over && let Some(frame) = frames.next_frame()? {
        over = batch.receive(frame, &mut conn.side, dealt);
    }
    let taken = conn.input.len() - frames.rest().len();
    bytes::Buf::advance(&mut conn.input, taken);
    Ok(over)
}

/// Writes what is left and waits for more to read.
async fn exchange(conn: &mut ServerConn, out: &mut BytesMut) -> Result<(), ServerError> {
    loop {
        conn.stream.write_now(out)?;
        let before = conn.input.len();
        if conn.stream.read_now(&mut conn.input)? {
            if conn.input.len() - before >= READ_BYTES {
                // More may be there already, and more again: others have their turn.
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        let interest = match out.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        conn.stream.ready(interest).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task is moved half a dozen times before it runs and when it has run: what is rare must not be part of it.
    #[test]
    fn a_trip_is_small() {
        fn size<F>(_: impl FnOnce(Arc<Pool>, Box<ServerConn>, Work) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(drive) < 2048, "{} bytes", size(drive));
    }
}
