//! The order queue: 256 consumers move orders from a queue into a state table, one per take, and are killed at random.
//! Every order is moved once, and each consumer gets its orders in the queue's order.
//!
//! `PACELINE_E2E_ORDERS` sets the number of orders; `make soak` runs a million.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::task::{AbortHandle, JoinSet};
use tokio_postgres::{Client, NoTls};

use crate::harness::raw::RawClient;
use crate::harness::wait::until_moving;
use crate::harness::{Rng, Stage};

const CONSUMERS: usize = 256;
const KILLS: usize = 200;
/// Few enough for one statement to end within the limit of a reply.
const FILL_STEP: usize = 100_000;
pub(crate) const SETUP: &str = "
    CREATE TABLE t_order_q (id bigserial PRIMARY KEY, order_id uuid UNIQUE, cts timestamp NOT NULL);
    CREATE TABLE t_order_u (id bigserial PRIMARY KEY, order_id uuid UNIQUE, cts timestamp NOT NULL, uts timestamp NOT NULL, status int NOT NULL)";
pub(crate) const BY_ADVISORY_LOCK: &str =
    "SELECT ctid FROM t_order_q WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1";
const BY_ROW_LOCK: &str = "SELECT ctid FROM t_order_q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";

/// Running consumers, and the orders of each, in sequence.
#[derive(Default)]
struct Crew {
    tasks: JoinSet<()>,
    handles: Vec<AbortHandle>,
    ledger: Arc<Mutex<Vec<Vec<i64>>>>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn picked_by_advisory_lock() {
    move_all(BY_ADVISORY_LOCK, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn picked_by_row_lock_with_consumers_beside_paceline() {
    move_all(BY_ROW_LOCK, 2);
}

/// Moves all orders by one way of picking them. The outsiders, which are not killed, connect to PostgreSQL directly.
fn move_all(picked: &str, outsiders: usize) {
    let mut rng = Rng::new(paceline_testing::seed());
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("default_pool_size=3")
        .open();
    let mut direct = stage.direct();
    let orders = fill(&mut direct);
    let (url, take) = (stage.url(), take(picked));
    let mut crew = Crew::default();
    let started = Instant::now();
    (0..CONSUMERS).for_each(|_| crew.hire(&url, &take));
    (0..outsiders).for_each(|_| crew.hire(&stage.direct_url(), &take));
    for moment in moments(&mut rng, orders) {
        until_moving(
            "the next one is killed",
            || crew.taken(),
            |taken| taken >= moment,
        );
        crew.replace(rng.below(CONSUMERS), &url, &take);
    }
    crew.finish();
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{orders} orders, {KILLS} consumers killed, {seconds:.1} s, {:?}",
        stage.counters()
    );
    check(&mut direct, orders);
    check_ledger(orders, &crew.ledger.lock().unwrap());
    stage.assert_grouped(orders / 10, 3);
}

/// Fills the queue. An order's uuid is its number, so that a consumer gets the number.
fn fill(direct: &mut RawClient) -> i64 {
    let asked = std::env::var("PACELINE_E2E_ORDERS");
    let orders = asked.map_or(6_000, |number| number.parse().unwrap());
    direct.ok(SETUP);
    for first in (1..=orders).step_by(FILL_STEP) {
        let last = orders.min(first + FILL_STEP as i64 - 1);
        direct.ok(&format!(
            "INSERT INTO t_order_q SELECT i, lpad(to_hex(i), 32, '0')::uuid, now() FROM generate_series({first}, {last}) i"
        ));
    }
    orders
}

pub(crate) fn take(picked: &str) -> String {
    format!(
        "WITH tmp AS (DELETE FROM t_order_q WHERE ctid = ({picked}) RETURNING order_id, cts) \
         INSERT INTO t_order_u (order_id, cts, uts, status) SELECT order_id, cts, now(), 1 FROM tmp RETURNING order_id::text"
    )
}

/// The moments at which consumers are killed, as numbers of orders taken. Each of those killed may have taken one without an answer.
fn moments(rng: &mut Rng, orders: i64) -> Vec<i64> {
    let last = orders - KILLS as i64;
    let mut moments: Vec<i64> = (0..KILLS).map(|_| rng.between(1, last)).collect();
    moments.sort_unstable();
    moments
}

/// Checks that each order was moved once.
fn check(direct: &mut RawClient, orders: i64) {
    assert_eq!(direct.number("SELECT count(*) FROM t_order_q"), 0);
    assert_eq!(direct.number("SELECT count(*) FROM t_order_u"), orders);
    let different = "SELECT count(DISTINCT order_id) FROM t_order_u";
    assert_eq!(direct.number(different), orders);
}

/// The answers to the consumers.
fn check_ledger(orders: i64, ledger: &[Vec<i64>]) {
    for got in ledger {
        assert!(got.is_sorted_by(|a, b| a < b), "out of order: {got:?}");
    }
    let told = ledger.iter().map(Vec::len).sum::<usize>();
    let different = ledger.iter().flatten().collect::<BTreeSet<_>>().len();
    assert_eq!(told, different, "two consumers got the same order");
    assert!(told + KILLS >= orders as usize, "only {told} were answered");
}

/// The checker itself finds the faults for which it exists.
#[test]
fn the_checker_finds_mistakes() {
    let orders = KILLS as i64 + 3;
    let wrong = |ledger: &[Vec<i64>]| {
        let ledger = ledger.to_vec();
        std::panic::catch_unwind(|| check_ledger(orders, &ledger)).is_err()
    };
    check_ledger(orders, &[vec![1, 3], vec![2]]);
    assert!(wrong(&[vec![3, 1], vec![2]]), "out of order");
    assert!(wrong(&[vec![1, 3], vec![2, 3]]), "one order for two");
    assert!(wrong(&[vec![1], vec![2]]), "more kept back than killed");
}

impl Crew {
    fn hire(&mut self, url: &str, take: &str) {
        let handle = self.start(url, take);
        self.handles.push(handle);
    }

    /// Kills one and starts another in its place.
    fn replace(&mut self, victim: usize, url: &str, take: &str) {
        self.handles[victim].abort();
        self.handles[victim] = self.start(url, take);
    }

    fn start(&mut self, url: &str, take: &str) -> AbortHandle {
        let mut books = self.ledger.lock().unwrap();
        let number = books.len();
        books.push(Vec::new());
        let ledger = self.ledger.clone();
        let note = move |order| ledger.lock().unwrap()[number].push(order);
        self.tasks
            .spawn(consume(url.to_owned(), take.to_owned(), note))
    }

    fn taken(&self) -> i64 {
        let books = self.ledger.lock().unwrap();
        books.iter().map(|got| got.len() as i64).sum()
    }

    /// Returns when all have found the queue empty.
    fn finish(&mut self) {
        let all_ended = |_| self.handles.iter().all(AbortHandle::is_finished);
        until_moving("the consumers end", || self.taken(), all_ended);
        while let Some(ended) = self.tasks.try_join_next() {
            let well = ended.is_ok() || ended.is_err_and(|error| error.is_cancelled());
            assert!(well, "a consumer has failed");
        }
    }
}

/// A consumer. Its connection belongs to the same task, so that a consumer that is killed disconnects at once, at any point.
async fn consume(url: String, take: String, note: impl Fn(i64)) {
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::select! {
        ended = connection => panic!("the connection has ended: {ended:?}"),
        () = take_until_empty(&client, &take, note) => {}
    }
}

/// A take without a row proves little: others may have taken the rows that it saw.
async fn take_until_empty(client: &Client, take: &str, note: impl Fn(i64)) {
    let take = client.prepare(take).await.unwrap();
    let rest = client
        .prepare("SELECT FROM t_order_q LIMIT 1")
        .await
        .unwrap();
    loop {
        if let Some(row) = client.query_opt(&take, &[]).await.unwrap() {
            note(number(row.get(0)));
        } else if client.query_opt(&rest, &[]).await.unwrap().is_none() {
            return;
        }
    }
}

fn number(uuid: &str) -> i64 {
    i64::from_str_radix(&uuid.replace('-', ""), 16).unwrap()
}
