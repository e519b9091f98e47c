//! Groups on server connections. The next group is sent before the answers of the last one are distributed, so that the database
//! never waits for clients.

mod exchange;
mod guard;
mod lock;
mod probe;
mod replica;
mod run;
mod shard;
mod share;
mod stats;
mod statuses;
mod trace;

use crate::pool::{Pool, ServerWork, Waiter};
use crate::server::ServerConn;
use bytes::BytesMut;
use guard::RunGuard;
use lock::Locked;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::{Dispatch, LineKeys};
use run::{GroupRun, RunEnd};
use std::sync::Arc;

/// Does `work` on `conn`, then what the line has next for the connection, until nothing is left.
pub(crate) async fn run_groups(pool: Arc<Pool>, conn: Box<ServerConn>, work: ServerWork) {
    let mut guard = RunGuard::new(Arc::clone(&pool));
    // Declared after the guard: also if a batch panics, a connection is closed before another one is opened in its slot.
    let mut conn = conn;
    let mut out = BytesMut::new();
    let mut next = Some(work);
    loop {
        let mut run = match next {
            None => {
                let uncounted = FlightId::UNCOUNTED;
                return guard
                    .release()
                    .check_in(Some(conn), &LineKeys::Unknown, uncounted);
            }
            Some(ServerWork::Group(group)) if pool.is_relayed(&group) => {
                return hand_over(guard, group, conn);
            }
            Some(ServerWork::Group(group)) => {
                guard.add_group(&group);
                let mut run = GroupRun::new(group);
                if let Err(error) = run.send(&pool, &mut conn, &mut out).await {
                    conn.failed(&error);
                    drop(conn);
                    return run.connection_lost(guard, &error);
                }
                run
            }
            // Boxed, as waits for locks are: they are rare, and every run would pay for their state.
            Some(ServerWork::Probe(requests)) => {
                let probed = Box::pin(probe::probe(requests, guard, conn, &mut out)).await;
                match probed {
                    Some(free) => (guard, conn, next) = free,
                    None => return,
                }
                continue;
            }
            Some(ServerWork::Lock(wait)) => {
                match Box::pin(lock::lock(wait, guard, conn, &mut out)).await {
                    Some((its, same, Locked::Group(run))) => {
                        (guard, conn) = (its, same);
                        *run
                    }
                    Some((its, same, Locked::Free(then))) => {
                        (guard, conn, next) = (its, same, then);
                        continue;
                    }
                    None => return,
                }
            }
        };
        next = loop {
            let last = match run.receive_in_time(&pool, &mut conn, &mut out).await {
                Ok(RunEnd::Finished(last)) => last,
                Ok(RunEnd::HandedOver(underway, memory)) => {
                    return run.hand_over(guard, conn, underway, memory);
                }
                Err(error) => {
                    conn.failed(&error);
                    drop(conn);
                    return run.connection_lost(guard, &error);
                }
            };
            let group = match run.finish(&mut guard, &mut conn, &last) {
                Some(ServerWork::Group(group)) if pool.is_relayed(&group) => {
                    hand_over(guard, group, conn);
                    return run.distribute(last);
                }
                Some(ServerWork::Group(group)) => group,
                other => {
                    run.distribute(last);
                    break other;
                }
            };
            guard.add_group(&group);
            let mut following = GroupRun::new(group);
            // If the next group needs a settings change, distribute these answers first: the change is a round trip.
            let last = match following.has_settings(&conn) {
                true => Some(last),
                false => {
                    run.distribute(last);
                    None
                }
            };
            let sent = following.send(&pool, &mut conn, &mut out).await;
            last.into_iter().for_each(|last| run.distribute(last));
            run = following;
            if let Err(error) = sent {
                conn.failed(&error);
                drop(conn);
                return run.connection_lost(guard, &error);
            }
        };
    }
}

/// Gives the connection to the client of a single request.
fn hand_over(guard: RunGuard, mut group: Dispatch<Waiter>, conn: Box<ServerConn>) {
    let pool = guard.release();
    let flight = group.flight;
    let unused = group
        .entries
        .pop()
        .and_then(|entry| pool.hand_over(entry, conn, flight));
    if let Some((conn, keys)) = unused {
        pool.check_in(Some(conn), &keys, flight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task is moved half a dozen times before and after it runs: what is rare must not be part of it.
    #[test]
    fn the_task_of_a_run_is_small() {
        fn size<F>(_: impl FnOnce(Arc<Pool>, Box<ServerConn>, ServerWork) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(run_groups) < 2048, "{} bytes", size(run_groups));
    }
}
