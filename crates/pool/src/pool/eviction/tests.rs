//! Pools of one database that may have two server connections together.

use super::*;
use crate::pools::Pools;
use paceline_batch::line::WaitSpec;
use paceline_config::Config;

fn pools() -> [Arc<Pool>; 2] {
    let file = "[databases.app]\nprimary = \"postgres://db\"\nmax_db_connections = 2";
    let config = Config::from_toml(file, "").unwrap();
    let pools = Pools::new(Arc::new(config));
    ["web", "batch"].map(|user| pools.pool("app", user).unwrap())
}

/// A slot for one more connection, as if the pool already had this many.
fn slot(pool: &Arc<Pool>, has: usize) -> Option<ServerSlot> {
    let mut inner = pool.lock();
    let before = std::mem::replace(&mut inner.servers.open, has);
    let slot = pool.server_slot(&mut inner, &pool.settings());
    inner.servers.open = before;
    slot
}

/// A request waits in the line.
fn wait_in(pool: &Arc<Pool>) {
    let (answer, _) = tokio::sync::oneshot::channel();
    let waiter = crate::pool::Waiter {
        purpose: crate::pool::Purpose::Request,
        request: None,
        answer,
        queued_sent: false,
        position: paceline_cluster::Lsn::ZERO,
    };
    let mut inner = pool.lock();
    inner
        .line
        .submit(Instant::now(), WaitSpec::default(), waiter);
}

#[tokio::test]
async fn a_pool_with_connections_leaves_a_slot_to_one_without() {
    let [web, batch] = pools();
    wait_in(&batch);
    let both = [slot(&web, 0), slot(&web, 1)];
    assert!(both.iter().all(Option::is_some));
    assert!(slot(&batch, 0).is_none() && batch.lock().servers.starving.is_some());
    drop(both);
    assert!(slot(&web, 1).is_none(), "batch has none and waits");
    assert!(slot(&batch, 0).is_some() && batch.lock().servers.starving.is_none());
    assert!(slot(&web, 1).is_some());
}

/// A pool that opens a connection only for `min_pool_size` takes no slot from other pools.
#[tokio::test]
async fn a_pool_without_waiting_requests_does_not_starve() {
    let [web, batch] = pools();
    let _both = [slot(&web, 0), slot(&web, 1)];
    assert!(slot(&batch, 0).is_none() && batch.lock().servers.starving.is_none());
}
