//! Probes: requests that PostgreSQL would not make wait for their row are answered, or relayed alone. All of them stay in the line
//! meanwhile.

use super::exchange::{adopt, exchange, feed};
use super::guard::RunGuard;
use super::shard::is_same;
use crate::clock;
use crate::pool::{Pool, ProbeResult, ServerWork};
use crate::server::{ServerConn, ServerError};
use bytes::BytesMut;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::WaiterId;
use paceline_batch::strategy::PlannedRequest;
use paceline_batch::strategy::probe::{Probe, ProbeOutcome};
use paceline_batch::template_stats::AnsweredMembers;
use std::sync::Arc;
use std::time::Instant;

/// A connection that is free again, and its next work.
pub(super) type Free = (RunGuard, Box<ServerConn>, Option<ServerWork>);

/// Probes requests on `conn`. `None`: the connection is lost.
pub(super) async fn probe(
    requests: Vec<(WaiterId, Arc<PlannedRequest>)>,
    guard: RunGuard,
    mut conn: Box<ServerConn>,
    out: &mut BytesMut,
) -> Option<Free> {
    let pool = Arc::clone(&guard.pool);
    match run(&requests, &pool, &mut conn, out).await {
        Ok(()) => {
            let uncounted = FlightId::UNCOUNTED;
            let next = pool.finish_run(&mut conn, uncounted, Vec::new(), Vec::new());
            Some((guard, conn, next))
        }
        Err(error) => {
            tracing::debug!(%error, "the connection was lost during a probe");
            let waiters: Vec<WaiterId> = requests.iter().map(|(waiter, _)| *waiter).collect();
            conn.failed(&error);
            drop(conn);
            guard.connection_lost(Vec::new());
            pool.probe_failed(&waiters);
            None
        }
    }
}

async fn run(
    requests: &[(WaiterId, Arc<PlannedRequest>)],
    pool: &Arc<Pool>,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Result<(), ServerError> {
    let Some((_, first)) = requests.first() else {
        return Ok(());
    };
    if !adopt(first, pool, conn).await? {
        return Ok(());
    }
    let since = clock::now();
    let mut parts = vec![requests];
    while let Some(part) = parts.pop() {
        out.clear();
        let probed: Vec<&PlannedRequest> = part.iter().map(|(_, request)| &**request).collect();
        let Some(mut probe) = Probe::build(&probed, &mut conn.side, out) else {
            return Ok(());
        };
        while !feed(conn, |frame, side| probe.receive(frame, side))? {
            exchange(conn, out).await?;
        }
        if probe.must_be_halved() {
            parts.extend(<[_; 2]>::from(part.split_at(part.len() / 2)));
            continue;
        }
        if probe.catalog_changed() {
            pool.set_analysis(first.template.id, first.settings.id, None);
        }
        let waiters = part.iter().map(|(waiter, _)| *waiter);
        let results: Vec<ProbeResult> = match &first.shard {
            // Alone each of them finds out that the shard has another table.
            Some(shard) if !is_same(&shard.table, conn, out).await? => waiters
                .map(|waiter| (waiter, ProbeOutcome::Leaves))
                .collect(),
            _ => waiters.zip(probe.results()).collect(),
        };
        let answered = pool.probed(results);
        count(part, &answered, since);
    }
    Ok(())
}

/// Counts the answered requests as a group that wrote nothing.
fn count(requests: &[(WaiterId, Arc<PlannedRequest>)], answered: &[WaiterId], since: Instant) {
    let took = clock::elapsed(since);
    let mut served = AnsweredMembers::default();
    let mut strategy = None;
    for (waiter, request) in requests {
        let stats = request.stats.as_ref();
        if let Some(stats) = stats.filter(|_| answered.contains(waiter)) {
            served.add(stats, took);
            strategy = request.plan.as_ref().map(|plan| plan.strategy());
        }
    }
    if let Some(strategy) = strategy {
        served.count(strategy, 0, false);
    }
}
