//! Waits for a row lock before a group on the row is built. The requests stay in the line meanwhile, where they can be withdrawn,
//! cancelled and time out. When PostgreSQL grants the lock, the requests that wait then are carried out in its transaction.

use super::{Locked, Owed, Trip, adopt, call_back, exchange};
use crate::pool::{LockWait, Pool};
use crate::server::{ServerConn, ServerError};
use bytes::BytesMut;
use paceline_batch::line::{LockOutcome, WAIT_UNCHECKED_MAX};
use paceline_batch::strategy::row_lock::{LockProgress, RowLock};
use paceline_net::optional_timeout;
use paceline_wire::Frames;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a wait checks whether a request still needs the lock.
const LOOKED_AFTER: Duration = Duration::from_millis(50);

/// How a wait ended.
enum Ended {
    /// The row is locked, in a transaction that is open.
    Granted(RowLock),
    /// No transaction is open.
    Over(LockOutcome),
}

/// Waits for a row lock on `conn`. `None`: the connection is lost.
pub(super) async fn wait(
    wait: Box<LockWait>,
    mut owed: Owed,
    mut conn: Box<ServerConn>,
    out: &mut BytesMut,
) -> Option<(Owed, Box<ServerConn>, Locked)> {
    owed.wait_for(wait.key);
    let pool = Arc::clone(&owed.pool);
    let ended = match run(&wait, &pool, &mut conn, out).await {
        Ok(Ended::Granted(lock)) => match go_on(&wait, &mut owed, &mut conn, out) {
            Some(trip) if trip.batch.is_some() => return Some((owed, conn, Locked::Group(trip))),
            Some(trip) => match end(lock, &mut conn, out).await {
                Ok(()) => return Some((owed, conn, Locked::Group(trip))),
                Err(error) => {
                    conn.failed(&error);
                    drop(conn);
                    trip.wreck(owed, &error);
                    return None;
                }
            },
            None => end(lock, &mut conn, out)
                .await
                .map(|()| LockOutcome::Contended),
        },
        Ok(Ended::Over(outcome)) => Ok(outcome),
        Err(error) => Err(error),
    };
    match ended {
        Ok(outcome) => {
            let rows = owed.take_rows().into_iter().map(|key| (key, outcome));
            let next = pool.turn(&mut conn, rows.collect(), Vec::new());
            Some((owed, conn, Locked::Nobody(next)))
        }
        Err(error) => {
            tracing::debug!(%error, "a wait for a row has lost its connection");
            conn.failed(&error);
            drop(conn);
            owed.wreck(Vec::new());
            None
        }
    }
}

/// The group that goes on with the lock; its batch is appended to `out` if it can be built. `None`: no request waits any more.
fn go_on(
    wait: &LockWait,
    owed: &mut Owed,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Option<Box<Trip>> {
    let group = owed.pool.take_locked(wait);
    if group.entries.is_empty() {
        return None;
    }
    owed.depart(&group);
    let mut trip = Trip::new(group);
    // The next lock will probably have to be waited for, too.
    if wait.since.elapsed() >= WAIT_UNCHECKED_MAX {
        trip.outcome = LockOutcome::Contended;
    }
    trip.build(&owed.pool, conn, out);
    Some(Box::new(trip))
}

async fn run(
    wait: &LockWait,
    pool: &Arc<Pool>,
    conn: &mut ServerConn,
    out: &mut BytesMut,
) -> Result<Ended, ServerError> {
    out.clear();
    if !adopt(&wait.unit, pool, conn).await? {
        return Ok(Ended::Over(LockOutcome::Blocked));
    }
    let Some(mut lock) = RowLock::build(&wait.unit, &mut conn.side, out) else {
        return Ok(Ended::Over(LockOutcome::Blocked));
    };
    let (mut called_back, mut outcome) = (false, LockOutcome::Blocked);
    loop {
        match receive(&mut lock, conn)? {
            LockProgress::Granted => return Ok(Ended::Granted(lock)),
            LockProgress::Failed => lock.end(out),
            LockProgress::Over => return Ok(Ended::Over(outcome)),
            LockProgress::Awaited => {}
        }
        let waited = optional_timeout(LOOKED_AFTER, exchange(conn, out)).await;
        if let Some(read) = waited {
            read?;
        } else if !called_back && !pool.is_awaited(wait.key) {
            (called_back, outcome) = (true, LockOutcome::Contended);
            call_back(pool, conn).await?;
        }
    }
}

/// Feeds whole messages to the wait, up to the first that changes its state.
fn receive(lock: &mut RowLock, conn: &mut ServerConn) -> Result<LockProgress, ServerError> {
    let mut frames = Frames::new(&conn.input);
    let mut state = LockProgress::Awaited;
    while state == LockProgress::Awaited
        && let Some(frame) = frames.next_frame()?
    {
        state = lock.receive(frame, &mut conn.side);
    }
    let taken = conn.input.len() - frames.rest().len();
    bytes::Buf::advance(&mut conn.input, taken);
    Ok(state)
}

/// Ends the transaction of a lock that no request goes on with.
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
