//! Groups on a replica: the position that it has replayed, before and after.
//!
//! A replica that restarts may show an older state than before, and two connections to one host name may lead to two servers. So
//! each group asks on its own connection, in the same packet: before the reads, if the connection is not known to be fresh enough;
//! and after them, because the replica continues to replay between the two. The first answer is a lower limit of what the reads
//! have seen, and decides whether their answers count. The second is an upper limit: their clients will read no older state.
//!
//! A logical subscriber has no such position. Behind the reads it is asked for a fingerprint of its tables and of its subscription.

use super::exchange::{exchange, feed};
use super::run::{GroupRun, ReplicaRun, RunEnd};
use crate::hosts::{ReadableTables, ReplicaHost};
use crate::pool::Pool;
use crate::server::{ServerConn, ServerError};
use bytes::{Bytes, BytesMut};
use paceline_batch::strategy::{MemberOutcome, MemberResult};
use paceline_batch::template_stats::Fallback;
use paceline_cluster::Lsn;
use paceline_wire::backend::{row_values, tag};
use paceline_wire::frontend::write_query;
use std::sync::Arc;

/// After a promotion the position of the last replay stays as it was, but the server changes: it is no replica then.
const REPLAYED: &str =
    "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() END";

/// Asks for the position that the replica has replayed, or for the fingerprint of a subscriber.
fn ask(conn: &mut ServerConn, out: &mut BytesMut, question: &str) {
    conn.side.unnamed = None;
    write_query(out, question);
}

/// Reads the answer. `None`: NULL, or the server rejects the question.
async fn answer(conn: &mut ServerConn, out: &mut BytesMut) -> Result<Option<String>, ServerError> {
    let mut value = None;
    while !feed(conn, |frame, _| {
        if frame.tag == tag::DATA_ROW {
            value = read(frame.body());
        }
        frame.tag == tag::READY_FOR_QUERY
    })? {
        exchange(conn, out).await?;
    }
    Ok(value)
}

/// Reads the position that the replica has replayed. `None`: the server is no replica, or rejects the question.
async fn replayed(conn: &mut ServerConn, out: &mut BytesMut) -> Result<Option<Lsn>, ServerError> {
    let text = answer(conn, out).await?;
    Ok(text.and_then(|text| text.parse().ok()))
}

fn read(row: &[u8]) -> Option<String> {
    let values = row_values(row).ok()?;
    let text = values.into_iter().next().flatten()?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

fn answers(results: &[MemberResult]) -> impl Iterator<Item = &Bytes> {
    results.iter().filter_map(|result| match &result.outcome {
        MemberOutcome::Answer(answer) => Some(answer),
        MemberOutcome::Retry(..) => None,
    })
}

impl GroupRun {
    /// Builds the batch between the questions about the replica.
    pub(super) fn build_for_replica(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) {
        if let Some(replica) = pool.replica.as_ref()
            && replica.hosts.is_subscriber(replica.id)
        {
            return self.build_for_subscriber(pool, replica, conn, out);
        }
        let entries = self.entries.iter().flatten();
        let needed = entries.map(|entry| entry.request.position).max();
        let needed = needed.unwrap_or(Lsn::ZERO);
        let asks_before = conn.replayed < needed;
        if asks_before {
            ask(conn, out, REPLAYED);
        }
        match pool.is_of_shard() {
            // The comparison of definitions follows the reads and precedes the second question for the replayed position.
            true => self.build_described(pool, conn, out),
            false => self.build(pool, conn, out),
        }
        // A declared function may have set something all the same.
        let mut requests = self.entries.iter().flatten().map(|entry| &entry.request);
        conn.side.needs_reset |= requests.any(|waiter| {
            let request = waiter.request.as_deref();
            request.is_some_and(|request| request.may_change_session)
        });
        ask(conn, out, REPLAYED);
        self.replica = Some(ReplicaRun {
            needed,
            asks_before,
            seen: None,
            subscriber: None,
        });
    }

    /// Builds the batch, with the question for the fingerprint of the subscriber behind it. If it may not serve reads any more, builds
    /// nothing.
    fn build_for_subscriber(
        &mut self,
        pool: &Pool,
        replica: &ReplicaHost,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) {
        let Some(subscriber) = replica.hosts.readable_subscriber(replica.id) else {
            return;
        };
        conn.side.primary_columns = Some(Arc::clone(&subscriber.columns));
        self.build(pool, conn, out);
        ask(conn, out, &subscriber.question);
        self.replica = Some(ReplicaRun {
            needed: Lsn::ZERO,
            asks_before: false,
            seen: None,
            subscriber: Some(subscriber),
        });
    }

    /// Receives the answers of a subscriber. None counts unless the definitions are still those that were compared with the
    /// primary's: then each is of a state that the primary had.
    async fn receive_from_subscriber(
        &mut self,
        mut run: ReplicaRun,
        subscriber: &ReadableTables,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<RunEnd, ServerError> {
        let end = self.receive_batch(pool, conn, out).await?;
        let fingerprint = answer(conn, out).await?;
        let replica = pool.replica.as_ref();
        let replica = replica.filter(|replica| replica.hosts.is_current(subscriber));
        let same = fingerprint.as_deref() == Some(subscriber.fingerprint());
        let (Some(replica), true, RunEnd::Finished(results)) = (replica, same, &end) else {
            return Ok(RunEnd::Finished(self.all_alone(Fallback::Stale)));
        };
        replica
            .hosts
            .count_reads(replica.id, answers(results).count());
        self.record_pace(results);
        // It says nothing about the log of the primary.
        run.seen = Some(Lsn::ZERO);
        self.replica = Some(run);
        Ok(end)
    }

    /// Records how long a read that ran alone took: no client relays it, as on the primary.
    pub(super) fn record_pace(&self, results: &[MemberResult]) {
        if let ([Some(entry)], Some(answer)) = (self.entries.as_slice(), answers(results).next())
            && let Some(request) = &entry.request.request
        {
            let bytes = u32::try_from(answer.len()).unwrap_or(u32::MAX);
            request.record_pace(self.micros(), bytes);
        }
    }

    /// Receives the answers of the batch and those to the questions around it. If the replica was not fresh enough, no answer of the
    /// batch counts.
    pub(super) async fn receive_from_replica(
        &mut self,
        mut run: ReplicaRun,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<RunEnd, ServerError> {
        if let Some(subscriber) = run.subscriber.take() {
            return self
                .receive_from_subscriber(run, &subscriber, pool, conn, out)
                .await;
        }
        if run.asks_before {
            conn.replayed = replayed(conn, out).await?.unwrap_or(Lsn::ZERO);
        }
        let is_fresh = conn.replayed >= run.needed;
        let end = self.receive_batch(pool, conn, out).await?;
        run.seen = replayed(conn, out).await?;
        conn.replayed = run.seen.unwrap_or(Lsn::ZERO);
        let counts = is_fresh && run.seen.is_some();
        if let (Some(replica), Some(seen)) = (&pool.replica, run.seen) {
            replica.hosts.replica_answered(replica.id, seen);
            if let (true, RunEnd::Finished(results)) = (counts, &end) {
                replica
                    .hosts
                    .count_reads(replica.id, answers(results).count());
                self.record_pace(results);
            }
        }
        self.replica = Some(run);
        match counts {
            true => Ok(end),
            false => Ok(RunEnd::Finished(self.all_alone(Fallback::Stale))),
        }
    }
}
