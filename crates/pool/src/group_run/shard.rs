//! Groups on a shard. No member has a part of an answer before all of it counts (`batch`: `strategy/shard`).

use super::exchange::{exchange, feed};
use super::run::{GroupRun, RunEnd};
use crate::clock;
use crate::pool::Pool;
use crate::server::{ServerConn, ServerError};
use bytes::BytesMut;
use paceline_batch::strategy::{
    BuildContext, MemberOutcome, MemberResult, PlannedRequest, Retry, ShardTable, Strategy,
    build_on_shard,
};
use paceline_batch::template_stats::Fallback;
use paceline_relay::server::{Injected, Preparable};
use paceline_sql::Effect;
use paceline_wire::backend::{row_values, tag};
use paceline_wire::frontend::{self, Target};
use std::sync::Arc;

impl GroupRun {
    /// Builds the batch, with the comparisons of the tables' definitions.
    pub(super) async fn build_for_shard(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<(), ServerError> {
        self.run_single_alone(pool);
        if let (None, [Some(entry)]) = (self.strategy, self.entries.as_slice())
            && let Some(request) = &entry.request.request
        {
            // Boxed: it is rare, and every run would pay for its state.
            Box::pin(describe_first(request, conn)).await?;
        }
        self.build_described(pool, conn, out);
        Ok(())
    }

    /// The same if the server need not describe the columns of a statement first.
    pub(super) fn build_described(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) {
        self.sent_at = pool.sent_at();
        self.run_single_alone(pool);
        let entries = self.entries.iter().flatten();
        let requests: Option<Vec<&PlannedRequest>> = entries
            .map(|entry| entry.request.request.as_deref())
            .collect();
        let context = BuildContext {
            prelude: &pool.shared.chain,
            now: clock::now(),
            queue_reorder_time: pool.settings().grouping.queue_reorder_time,
            on_replica: pool.replica.is_some(),
        };
        // The client would read the rows of a single statement by columns that they do not have.
        let alike = |request: &&PlannedRequest| {
            self.strategy.is_some() || conn.side.has_described_columns(request) != Some(false)
        };
        let requests = requests.filter(|requests| requests.iter().all(alike));
        self.batch = requests.and_then(|requests| {
            build_on_shard(self.strategy, &requests, &context, &mut conn.side, out)
        });
    }

    /// A write without others is executed as its client sent it, as a relay would do.
    fn run_single_alone(&mut self, pool: &Pool) {
        if let [Some(entry)] = self.entries.as_slice()
            && !self.strategy.is_some_and(Strategy::reads)
            && !pool.groups_single(&entry.spec)
        {
            self.strategy = None;
        }
    }

    /// Receives the answers. An error of a statement alone is its answer if the definition of the table is still the same: then it
    /// was the same when the error was raised.
    pub(super) async fn receive_from_shard(
        &mut self,
        pool: &Arc<Pool>,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<RunEnd, ServerError> {
        if self.batch.is_none() {
            // Alone it may be possible; if it already is alone, it is not.
            return Ok(RunEnd::Finished(match self.strategy {
                Some(_) => self.all_alone(Fallback::Unfit),
                None => self.all_elsewhere(Fallback::Unfit),
            }));
        }
        let end = self.receive_batch(pool, conn, out).await?;
        let RunEnd::Finished(results) = &end else {
            return Ok(end);
        };
        let failed = self.strategy.is_none()
            && self.batch.as_ref().is_some_and(|batch| batch.failed())
            && matches!(
                results.as_slice(),
                [MemberResult {
                    outcome: MemberOutcome::Answer(_),
                    ..
                }]
            );
        if failed
            && let Some(table) = self.table()
            && !is_same(&table, conn, out).await?
        {
            return Ok(RunEnd::Finished(self.all_elsewhere(Fallback::Stale)));
        }
        self.record_pace(results);
        Ok(end)
    }

    /// The table of the first member.
    fn table(&self) -> Option<Arc<ShardTable>> {
        let first = self.entries.iter().flatten().next()?;
        let shard = first.request.request.as_ref()?.shard.as_ref()?;
        Some(Arc::clone(&shard.table))
    }

    /// The outcome that the coordinator executes all members.
    pub(super) fn all_elsewhere(&self, why: Fallback) -> Vec<MemberResult> {
        let elsewhere = |member| MemberResult {
            member,
            outcome: MemberOutcome::Retry(Retry::Elsewhere, why),
        };
        (0..self.entries.len()).map(elsewhere).collect()
    }

    /// Whether the only member is a read that its shard executes alone.
    pub(super) fn is_single_read(&self) -> bool {
        let mut entries = self.entries.iter().flatten();
        let effect = entries.next().and_then(|entry| {
            let request = entry.request.request.as_ref()?;
            request.template.effect()
        });
        self.strategy.is_none() && effect == Some(&Effect::Read)
    }
}

/// Has the server describe the columns of a statement, if its client knows them and the server does not: a write must not be executed
/// before they are known to be the same.
async fn describe_first(
    request: &PlannedRequest,
    conn: &mut ServerConn,
) -> Result<(), ServerError> {
    let client_parse = request.client_parse.as_ref();
    let Some((client_parse, known)) = client_parse.and_then(|parse| Some((parse, parse.columns?)))
    else {
        return Ok(());
    };
    if conn.side.has_described_columns(request) == Some(true) {
        return Ok(());
    }
    let (mut out, mut injected) = (BytesMut::new(), Injected::default());
    let statement = Preparable::from(&*request.template);
    let now = client_parse.answered;
    let ensured = conn.side.ensure_for(statement, client_parse, now, &mut out);
    injected.push(ensured);
    let name = ensured.key.name();
    Target::Statement(name.as_bytes()).write(&mut out, frontend::tag::DESCRIBE);
    injected.push_describe(ensured.key, known);
    frontend::write_sync(&mut out);
    injected.push_sync();
    conn.stream.write_now(&mut out)?;
    while !feed(conn, |frame, side| {
        if injected.described(frame, side).is_none() {
            match frame.tag {
                tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => injected.complete(),
                tag::READY_FOR_QUERY => injected.synced(side),
                _ => {}
            }
        }
        frame.tag == tag::READY_FOR_QUERY
    })? {
        exchange(conn, &mut out).await?;
    }
    Ok(())
}

/// Whether the definition of a table is the same.
pub(super) async fn is_same(
    table: &ShardTable,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Result<bool, ServerError> {
    conn.side.unnamed = None;
    frontend::write_query(out, &table.question);
    let mut same = false;
    while !feed(conn, |frame, _| {
        if frame.tag == tag::DATA_ROW {
            let values = row_values(frame.body()).unwrap_or_default();
            same = values.first() == Some(&Some(b"t"));
        }
        frame.tag == tag::READY_FOR_QUERY
    })? {
        exchange(conn, out).await?;
    }
    Ok(same)
}
