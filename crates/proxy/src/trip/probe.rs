//! Carries out a probe: requests that PostgreSQL would not make wait for their row are answered, or leave alone. All of them
//! stay in the line meanwhile.

use super::{Done, Owed, adopt, exchange};
use crate::pool::Pool;
use crate::server::{ServerConn, ServerError};
use bytes::BytesMut;
use paceline_batch::line::WaiterId;
use paceline_batch::strategy::PlannedRequest;
use paceline_batch::strategy::probe::Probe;
use paceline_batch::template_stats::AnsweredMembers;
use paceline_wire::Frames;
use std::sync::Arc;

/// Probes requests on `conn`. Returns what the connection does next, or `None` if it is lost.
pub(super) async fn ask(
    units: Vec<(WaiterId, Arc<PlannedRequest>)>,
    owed: Owed,
    mut conn: Box<ServerConn>,
    out: &mut BytesMut,
) -> Option<Done> {
    let pool = Arc::clone(&owed.pool);
    match run(&units, &pool, &mut conn, out).await {
        Ok(()) => {
            let next = pool.turn(&mut conn, Vec::new(), Vec::new());
            Some((owed, conn, next))
        }
        Err(error) => {
            tracing::debug!(%error, "a probe has lost its connection");
            let waiters: Vec<WaiterId> = units.iter().map(|(waiter, _)| *waiter).collect();
            conn.failed(&error);
            drop(conn);
            owed.wreck(Vec::new());
            pool.probe_failed(&waiters);
            None
        }
    }
}

async fn run(
    units: &[(WaiterId, Arc<PlannedRequest>)],
    pool: &Arc<Pool>,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Result<(), ServerError> {
    let Some((_, first)) = units.first() else {
        return Ok(());
    };
    if !adopt(first, pool, conn).await? {
        return Ok(());
    }
    let mut parts = vec![units];
    while let Some(part) = parts.pop() {
        out.clear();
        let asked: Vec<&PlannedRequest> = part.iter().map(|(_, unit)| &**unit).collect();
        let Some(mut probe) = Probe::build(&asked, &mut conn.side, out) else {
            return Ok(());
        };
        while !receive(&mut probe, conn)? {
            exchange(conn, out).await?;
        }
        if probe.must_be_halved() {
            parts.extend(<[_; 2]>::from(part.split_at(part.len() / 2)));
            continue;
        }
        if probe.facts_changed() {
            pool.learn(first.template.id, first.settings.id, None);
        }
        let waiters = part.iter().map(|(waiter, _)| *waiter);
        let answered = pool.probed(waiters.zip(probe.results()).collect());
        count(part, &answered);
    }
    Ok(())
}

/// Feeds whole messages to the probe. Returns true when it is complete.
fn receive(probe: &mut Probe, conn: &mut ServerConn) -> Result<bool, ServerError> {
    let mut frames = Frames::new(&conn.input);
    let mut over = false;
    while !over && let Some(frame) = frames.next_frame()? {
        over = probe.receive(frame, &mut conn.side);
    }
    let taken = conn.input.len() - frames.rest().len();
    bytes::Buf::advance(&mut conn.input, taken);
    Ok(over)
}

/// Counts the answered requests as a group that wrote nothing.
fn count(units: &[(WaiterId, Arc<PlannedRequest>)], answered: &[WaiterId]) {
    let mut served = AnsweredMembers::default();
    let mut strategy = None;
    for (waiter, unit) in units {
        if let Some(tally) = unit.stats.as_ref().filter(|_| answered.contains(waiter)) {
            served.add(tally);
            strategy = unit.plan.as_ref().map(|plan| plan.strategy());
        }
    }
    if let Some(strategy) = strategy {
        served.count(strategy, 0, false);
    }
}
