//! Pools of one database that may have two server connections together.

use super::*;
use paceline_batch::line::WaitSpec;
use paceline_config::Config;

fn pools() -> [Arc<Pool>; 2] {
    let file = "[databases.app]\nprimary = \"postgres://db\"\nmax_db_connections = 2";
    let config = Config::from_toml(file, "").unwrap();
    let proxy = Arc::new(Proxy::new(config));
    ["web", "batch"].map(|user| proxy.pool("app", user).unwrap())
}

/// A place for one more, as if the pool had so many already.
fn place(pool: &Arc<Pool>, has: usize) -> Option<ServerPlace> {
    let mut inner = pool.lock();
    let before = std::mem::replace(&mut inner.open, has);
    let place = pool.server_place(&mut inner, &pool.settings());
    inner.open = before;
    place
}

/// Somebody stands in the line.
fn wait_in(pool: &Arc<Pool>) {
    let (answer, _) = tokio::sync::oneshot::channel();
    let waiter = super::super::Waiter {
        asks: super::super::Asks::Request,
        unit: None,
        answer,
        told_queued: false,
    };
    let mut inner = pool.lock();
    inner
        .line
        .submit(Instant::now(), WaitSpec::default(), waiter);
}

#[tokio::test]
async fn who_has_some_leaves_a_place_to_who_has_none() {
    let [web, batch] = pools();
    wait_in(&batch);
    let both = [place(&web, 0), place(&web, 1)];
    assert!(both.iter().all(Option::is_some));
    assert!(place(&batch, 0).is_none() && batch.lock().hunger.is_some());
    drop(both);
    assert!(place(&web, 1).is_none(), "batch has none and waits");
    assert!(place(&batch, 0).is_some() && batch.lock().hunger.is_none());
    assert!(place(&web, 1).is_some());
}

/// What a pool only keeps in store is not taken from others.
#[tokio::test]
async fn a_pool_where_nobody_waits_is_not_hungry() {
    let [web, batch] = pools();
    let _both = [place(&web, 0), place(&web, 1)];
    assert!(place(&batch, 0).is_none() && batch.lock().hunger.is_none());
}
