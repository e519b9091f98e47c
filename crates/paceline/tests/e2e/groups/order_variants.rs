//! The order queue taken from in every way that is known at once: in transactions of two steps, which have a server
//! connection to themselves, and in one statement, which is grouped. Every order is moved once.

use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use crate::groups::orders::{BY_ADVISORY_LOCK, SETUP, take};
use crate::harness::driver::connect;
use crate::harness::wait::until_moving;
use crate::harness::{Stage, stage::Target};

const ORDERS: i64 = 1_500;
/// Consumers of each kind.
const CONSUMERS: usize = 12;

/// The statements by which a transaction picks an order before it moves it.
const PICKS: [&str; 3] = [
    // Naive: all wait for the first row.
    "SELECT id FROM t_order_q ORDER BY id FOR UPDATE LIMIT 1",
    "SELECT id FROM t_order_q ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1",
    "SELECT id FROM t_order_q WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1",
];
const MOVE: &str = "WITH tmp AS (DELETE FROM t_order_q WHERE id = $1 RETURNING order_id, cts) \
    INSERT INTO t_order_u (order_id, cts, uts, status) SELECT order_id, cts, now(), 1 FROM tmp";

/// Picks an order and moves it; the number of orders moved.
async fn take_in_two(client: &mut Client, pick: &str) -> Result<u64, Error> {
    let transaction = client.transaction().await?;
    let Some(row) = transaction.query_opt(pick, &[]).await? else {
        return Ok(0);
    };
    let id: i64 = row.get(0);
    let moved = transaction.execute(MOVE, &[&id]).await?;
    transaction.commit().await?;
    Ok(moved)
}

async fn is_empty(client: &Client) -> bool {
    let rest = client.query_opt("SELECT FROM t_order_q LIMIT 1", &[]).await;
    rest.unwrap().is_none()
}

async fn consume_in_two(url: String, pick: &'static str) -> u64 {
    let mut client = connect(&url).await.unwrap();
    let mut moved = 0;
    while !is_empty(&client).await {
        moved += take_in_two(&mut client, pick).await.unwrap();
    }
    moved
}

async fn consume_in_one(url: String) -> u64 {
    let client = connect(&url).await.unwrap();
    let take = client.prepare(&take(BY_ADVISORY_LOCK)).await.unwrap();
    let mut moved = 0;
    while !is_empty(&client).await {
        moved += client.query(&take, &[]).await.unwrap().len() as u64;
    }
    moved
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn all_at_once() {
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("default_pool_size=6")
        .open();
    let mut direct = stage.direct();
    direct.ok(SETUP);
    direct.ok(&format!(
        "INSERT INTO t_order_q (order_id, cts) SELECT gen_random_uuid(), now() FROM generate_series(1, {ORDERS})"
    ));
    let mut consumers = JoinSet::new();
    for _ in 0..CONSUMERS {
        for pick in PICKS {
            consumers.spawn(consume_in_two(stage.url(), pick));
        }
        consumers.spawn(consume_in_one(stage.url()));
    }
    let taken = || ORDERS - stage.direct().number("SELECT count(*) FROM t_order_q");
    until_moving("the queue is empty", taken, |taken| taken == ORDERS);
    let moved: u64 = consumers.join_all().await.into_iter().sum();
    assert_eq!(moved, ORDERS as u64);
    assert_eq!(
        direct.number("SELECT count(DISTINCT order_id) FROM t_order_u"),
        ORDERS
    );
    assert_eq!(direct.number("SELECT count(*) FROM t_order_u"), ORDERS);
    let grouped = stage.counters().members > 0 || stage.target() == Target::Bare;
    assert!(grouped, "no request was grouped");
}
