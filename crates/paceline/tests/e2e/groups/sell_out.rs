//! The sell-out: 64 shoppers want one product. The sold amounts equal the loss of stock, every answer fits into one
//! serial history, and the stock is never negative, with and without writers beside Paceline.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::harness::driver::connect;
use crate::harness::{Rng, Stage};

const STOCK: i64 = 1_000;
const SHOPPERS: usize = 64;
const ATTEMPTS: usize = 100;
const OUTSIDERS: usize = 8;
const SALE: &str = "UPDATE stock SET qty = qty - $1 WHERE id = $2 AND qty >= $1 RETURNING qty";

/// An accepted sale.
#[derive(Debug, Clone, Copy)]
struct Sale {
    amount: i64,
    left: i64,
}

/// The statement of a shopper.
#[derive(Debug, Clone, Copy)]
enum Way {
    Prepared,
    Simple,
}

/// One shopper's attempts; returns the accepted ones.
async fn shop(url: Arc<str>, way: Way, mut rng: Rng) -> Vec<Sale> {
    let client = connect(&url).await.unwrap();
    let statement = client.prepare(SALE).await.unwrap();
    let mut sales = Vec::new();
    for _ in 0..ATTEMPTS {
        let amount = rng.between(1, 3);
        let left = match way {
            Way::Prepared => client
                .query_opt(&statement, &[&amount, &1_i64])
                .await
                .unwrap()
                .map(|row| row.get(0)),
            Way::Simple => ask_simply(&client, amount).await,
        };
        sales.extend(left.map(|left| Sale { amount, left }));
    }
    sales
}

async fn ask_simply(client: &Client, amount: i64) -> Option<i64> {
    let sql = SALE.replace("$1", &amount.to_string()).replace("$2", "1");
    let messages = client.simple_query(&sql).await.unwrap();
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

/// Fails unless the sales are a serial history that starts with the whole stock and leaves `left`.
fn check_history(mut sales: Vec<Sale>, left: i64) {
    let sold: i64 = sales.iter().map(|sale| sale.amount).sum();
    assert_eq!(
        sold,
        STOCK - left,
        "sold amounts against the stock's decrease"
    );
    sales.sort_by_key(|sale| -sale.left);
    let mut stock = STOCK;
    for sale in sales {
        assert!(sale.left >= 0, "negative: {sale:?}");
        assert_eq!(
            sale.left,
            stock - sale.amount,
            "no serial history: {sale:?} after {stock}"
        );
        stock = sale.left;
    }
}

async fn sell_out(shopper: impl Fn(usize) -> Way, outsiders: usize) {
    let seed = paceline_testing::seed();
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("default_pool_size=4")
        .open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE stock (id bigint PRIMARY KEY, qty bigint NOT NULL)");
    direct.ok(&format!("INSERT INTO stock VALUES (1, {STOCK}), (2, 0)"));
    let urls: [Arc<str>; 2] = [stage.url().into(), stage.direct_url().into()];
    let mut shoppers = JoinSet::new();
    for number in 0..SHOPPERS + outsiders {
        let url = urls[usize::from(number >= SHOPPERS)].clone();
        shoppers.spawn(shop(url, shopper(number), Rng::new(seed + number as u64)));
    }
    let sales = shoppers.join_all().await.concat();
    let left = direct.number("SELECT qty FROM stock WHERE id = 1");
    println!("{} sales, {left} left, {:?}", sales.len(), stage.counters());
    check_history(sales, left);
    stage.assert_grouped(500, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn prepared() {
    sell_out(|_| Way::Prepared, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn simple() {
    sell_out(|_| Way::Simple, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_protocols_with_direct_writers() {
    let mixed = |number: usize| [Way::Prepared, Way::Simple][number % 2];
    sell_out(mixed, OUTSIDERS).await;
}

/// The checker itself finds the faults for which it exists.
#[test]
fn the_checker_finds_mistakes() {
    let history = |sales: &[(i64, i64)]| {
        sales
            .iter()
            .map(|&(amount, left)| Sale { amount, left })
            .collect::<Vec<_>>()
    };
    let wrong =
        |sales: Vec<Sale>, left| std::panic::catch_unwind(|| check_history(sales, left)).is_err();
    check_history(history(&[(2, STOCK - 5), (3, STOCK - 3)]), STOCK - 5);
    assert!(wrong(history(&[(2, STOCK - 2)]), STOCK - 4), "a lost sale");
    assert!(
        wrong(history(&[(2, STOCK - 2), (2, STOCK - 2)]), STOCK - 4),
        "the same stock twice"
    );
    assert!(wrong(history(&[(STOCK + 1, -1)]), -1), "more than there is");
}
