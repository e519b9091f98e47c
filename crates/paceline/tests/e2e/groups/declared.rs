//! Functions that the configuration declares: consumers of a queue whose calls become one call, and functions whose calls
//! share a transaction. The queue is one like PGMQ's, written for these tests.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::harness::driver::{connect, sqlstate};
use crate::harness::message::{query, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Reply, Stage, assert_same, until};

const DECLARED: &str = r#"
    [[take]]
    function = "pgmq.read"
    limit_argument = 3
    [[take]]
    function = "drain"
    limit_argument = 2
    [[take]]
    function = "popj"
    limit_argument = 1
    [[take]]
    function = "pgmq.pop"
    [[group]]
    function = "shop.place_order"
    "#;

const SETUP: &str = "
    CREATE SCHEMA pgmq;
    CREATE TABLE pgmq.q_orders (msg_id bigint PRIMARY KEY, read_ct int NOT NULL DEFAULT 0, vt timestamptz NOT NULL DEFAULT '2000-01-01', message jsonb)
        WITH (autovacuum_enabled = off);
    CREATE TYPE pgmq.message_record AS (msg_id bigint, read_ct int, vt timestamptz, message jsonb);
    CREATE FUNCTION pgmq.read(queue_name text, vt integer, qty integer) RETURNS SETOF pgmq.message_record LANGUAGE plpgsql AS $$
    BEGIN
        RETURN QUERY EXECUTE format(
            'WITH picked AS (SELECT msg_id FROM pgmq.%1$I WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT $1 FOR UPDATE SKIP LOCKED),
             taken AS (UPDATE pgmq.%1$I m SET vt = clock_timestamp() + make_interval(secs => $2), read_ct = read_ct + 1
                 FROM picked p WHERE m.msg_id = p.msg_id RETURNING m.msg_id, m.read_ct, m.vt, m.message)
             SELECT * FROM taken ORDER BY msg_id', 'q_' || queue_name) USING qty, vt;
    END $$;
    CREATE FUNCTION pgmq.pop(queue_name text) RETURNS SETOF pgmq.message_record LANGUAGE plpgsql AS $$
    BEGIN
        RETURN QUERY EXECUTE format(
            'DELETE FROM pgmq.%1$I WHERE msg_id = (SELECT msg_id FROM pgmq.%1$I WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *',
            'q_' || queue_name);
    END $$;
    CREATE FUNCTION drain(queue text, qty bigint DEFAULT 1) RETURNS TABLE (msg_id bigint, message jsonb) LANGUAGE plpgsql AS $$
    BEGIN
        IF qty > 25 THEN RAISE 'too many: %', qty USING ERRCODE = '42501'; END IF;
        RETURN QUERY EXECUTE format(
            'WITH t AS (DELETE FROM pgmq.%1$I WHERE msg_id IN (SELECT msg_id FROM pgmq.%1$I ORDER BY msg_id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING msg_id, message)
             SELECT * FROM t ORDER BY msg_id', 'q_' || queue) USING qty;
    END $$;
    CREATE SCHEMA shop;
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL);
    CREATE TABLE sold (seq serial PRIMARY KEY, item int, amount int, buyer text);
    CREATE FUNCTION shop.place_order(item int, amount int, buyer text) RETURNS int LANGUAGE plpgsql AS $$
    DECLARE rest int;
    BEGIN
        UPDATE stock SET qty = qty - amount WHERE id = item AND qty >= amount RETURNING qty INTO rest;
        IF NOT FOUND THEN RAISE 'out of stock' USING ERRCODE = 'P0001'; END IF;
        INSERT INTO sold (item, amount, buyer) VALUES (item, amount, buyer);
        RETURN rest;
    END $$;
    CREATE FUNCTION place_order(item int, amount int, buyer text) RETURNS int LANGUAGE sql AS 'UPDATE stock SET qty = qty - amount WHERE id = item RETURNING qty'";
const FILL: &str = "
    TRUNCATE pgmq.q_orders, stock, sold RESTART IDENTITY;
    INSERT INTO stock VALUES (1, 300);
    INSERT INTO pgmq.q_orders (msg_id, message) SELECT i, jsonb_build_object('item', 'thing ' || i) FROM generate_series(1, 14) i";
const CONTENT: &str = "SELECT 'q', msg_id, read_ct, vt > now() FROM pgmq.q_orders UNION ALL SELECT 'stock', id, qty, true FROM stock \
    UNION ALL SELECT buyer, seq, amount, true FROM sold ORDER BY 1, 2";
const CLIENTS: usize = 10;

/// Calls that become one: `$1` is the queue, `$2` the client's own number of rows.
const ONE_CALL: [&str; 6] = [
    "SELECT msg_id, read_ct, message FROM pgmq.read($1, 3600, 1)",
    "SELECT m.msg_id FROM pgmq.read($1, 3600, $2) AS m",
    "SELECT msg_id, now() IS NULL, 7 AS seven FROM pgmq.read(qty => $2, queue_name => $1, vt => 3600)",
    "SELECT * FROM drain($1, 2)",
    "SELECT d.*, upper(d.message ->> 'item') || $1 AS loud FROM drain(qty => $2, queue => $1) AS d",
    "SELECT msg_id AS a, msg_id AS b FROM public.drain($1, $2)",
];

/// Calls that share a transaction.
const ONE_TRANSACTION: [&str; 3] = [
    "SELECT msg_id, message FROM pgmq.pop($1)",
    "SELECT count(*) FROM pgmq.pop($1) WHERE msg_id > 2",
    "SELECT shop.place_order(1, $2, $1), 'placed'",
];

/// Calls of these functions that are not understood.
const ALONE: [&str; 7] = [
    "SELECT msg_id FROM pgmq.read($1, 3600, 1) WHERE msg_id > 2",
    "SELECT (pgmq.read($1, 3600, 1)).msg_id",
    "SELECT max(msg_id) FROM pgmq.read($1, 3600, $2)",
    "SELECT msg_id FROM pgmq.read($1, 3600, $2) FOR UPDATE",
    "SELECT msg_id FROM pgmq.read($1, (random() + 3600)::int, $2)",
    "SELECT message FROM drain($1)",
    "SELECT place_order(1, $2, $1)",
];

fn stage(servers: usize) -> Stage {
    let stage = Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .declare(DECLARED)
        .open();
    stage.direct().ok(SETUP);
    stage
}

/// The unit of a client: prepared or simple.
fn ask(sql: &str, client: usize, prepared: bool) -> Vec<u8> {
    let limit = (1 + client % 3).to_string();
    match (prepared, sql.contains("$2")) {
        (true, true) => unit(sql, &[Some("orders"), Some(&limit)]),
        (true, false) => unit(sql, &[Some("orders")]),
        (false, _) => query(&sql.replace("$1", "'orders'").replace("$2", &limit)),
    }
}

/// Paceline analyzes the template, and measures how quickly it is answered.
fn teach(stage: &Stage, unit: &[u8]) {
    let mut client = stage.client();
    for _ in 0..5 {
        stage.direct().ok(FILL);
        client.ask(unit);
    }
}

/// Requests that run as a group if they may; Paceline analyzes their template after `lesson`.
fn round(
    stage: &Stage,
    clients: usize,
    ask: impl Fn(usize) -> Vec<u8>,
    lesson: &[u8],
) -> Vec<Reply> {
    teach(stage, lesson);
    let mut clients = stage.clients(clients);
    let mut gate = Gate::close(stage);
    stage.direct().ok(FILL);
    for (number, client) in clients.iter_mut().enumerate() {
        gate.submit(client, &ask(number));
    }
    gate.open();
    clients.iter_mut().map(RawClient::reply).collect()
}

/// The same clients, by a group and one at a time.
fn check(stage: &Stage, sql: &str, prepared: bool) {
    println!("{sql}");
    let asks = |number| ask(sql, number, prepared);
    let together = round(stage, CLIENTS, asks, &asks(0));
    let mut bare = stage.direct();
    let left = bare.ok(CONTENT).rows();
    bare.ok(FILL);
    for (number, reply) in together.iter().enumerate() {
        let alone = bare.ask(&asks(number));
        assert_same(&format!("client {number} of {sql}"), &alone.0, &reply.0);
    }
    assert_eq!(bare.ok(CONTENT).rows(), left, "{sql}");
}

/// Runs `round` until its requests ran as a group: a request that shares a transaction must be known to be short, which takes
/// longer on a busy machine.
fn until_together(stage: &Stage, mut round: impl FnMut()) {
    let before = stage.counters().groups;
    until("the requests run as a group", || {
        round();
        stage.target() == Target::Bare || stage.counters().groups > before
    });
}

fn check_all(prepared: bool) {
    let stage = stage(1);
    for sql in ONE_CALL {
        check(&stage, sql, prepared);
    }
    let counters = stage.counters();
    let groups = ONE_CALL.len() as i64;
    let expected = (groups, groups * CLIENTS as i64, 0);
    let found = (counters.groups, counters.members, counters.fallbacks);
    assert!(
        found == expected || stage.target() == Target::Bare,
        "{counters:?}"
    );
    for sql in ONE_TRANSACTION {
        until_together(&stage, || check(&stage, sql, prepared));
    }
    let groups = stage.counters().groups;
    for sql in ALONE {
        check(&stage, sql, prepared);
    }
    assert_eq!(stage.counters().groups, groups);
}

#[test]
fn each_call_is_answered_as_alone_by_the_extended_protocol() {
    check_all(true);
}

#[test]
fn each_call_is_answered_as_alone_by_the_simple_protocol() {
    check_all(false);
}

/// The function refuses the sum of the clients' amounts, and the amount of one of them.
#[test]
fn an_error_in_the_function_reaches_its_client_alone() {
    let stage = stage(1);
    let sql = "SELECT msg_id FROM drain($1, $2)";
    let read = |limit: &str| unit(sql, &[Some("orders"), Some(limit)]);
    let wants = |number| if number == 2 { "26" } else { "6" };
    let replies = round(&stage, 6, |number| read(wants(number)), &read("1"));
    let mut ids: Vec<String> = Vec::new();
    for (number, reply) in replies.into_iter().enumerate() {
        if number == 2 {
            let error = reply.expect_error("42501").error().unwrap();
            assert_eq!(error.text(), "too many: 26");
        } else {
            let rows = reply.expect_ok("a consumer").rows();
            let row: Vec<String> = rows.into_iter().flatten().flatten().collect();
            ids.push(row.join(" "));
        }
    }
    let expected = ["1 2 3 4 5 6", "7 8 9 10 11 12", "13 14", "", ""];
    assert_eq!(ids, expected);
    stage.assert_grouped(6, 6);
}

/// Takes from the other end, and returns that.
const CHANGED: &str = "RETURNS TABLE (msg_id bigint, message jsonb) LANGUAGE sql AS $$
    DELETE FROM pgmq.q_orders WHERE msg_id IN (SELECT msg_id FROM pgmq.q_orders ORDER BY msg_id DESC LIMIT qty) RETURNING msg_id, to_jsonb(queue) $$";
const CHANGED_COLUMNS: &str = "RETURNS TABLE (message text, kept bool, msg_id bigint) LANGUAGE sql AS $$
    DELETE FROM pgmq.q_orders WHERE msg_id IN (SELECT msg_id FROM pgmq.q_orders ORDER BY msg_id DESC LIMIT qty) RETURNING queue, false, msg_id $$";

/// Nothing is taken by a call that was made for the function as it had been.
#[test]
fn a_function_that_has_changed_is_called_as_it_is() {
    for (ddl, columns) in [
        (
            format!("CREATE OR REPLACE FUNCTION drain(queue text, qty bigint DEFAULT 1) {CHANGED}"),
            2,
        ),
        (
            format!(
                "DROP FUNCTION drain; CREATE FUNCTION drain(queue text, qty int) {CHANGED_COLUMNS}"
            ),
            3,
        ),
    ] {
        let stage = stage(1);
        let read = unit("SELECT * FROM drain($1, $2)", &[Some("orders"), Some("1")]);
        // Groups have called it as it was.
        round(&stage, 3, |_| read.clone(), &read);
        let mut clients = stage.clients(5);
        let mut gate = Gate::close(&stage);
        let mut direct = stage.direct();
        direct.ok(FILL);
        direct.ok(&ddl);
        for client in &mut clients {
            gate.submit(client, &read);
        }
        gate.open();
        let mut ids = Vec::new();
        for client in &mut clients {
            let row = client.reply().expect_ok("a consumer").rows().concat();
            assert_eq!(row.len(), columns, "{row:?}");
            ids.extend(
                row.into_iter()
                    .flatten()
                    .filter_map(|v| v.parse::<i64>().ok()),
            );
        }
        assert_eq!(ids, [14, 13, 12, 11, 10]);
        assert_eq!(direct.number("SELECT count(*) FROM pgmq.q_orders"), 9);
    }
}

/// If a function returns more rows than requested, no rows are lost.
#[test]
fn a_function_that_does_not_keep_its_word_is_called_one_at_a_time() {
    let stage = stage(1);
    stage.direct().ok("CREATE OR REPLACE FUNCTION drain(queue text, qty bigint DEFAULT 1) RETURNS TABLE (msg_id bigint, message jsonb) LANGUAGE sql AS $$
        DELETE FROM pgmq.q_orders q WHERE q.msg_id IN (SELECT i.msg_id FROM pgmq.q_orders i ORDER BY i.msg_id LIMIT qty + 1) RETURNING q.msg_id, q.message $$");
    let read = unit("SELECT msg_id FROM drain($1, 2)", &[Some("orders")]);
    for reply in round(&stage, 4, |_| read.clone(), &read) {
        assert_eq!(reply.rows().len(), 3, "{reply:#?}");
    }
    assert_eq!(
        stage.direct().number("SELECT count(*) FROM pgmq.q_orders"),
        2
    );
    stage.assert_grouped(4, 4);
}

/// One member's exception undoes its own changes and nothing else.
#[test]
fn a_call_that_fails_fails_alone() {
    let stage = stage(1);
    let order = |amount: &str| {
        let sql = "SELECT shop.place_order(1, $1, $2)";
        unit(sql, &[Some(amount), Some("ann")])
    };
    until_together(&stage, || {
        let amount = |number| if number == 5 { "1000" } else { "10" };
        let replies = round(&stage, 8, |number| order(amount(number)), &order("1"));
        for (number, reply) in replies.into_iter().enumerate() {
            match number {
                5 => drop(reply.expect_error("P0001")),
                _ => drop(reply.expect_ok("an order")),
            }
        }
        assert_eq!(stage.direct().number("SELECT qty FROM stock"), 230);
        assert_eq!(stage.direct().number("SELECT count(*) FROM sold"), 7);
    });
}

/// Checks the stock after each of six sales of seven.
fn sell(stage: &Stage, sale: &[u8]) {
    let replies = round(stage, 6, |_| sale.to_vec(), sale);
    let left: Vec<String> = replies.iter().map(Reply::value).collect();
    assert_eq!(left, ["293", "286", "279", "272", "265", "258"]);
}

/// A function without a declaration is not chained, with a hint or without.
#[test]
fn a_hinted_call_shares_a_transaction_if_its_function_is_declared() {
    const SELL: &str = "CREATE FUNCTION sell(amount int) RETURNS int LANGUAGE sql AS 'UPDATE stock SET qty = qty - amount RETURNING qty'";
    let statements = [
        "SELECT sell($1)",
        "SELECT /*+ COMMIT_ON_SUCCESS */ sell($1)",
        "/*+ COMMIT_ON_SUCCESS */ SELECT sell FROM sell($1)",
    ];
    let alone = stage(1);
    alone.direct().ok(SELL);
    for sql in statements {
        sell(&alone, &unit(sql, &[Some("7")]));
    }
    assert_eq!(alone.counters().groups, 0);
    let declared = Stage::on_shared()
        .set("default_pool_size=1")
        .declare(&format!("{DECLARED}\n[[group]]\nfunction = \"sell\"\n"))
        .open();
    declared.direct().ok(SETUP);
    declared.direct().ok(SELL);
    for sql in statements {
        until_together(&declared, || sell(&declared, &unit(sql, &[Some("7")])));
    }
}

/// A name without a schema is resolved by the client's search path.
#[test]
fn a_bare_name_is_looked_up_in_the_search_path() {
    let stage = stage(1);
    let order = query("SELECT place_order(1, 10, 'bob')");
    let round = |path: &str| {
        let client = || {
            let mut client = stage.client();
            client.ok(&format!("SET search_path = {path}"));
            client
        };
        let mut teacher = client();
        for _ in 0..5 {
            stage.direct().ok(FILL);
            teacher.ask(&order);
        }
        let mut clients: Vec<RawClient> = (0..4).map(|_| client()).collect();
        let mut gate = Gate::close(&stage);
        stage.direct().ok(FILL);
        for client in &mut clients {
            gate.submit(client, &order);
        }
        gate.open();
        let left: Vec<String> = clients.iter_mut().map(|c| c.reply().value()).collect();
        assert_eq!(left, ["290", "280", "270", "260"]);
    };
    until_together(&stage, || round("shop, public"));
    let groups = stage.counters().groups;
    round("public");
    round("public, shop");
    assert_eq!(stage.counters().groups, groups);
}

const MESSAGES: i64 = 6_000;
const CONSUMERS: usize = 32;

/// Reads until the queue is empty; returns the rows in order.
async fn consume(url: Arc<str>, limit: i32) -> Vec<i64> {
    let client = connect(&url).await.unwrap();
    let sql = "SELECT msg_id, read_ct FROM pgmq.read('orders', 3600, $1)";
    let statement = client.prepare(sql).await.unwrap();
    let mut got = Vec::new();
    loop {
        let rows = client.query(&statement, &[&limit]).await.unwrap();
        assert!(rows.len() <= limit as usize, "{} of {limit}", rows.len());
        assert!(rows.iter().all(|row| row.get::<_, i32>(1) == 1));
        got.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        if rows.is_empty() {
            return got;
        }
    }
}

/// Two consumers work beside Paceline.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_message_is_lost_or_read_twice() {
    let stage = stage(3);
    let mut direct = stage.direct();
    direct.ok(&format!(
        "INSERT INTO pgmq.q_orders (msg_id) SELECT generate_series(1, {MESSAGES})"
    ));
    let urls: [Arc<str>; 2] = [stage.url().into(), stage.direct_url().into()];
    let mut consumers = JoinSet::new();
    for number in 0..CONSUMERS {
        let url = urls[usize::from(number < 2)].clone();
        consumers.spawn(consume(url, 1 + number as i32 % 4));
    }
    let got = consumers.join_all().await;
    for ids in &got {
        assert!(ids.is_sorted_by(|a, b| a < b), "out of order: {ids:?}");
    }
    let mut all = got.concat();
    all.sort_unstable();
    assert_eq!(all, (1..=MESSAGES).collect::<Vec<_>>());
    stage.assert_grouped(500, 3);
}

const STOCK: i64 = 300;
const ORDERS: usize = 25;

/// Returns the amounts that were sold to this buyer, and the stock after each sale.
async fn buy(url: Arc<str>, amount: i32) -> Vec<(i64, i64)> {
    let client = connect(&url).await.unwrap();
    let sql = "SELECT shop.place_order(1, $1, 'cy')";
    let statement = client.prepare(sql).await.unwrap();
    let mut bought = Vec::new();
    for _ in 0..ORDERS {
        match client.query_one(&statement, &[&amount]).await {
            Ok(row) => bought.push((amount.into(), row.get::<_, i32>(0).into())),
            Err(error) => assert_eq!(sqlstate(&error), "P0001", "{error}"),
        }
    }
    bought
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn orders_add_up() {
    let stage = stage(2);
    let mut direct = stage.direct();
    direct.ok(FILL);
    let url: Arc<str> = stage.url().into();
    let mut buyers = JoinSet::new();
    for number in 0..24 {
        buyers.spawn(buy(url.clone(), 1 + number % 3));
    }
    let mut sales = buyers.join_all().await.concat();
    sales.sort_unstable_by_key(|(_, left)| -left);
    let mut stock = STOCK;
    for (amount, left) in &sales {
        assert_eq!(*left, stock - amount, "no serial history");
        stock = *left;
    }
    assert_eq!(direct.number("SELECT qty FROM stock"), stock);
    assert_eq!(stock, 0);
    assert_eq!(
        direct.number("SELECT count(*) FROM sold"),
        sales.len() as i64
    );
    stage.assert_grouped(50, 3);
}

/// The rows of a function get another column: the rows that it takes are still distributed correctly.
#[test]
fn a_function_whose_rows_have_changed() {
    let stage = stage(1);
    let mut bare = stage.direct();
    bare.ok("CREATE TABLE job (id int PRIMARY KEY, body text); INSERT INTO job SELECT i, 'job ' || i FROM generate_series(1, 20) i");
    bare.ok("CREATE FUNCTION popj(n int) RETURNS SETOF job LANGUAGE sql AS 'DELETE FROM job WHERE id IN (SELECT id FROM job ORDER BY id LIMIT n FOR UPDATE SKIP LOCKED) RETURNING *'");
    let take = unit("SELECT id, body FROM popj(2)", &[]);
    stage.client().ask(&take).expect_ok("alone");
    stage.await_analysis();
    bare.ok("ALTER TABLE job ADD COLUMN prio int");
    // A new connection to the server plans the calls again.
    Stage::end_other_sessions(&mut bare);
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &take);
    }
    gate.open();
    let mut ids = Vec::new();
    for client in &mut clients {
        let rows = client.reply().expect_ok("its own rows").rows();
        assert_eq!(rows.len(), 2, "{rows:?}");
        ids.extend(
            rows.into_iter()
                .map(|row| row[0].clone().unwrap().parse::<i32>().unwrap()),
        );
    }
    ids.sort_unstable();
    assert_eq!(ids, (3..=10).collect::<Vec<_>>());
}
