//! One group on a server connection: builds and sends its batch, and gives the answers to its members.

use super::exchange::{adopt, cancel, exchange};
use super::guard::RunGuard;
use super::stats::{RunStats, commits};
use super::trace::RunTrace;
use crate::clock;
use crate::counters::Counters;
use crate::hosts::ReadableTables;
use crate::messages;
use crate::pool::{Pool, ServerWork, WaitResult, Waiter};
use crate::result_memory::ResultReservation;
use crate::server::{ServerConn, ServerError, abandon};
use bytes::BytesMut;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::line::{Dispatch, LockOutcome, WaitEntry};
use paceline_batch::strategy::Strategy;
use paceline_batch::strategy::share::ANSWER_BYTES_MAX;
use paceline_batch::strategy::{
    self, Batch, BuildContext, Invalidation, MemberOutcome, MemberResult, PlannedRequest, Retry,
};
use paceline_batch::template_stats::{AnsweredMembers, Fallback};
use paceline_cluster::{Lsn, SentAt};
use paceline_net::optional_timeout;
use paceline_relay::request::PartialAnswer;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After this time without an answer the members of a pipeline are relayed on other connections, and its statement is cancelled.
const PIPELINE_STALL: Duration = Duration::from_millis(100);

/// If the server has sent nothing for this long, and a member was cancelled or its time-out has expired, the group is cancelled on
/// the server: it probably waits for a lock on the table.
const CANCEL_AFTER: Duration = Duration::from_millis(20);

/// Maximum number of bytes of answers that a pipeline keeps; its members are known to be short.
const PIPELINE_ANSWER_MAX: usize = 1024 * 1024;

/// A group on a server connection.
pub(super) struct GroupRun {
    /// `None` where the member has been answered or put back into the line.
    pub(super) entries: Vec<Option<WaitEntry<Waiter>>>,
    /// `None` if it could not be built, and while it runs.
    pub(super) batch: Option<Box<dyn Batch>>,
    /// `None`: a statement alone on a shard.
    pub(super) strategy: Option<Strategy>,
    /// Exists while the group is under way on a replica.
    pub(super) replica: Option<ReplicaRun>,
    /// Exists while the group is under way, if a member is traced.
    pub(super) trace: Option<Box<RunTrace>>,
    served: AnsweredMembers,
    since: Instant,
    /// The position of the primary that was known last when the batch was built.
    pub(super) sent_at: SentAt,
    /// The end of the flight of the rows.
    pub(super) outcome: LockOutcome,
    /// Settings that the server has reported, for the members.
    pub(super) statuses: BytesMut,
}

/// The requirements of a group on a replica, and its findings there.
#[derive(Debug)]
pub(super) struct ReplicaRun {
    /// The position that the replica must have replayed before the group begins.
    pub(super) needed: Lsn,
    /// Whether it is asked before the group.
    pub(super) asks_before: bool,
    /// The position that it had replayed after the group.
    pub(super) seen: Option<Lsn>,
    /// The subscriber, if it is one.
    pub(super) subscriber: Option<Arc<ReadableTables>>,
}

/// The end of a run.
pub(super) enum RunEnd {
    /// The batch is complete; these members have their outcome.
    Finished(Vec<MemberResult>),
    /// A shared answer is too long to be kept: its beginning, and its memory.
    HandedOver(PartialAnswer, ResultReservation),
}

impl GroupRun {
    pub(super) fn new(group: Dispatch<Waiter>) -> Self {
        let entries = group.entries;
        Self {
            strategy: entries
                .first()
                .and_then(|e| e.spec.group)
                .map(|id| id.strategy),
            entries: entries.into_iter().map(Some).collect(),
            batch: None,
            replica: None,
            trace: None,
            served: AnsweredMembers::default(),
            since: clock::now(),
            sent_at: SentAt::default(),
            outcome: LockOutcome::Free,
            statuses: BytesMut::new(),
        }
    }

    /// Whether the connection already has the settings of the group.
    pub(super) fn has_settings(&self, conn: &ServerConn) -> bool {
        let first = self.entries.iter().flatten().next();
        let request = first.and_then(|entry| entry.request.request.as_deref());
        request.is_none_or(|request| conn.side.has(&request.settings))
    }

    /// Sends the batch, as far as the socket takes it.
    pub(super) async fn send(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<(), ServerError> {
        out.clear();
        let first = self.entries.iter().flatten().next();
        let Some(first) = first.and_then(|entry| entry.request.request.clone()) else {
            return Ok(());
        };
        conn.info.request_begins(pool.shared.clock.seconds());
        // If the server refuses the settings, each member gets the error when it is relayed alone.
        if !adopt(&first, pool, conn).await? {
            return Ok(());
        }
        match (pool.is_of_replica(), pool.is_of_shard()) {
            (true, _) => self.build_for_replica(pool, conn, out),
            (false, true) => self.build_for_shard(pool, conn, out).await?,
            (false, false) => self.build(pool, conn, out),
        }
        self.begin_trace(pool, conn);
        conn.side.notified = true;
        conn.stream.write_now(out)?;
        Ok(())
    }

    /// Begins the span of the group, if a member is traced. The batch is about to be sent.
    pub(super) fn begin_trace(&mut self, pool: &Pool, conn: &ServerConn) {
        if pool.shared.traces.is_on() && self.batch.is_some() {
            self.trace = RunTrace::begin(pool, conn, &self.entries, self.strategy, self.since);
        }
    }

    fn end_trace(&mut self, failed: bool) {
        if let Some(trace) = self.trace.take() {
            trace.end(failed);
        }
    }

    /// Appends the batch to `out`, if it can be built.
    pub(super) fn build(&mut self, pool: &Pool, conn: &mut ServerConn, out: &mut BytesMut) {
        self.sent_at = pool.sent_at();
        let entries = self.entries.iter().flatten();
        let requests: Vec<&PlannedRequest> = entries
            .filter_map(|e| e.request.request.as_deref())
            .collect();
        if let Some(strategy) = self
            .strategy
            .filter(|_| requests.len() == self.entries.len())
        {
            let context = BuildContext {
                prelude: &pool.shared.chain,
                now: clock::now(),
                queue_reorder_time: pool.settings().grouping.queue_reorder_time,
                on_replica: pool.replica.is_some(),
            };
            self.batch = strategy::build(strategy, &requests, &context, &mut conn.side, out);
        }
    }

    /// As [`GroupRun::receive`], within `query_timeout`. The members have the limit in common and left the line together: when the
    /// time of the group is over, so is that of each member.
    pub(super) async fn receive_in_time(
        &mut self,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<RunEnd, ServerError> {
        let limit = pool.settings().timeouts.query_timeout;
        let received = {
            // By reference: a future that is moved in would be stored twice.
            let receiving = pin!(self.receive(pool, conn, out));
            optional_timeout(limit, receiving).await
        };
        received.unwrap_or_else(|| {
            let limit = pool.shared.config().paceline.timeouts.cancel_wait_timeout;
            abandon(conn.key.clone(), limit);
            Err(ServerError::QueryTimeout)
        })
    }

    async fn receive(
        &mut self,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<RunEnd, ServerError> {
        match self.replica.take() {
            Some(run) => Box::pin(self.receive_from_replica(run, pool, conn, out)).await,
            None if pool.is_of_shard() => Box::pin(self.receive_from_shard(pool, conn, out)).await,
            None => self.receive_batch(pool, conn, out).await,
        }
    }

    /// Reads the answers of the batch to the end. Those of a pipeline are distributed at once, unless a replica sends them.
    pub(super) async fn receive_batch(
        &mut self,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<RunEnd, ServerError> {
        if self.strategy == Some(Strategy::Share) {
            return self.receive_shared(pool, conn, out).await;
        }
        let mut results = Vec::new();
        let Some(mut batch) = self.batch.take() else {
            return Ok(RunEnd::Finished(self.all_alone(Fallback::Unfit)));
        };
        let pipeline = self.strategy == Some(Strategy::Pipeline);
        let stall = match pipeline {
            true => PIPELINE_STALL,
            false => CANCEL_AFTER,
        };
        let mut cancelled = false;
        while !self.feed_batch(pool, conn, &mut *batch, &mut results)? {
            if pipeline && !pool.is_beside() {
                // Members that must be tried again wait for the end.
                let answered =
                    |result: &mut MemberResult| matches!(result.outcome, MemberOutcome::Answer(_));
                let answered: Vec<MemberResult> = results.extract_if(.., answered).collect();
                self.count(pool, &answered);
                self.distribute(answered);
            }
            match optional_timeout(stall, exchange(conn, out)).await {
                Some(read) => read?,
                None => {
                    if pipeline {
                        self.leave_stalled(pool, &mut *batch, &mut results);
                    }
                    // A pipeline may have several statements that no member needs.
                    if (pipeline || !cancelled) && self.must_cancel(pool) {
                        cancelled = true;
                        // Boxed: it is rare, and every run would pay for its state.
                        Box::pin(cancel(pool, conn)).await?;
                    }
                }
            }
            let kept = conn.input.len() + batch.buffered_len();
            if pipeline && kept > PIPELINE_ANSWER_MAX {
                return Err(io::Error::other("an answer in a pipeline is too long").into());
            }
            if kept > ANSWER_BYTES_MAX && self.is_single_read() {
                return Err(io::Error::other("an answer is too long to be kept").into());
            }
        }
        self.batch = Some(batch);
        Ok(RunEnd::Finished(results))
    }

    /// Whether the statement that is under way should be cancelled on the server: that of a pipeline if no member needs its answer.
    fn must_cancel(&self, pool: &Pool) -> bool {
        let mut entries = self.entries.iter().flatten();
        match self.strategy == Some(Strategy::Pipeline) {
            true => entries.next().is_none(),
            false => pool.must_cancel(entries),
        }
    }

    /// Puts the members of a pipeline that has stalled back into the line. On a replica, answers that have arrived do not count
    /// before the end of the run: their members leave, too.
    fn leave_stalled(
        &mut self,
        pool: &Arc<Pool>,
        batch: &mut dyn Batch,
        results: &mut Vec<MemberResult>,
    ) {
        let mut abandoned = batch.abandon().unwrap_or_default();
        abandoned.extend(results.drain(..).map(MemberResult::stalled));
        self.count(pool, &abandoned);
        let again = self.take_again(&abandoned);
        for (entry, _) in &again {
            if let Some(request) = &entry.request.request {
                request.template.pace.record(u32::MAX, 0);
            }
        }
        pool.resubmit(again);
    }

    /// Ends the run: its rows are released, members that were not served are put back into the line. Returns what the connection
    /// does next.
    pub(super) fn finish(
        &mut self,
        guard: &mut RunGuard,
        conn: &mut ServerConn,
        results: &[MemberResult],
    ) -> Option<ServerWork> {
        let pool = &guard.pool;
        pool.shared.busy_poll.message_received();
        self.measure();
        if let Some(batch) = &self.batch {
            if batch.failed() {
                Counters::count(&pool.shared.counters.errors);
            }
            if let Some(invalidation) = batch.invalidation() {
                self.invalidate(pool, invalidation);
            }
        }
        pool.stats.server_parsed(conn.side.take_parses());
        conn.info.set_prepared(conn.side.prepared());
        self.count(pool, results);
        self.count_group(pool);
        self.end_trace(self.batch.as_ref().is_some_and(|batch| batch.failed()));
        let again = self.take_again(results);
        let rows = guard.take_rows().into_iter();
        let rows = rows.map(|key| (key, self.outcome)).collect();
        let flight = guard.take_flight();
        guard.pool.finish_run(conn, flight, rows, again)
    }

    /// Records how long a group of writes of one template took.
    fn measure(&self) {
        let committed = self.batch.as_ref().is_some_and(|batch| !batch.failed());
        let one_template = self.strategy.is_some_and(Strategy::rewrites);
        let first = self
            .entries
            .iter()
            .flatten()
            .find_map(|e| e.request.request.as_ref());
        if let Some(request) = first.filter(|_| committed && one_template) {
            let pace = &request.template.pace;
            pace.record_group(self.micros(), self.entries.len());
        }
    }

    /// Microseconds since the beginning of the run.
    pub(super) fn micros(&self) -> u32 {
        u32::try_from(clock::elapsed(self.since).as_micros()).unwrap_or(u32::MAX)
    }

    /// Drops the analyses of the members' templates. A refusal concerns the first one: only a chain has others, and of them nothing
    /// is known.
    fn invalidate(&self, pool: &Arc<Pool>, invalidation: Invalidation) {
        let mut instead = match invalidation {
            Invalidation::Changed => None,
            Invalidation::Refused(why) => Some(TemplateAnalysis::refused(why)),
        };
        let entries = self.entries.iter().flatten();
        let requests = entries.filter_map(|entry| entry.request.request.as_ref());
        let mut seen = Vec::new();
        for request in requests {
            let template = (request.template.id, request.settings.id);
            if !seen.contains(&template) {
                seen.push(template);
                pool.set_analysis(template.0, template.1, instead.take());
            }
        }
    }

    /// Counts the outcomes of members before the members get them.
    fn count(&mut self, pool: &Pool, results: &[MemberResult]) {
        let mut stats = RunStats::default();
        let took = clock::elapsed(self.since);
        self.count_commits(pool, results);
        for MemberResult { member, outcome } in results {
            let entry = self.entries.get(*member).and_then(Option::as_ref);
            let request = entry.and_then(|entry| entry.request.request.as_ref());
            if let (Some(request), MemberOutcome::Answer(answer)) = (request, outcome) {
                stats.add(request, answer, &pool.stats);
                if let Some(template) = request.stats.as_ref().filter(|_| pool.is_of_shard()) {
                    template.count_on_shard();
                }
            }
            if let Some(template) = request.and_then(|request| request.stats.as_ref()) {
                match (self.strategy, outcome) {
                    (Some(_), MemberOutcome::Answer(_)) => self.served.add(template, took),
                    (Some(strategy), MemberOutcome::Retry(_, why)) => {
                        template.count_fallback(strategy, *why);
                    }
                    (None, MemberOutcome::Answer(_)) => {
                        template.count_alone();
                        template.count_alone_time(took);
                    }
                    // Its client relays it elsewhere.
                    (None, MemberOutcome::Retry(..)) => {}
                }
            }
        }
        stats.count(took, &pool.stats);
    }

    /// Counts the commits of members that are about to be answered.
    fn count_commits(&self, pool: &Pool, results: &[MemberResult]) {
        let reads = self
            .strategy
            .map_or_else(|| self.is_single_read(), Strategy::reads);
        if !reads && pool.counts_commits() {
            pool.committed(self.sent_at, commits(results, self.strategy));
        }
    }

    /// Counts the group itself at its end.
    fn count_group(&mut self, pool: &Pool) {
        if let (Some(strategy), Some(batch)) = (self.strategy, &self.batch) {
            let committed = !strategy.reads() && !batch.failed();
            let rows = batch.rows_written();
            let members = self.served.count(strategy, rows, committed);
            pool.stats.sizes.count(strategy, members);
        }
    }

    fn take_again(&mut self, results: &[MemberResult]) -> Vec<(WaitEntry<Waiter>, Retry)> {
        let mut again = Vec::new();
        for MemberResult { member, outcome } in results {
            if let MemberOutcome::Retry(how, _) = outcome
                && let Some(entry) = self.entries.get_mut(*member).and_then(Option::take)
            {
                again.push((entry, *how));
            }
        }
        again
    }

    /// Sends the members their answers.
    pub(super) fn distribute(&mut self, results: Vec<MemberResult>) {
        for MemberResult { member, outcome } in results {
            if let MemberOutcome::Answer(answer) = outcome
                && let Some(entry) = self.entries.get_mut(member).and_then(Option::take)
            {
                let seen = self.replica.as_ref().and_then(|replica| replica.seen);
                // A client that has left needs no answer.
                let _ = entry.request.answer.send(match seen {
                    Some(seen) => WaitResult::OfReplica(answer, seen),
                    None => WaitResult::Answer(answer),
                });
            }
        }
    }

    /// The outcome that all members are relayed alone.
    pub(super) fn all_alone(&self, why: Fallback) -> Vec<MemberResult> {
        let alone = |member| MemberResult {
            member,
            outcome: MemberOutcome::Retry(Retry::Alone, why),
        };
        (0..self.entries.len()).map(alone).collect()
    }

    /// The connection is lost. Reads are tried again; of writes a commit may have been under way, so each member gets the error that
    /// it would have got alone. So do all members when their time is over.
    pub(super) fn connection_lost(mut self, guard: RunGuard, error: &ServerError) {
        self.end_trace(true);
        let pool = &guard.pool;
        Counters::count(&pool.shared.counters.errors);
        let in_time = !matches!(error, ServerError::QueryTimeout);
        if pool.is_of_shard()
            && in_time
            && (self.is_single_read() || self.strategy.is_some_and(Strategy::reads))
        {
            let elsewhere = self.all_elsewhere(Fallback::Lost);
            self.count(pool, &elsewhere);
            return guard.connection_lost(self.take_again(&elsewhere));
        }
        let reads = self.strategy.filter(|strategy| strategy.reads());
        if let Some(strategy) = reads.filter(|_| in_time) {
            let alone = self.all_alone(Fallback::Lost);
            self.count(pool, &alone);
            let members = self.served.count(strategy, 0, false);
            pool.stats.sizes.count(strategy, members);
            return guard.connection_lost(self.take_again(&alone));
        }
        for entry in self.entries.into_iter().flatten() {
            let result = match in_time {
                true => WaitResult::Fatal(messages::connection_lost()),
                false => WaitResult::query_timeout(),
            };
            // A client that has left needs no answer.
            let _ = entry.request.answer.send(result);
        }
        guard.connection_lost(Vec::new());
    }
}
