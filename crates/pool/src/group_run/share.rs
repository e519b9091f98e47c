//! Runs of identical reads: the answer is kept for all members, or handed over to one of them when it becomes too long.

use super::exchange::{cancel, exchange};
use super::guard::RunGuard;
use super::run::{GroupRun, RunEnd};
use crate::pool::{Pool, PooledServer, WaitResult, Waiter};
use crate::result_memory::ResultReservation;
use crate::server::{ServerConn, ServerError};
use bytes::{BufMut, BytesMut};
use paceline_batch::line::WaitEntry;
use paceline_batch::strategy::Strategy;
use paceline_batch::strategy::share::ANSWER_BYTES_MAX;
use paceline_batch::strategy::{MemberOutcome, MemberResult, Retry};
use paceline_batch::template_stats::Fallback;
use paceline_relay::request::PartialAnswer;
use std::io;

impl GroupRun {
    /// Reads the answer to its end, or until there is no memory for more of it.
    pub(super) async fn receive_shared(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<RunEnd, ServerError> {
        let Some(mut batch) = self.batch.take() else {
            return Ok(RunEnd::Finished(self.all_alone(Fallback::Unfit)));
        };
        let mut memory = ResultReservation::new(&pool.shared.result_memory);
        let mut results = Vec::new();
        let mut given_up = false;
        while !self.feed_batch(pool, conn, &mut *batch, &mut results)? {
            let kept = batch.buffered_len() + conn.input.len();
            let fits = kept <= ANSWER_BYTES_MAX;
            if !(fits && memory.grow_to(kept)) {
                match batch.hand_over(&conn.input) {
                    _ if pool.is_beside() => {
                        return Err(io::Error::other("an answer is too long to be kept").into());
                    }
                    Some(mut underway) => {
                        underway.answer.put_slice(&self.statuses);
                        return Ok(RunEnd::HandedOver(underway, memory));
                    }
                    None if fits => {}
                    None => return Err(io::Error::other("too much in front of the rows").into()),
                }
            }
            tokio::select! {
                biased;
                read = exchange(conn, out) => read?,
                () = all_left(&mut self.entries), if !given_up => {
                    given_up = true;
                    // Boxed: it is rare, and every run would pay for its state.
                    Box::pin(cancel(pool, conn)).await?;
                }
            }
        }
        self.batch = Some(batch);
        share_memory(&mut results, memory);
        Ok(RunEnd::Finished(results))
    }

    /// Gives the connection, with the part of the answer that has arrived, to one member. The others, which have got nothing, are
    /// relayed alone.
    pub(super) fn hand_over(
        self,
        mut guard: RunGuard,
        conn: Box<ServerConn>,
        underway: PartialAnswer,
        memory: ResultReservation,
    ) {
        let entries = self.entries.into_iter().flatten();
        let mut waiting = entries.filter(|entry| !entry.request.answer.is_closed());
        let leader = waiting.next();
        let others: Vec<_> = waiting.map(|entry| (entry, Retry::Alone)).collect();
        for (entry, _) in &others {
            let request = entry.request.request.as_ref();
            if let Some(stats) = request.and_then(|request| request.stats.as_ref()) {
                stats.count_fallback(Strategy::Share, Fallback::TooLong);
            }
        }
        guard.pool.resubmit(others);
        let flight = guard.take_flight();
        let pool = guard.release();
        let server = PooledServer::with_underway(&pool, conn, (underway, memory), flight);
        if let Some(leader) = leader {
            // If the client has left, the connection is dropped and closed.
            let _ = leader.request.answer.send(WaitResult::Server(server));
        }
    }
}

/// Makes the answers copies of one, which keeps its memory until the last copy is dropped.
fn share_memory(results: &mut [MemberResult], memory: ResultReservation) {
    let mut answers = results
        .iter_mut()
        .filter_map(|result| match &mut result.outcome {
            MemberOutcome::Answer(answer) => Some(answer),
            MemberOutcome::Retry(..) => None,
        });
    let Some(first) = answers.next() else {
        return;
    };
    let kept = memory.attach(first.clone());
    answers
        .chain([first])
        .for_each(|answer| *answer = kept.clone());
}

/// Returns when all members have left or cancelled.
async fn all_left(entries: &mut [Option<WaitEntry<Waiter>>]) {
    for entry in entries.iter_mut().flatten() {
        entry.request.answer.closed().await;
    }
}
