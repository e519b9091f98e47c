//! Waits for a row lock before a group on the row is built. The requests stay in the line meanwhile, where they can be withdrawn,
//! cancelled and time out. When PostgreSQL grants the lock, the requests that wait then run in its transaction.

use super::exchange::{adopt, cancel, exchange, feed};
use super::guard::RunGuard;
use super::run::GroupRun;
use crate::clock;
use crate::pool::{LockWait, Pool, ServerWork};
use crate::server::{ServerConn, ServerError};
use bytes::BytesMut;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::{LockOutcome, WAIT_UNCHECKED_MAX};
use paceline_batch::strategy::row_lock::{LockProgress, RowLock};
use paceline_net::optional_timeout;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a wait checks whether a request still needs the lock.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Result of a wait for a lock.
pub(super) enum Locked {
    /// This group runs with the lock.
    Group(Box<GroupRun>),
    /// No group does; the connection does this next.
    Free(Option<ServerWork>),
}

/// The end of a wait.
enum WaitEnd {
    /// The row is locked, in a transaction that is open.
    Granted(RowLock),
    /// No transaction is open.
    Over(LockOutcome),
}

/// Waits for a row lock on `conn`. `None`: the connection is lost.
pub(super) async fn lock(
    wait: Box<LockWait>,
    mut guard: RunGuard,
    mut conn: Box<ServerConn>,
    out: &mut BytesMut,
) -> Option<(RunGuard, Box<ServerConn>, Locked)> {
    guard.add_row(wait.key);
    let pool = Arc::clone(&guard.pool);
    let ended = match run(&wait, &pool, &mut conn, out).await {
        Ok(WaitEnd::Granted(lock)) => match go_on(&wait, &mut guard, &mut conn, out) {
            Some(run) if run.batch.is_some() => return Some((guard, conn, Locked::Group(run))),
            Some(run) => match end(lock, &mut conn, out).await {
                Ok(()) => return Some((guard, conn, Locked::Group(run))),
                Err(error) => {
                    conn.failed(&error);
                    drop(conn);
                    run.connection_lost(guard, &error);
                    return None;
                }
            },
            None => end(lock, &mut conn, out)
                .await
                .map(|()| LockOutcome::Contended),
        },
        Ok(WaitEnd::Over(outcome)) => Ok(outcome),
        Err(error) => Err(error),
    };
    match ended {
        Ok(outcome) => {
            let rows = guard.take_rows().into_iter().map(|key| (key, outcome));
            let uncounted = FlightId::UNCOUNTED;
            let next = pool.finish_run(&mut conn, uncounted, rows.collect(), Vec::new());
            Some((guard, conn, Locked::Free(next)))
        }
        Err(error) => {
            tracing::debug!(%error, "the connection was lost during a wait for a row lock");
            conn.failed(&error);
            drop(conn);
            guard.connection_lost(Vec::new());
            None
        }
    }
}

/// The group that runs with the lock; its batch is appended to `out` if it can be built. `None`: no request waits any more.
fn go_on(
    wait: &LockWait,
    guard: &mut RunGuard,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Option<Box<GroupRun>> {
    let group = guard.pool.take_locked(wait);
    if group.entries.is_empty() {
        return None;
    }
    guard.add_group(&group);
    let mut run = GroupRun::new(group);
    // The next lock will probably have to be waited for, too.
    if clock::elapsed(wait.since) >= WAIT_UNCHECKED_MAX {
        run.outcome = LockOutcome::Contended;
    }
    match guard.pool.is_of_shard() {
        true => run.build_described(&guard.pool, conn, out),
        false => run.build(&guard.pool, conn, out),
    }
    run.begin_trace(&guard.pool, conn);
    Some(Box::new(run))
}

async fn run(
    wait: &LockWait,
    pool: &Arc<Pool>,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Result<WaitEnd, ServerError> {
    out.clear();
    if !adopt(&wait.request, pool, conn).await? {
        return Ok(WaitEnd::Over(LockOutcome::Blocked));
    }
    let Some(mut lock) = RowLock::build(&wait.request, &mut conn.side, out) else {
        return Ok(WaitEnd::Over(LockOutcome::Blocked));
    };
    let (mut cancelled, mut outcome) = (false, LockOutcome::Blocked);
    loop {
        match receive(&mut lock, conn)? {
            LockProgress::Granted => return Ok(WaitEnd::Granted(lock)),
            LockProgress::Failed => lock.end(out),
            LockProgress::Over => return Ok(WaitEnd::Over(outcome)),
            LockProgress::Awaited => {}
        }
        let waited = optional_timeout(LOOK_EVERY, exchange(conn, out)).await;
        if let Some(read) = waited {
            read?;
        } else if !cancelled && !pool.is_awaited(wait.key) {
            (cancelled, outcome) = (true, LockOutcome::Contended);
            cancel(pool, conn).await?;
        }
    }
}

/// Feeds whole messages to the wait, up to the first that changes its state.
fn receive(lock: &mut RowLock, conn: &mut ServerConn) -> Result<LockProgress, ServerError> {
    let mut state = LockProgress::Awaited;
    feed(conn, |frame, side| {
        state = lock.receive(frame, side);
        state != LockProgress::Awaited
    })?;
    Ok(state)
}

/// Ends the transaction of a lock that no request needs any more.
async fn end(
    mut lock: RowLock,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Result<(), ServerError> {
    lock.end(out);
    while receive(&mut lock, conn)? != LockProgress::Over {
        exchange(conn, out).await?;
    }
    Ok(())
}
