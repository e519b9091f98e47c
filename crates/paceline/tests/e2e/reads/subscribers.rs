//! Reads on a logical subscriber: each answer is one that the primary could give, to the byte, and what differs there keeps reads
//! away.

mod refused;
mod statements;

use crate::failover::{client, shown};
use crate::harness::cluster::Cluster;
use crate::harness::message::{bind, bind_formats, describe, execute, parse, query, sync};
use crate::harness::open_metrics::Scrape;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::reply::assert_same;
use crate::harness::{http, until};
use std::sync::Arc;

const READ: &str = "SELECT id, customer, amount FROM orders ORDER BY id";

const TABLES: &str = "
    CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(10, 2), at timestamptz DEFAULT '2026-01-01');
    CREATE TABLE items (id int PRIMARY KEY, order_id int, n int);";

/// A primary, a subscriber that has two tables of it, and Paceline in front of both.
pub(super) struct Subscribed {
    pub(super) primary: Arc<Cluster>,
    pub(super) subscriber: Arc<Cluster>,
    pub(super) paceline: Paceline,
}

impl Subscribed {
    /// Paceline with these settings, when the subscriber may serve reads.
    pub(super) fn serving(settings: &str) -> Self {
        let subscribed = Self::start(settings);
        subscribed.await_serving();
        subscribed
    }

    /// The same with a URL that names no user.
    fn as_themselves(settings: &str) -> Self {
        let subscribed = Self::with("", settings);
        subscribed.await_serving();
        subscribed
    }

    fn start(settings: &str) -> Self {
        Self::with("postgres@", settings)
    }

    fn with(user: &str, settings: &str) -> Self {
        let logical = [("wal_level", "logical")];
        let (primary, subscriber) = (Cluster::with(&logical), Cluster::with(&logical));
        let mut publisher = primary.client("postgres");
        for server in [&primary, &subscriber] {
            let mut server = server.client("postgres");
            server.ok("CREATE ROLE mon LOGIN; GRANT pg_monitor TO mon");
        }
        publisher.ok(TABLES);
        publisher.ok(
            "INSERT INTO orders SELECT i, 'c' || i, i * 1.5 FROM generate_series(1, 20) i;
             INSERT INTO items SELECT i, i % 20 + 1, i FROM generate_series(1, 50) i;
             CREATE TABLE other (id int); INSERT INTO other VALUES (1);
             CREATE PUBLICATION p FOR TABLE orders, items",
        );
        // Other OIDs, and other numbers of columns.
        let mut copy = subscriber.client("postgres");
        copy.ok("CREATE TABLE first (id int); CREATE TABLE other (id int)");
        copy.ok(&TABLES.replace(
            "(id int PRIMARY KEY, customer",
            "(gone int, id int PRIMARY KEY, customer",
        ));
        copy.ok("ALTER TABLE orders DROP COLUMN gone");
        let port = primary.port();
        copy.ok(&format!(
            "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port={port} user=postgres dbname=postgres' PUBLICATION p"
        ));
        let text = format!(
            "[paceline]\nhotspot_for_autocommit = true\n{settings}\n\
             [databases.postgres]\nprimary = \"postgres://{user}127.0.0.1:{port}/postgres\"\n\
             [[databases.postgres.subscribers]]\nhost = \"127.0.0.1\"\nport = {}\nslot = \"s\"\n\
             tables = [\"public.orders\", \"public.items\"]\n",
            subscriber.port()
        );
        let paceline = Paceline::configured(&text).spawn();
        Self {
            primary,
            subscriber,
            paceline,
        }
    }

    pub(super) fn await_serving(&self) {
        until("the subscriber may serve reads", || {
            self.shown(&["role", "serves_reads"]) == "subscriber 1"
        });
    }

    /// These columns of `SHOW HOSTS` for the subscriber.
    pub(super) fn shown(&self, columns: &[&str]) -> String {
        shown(&self.paceline, self.subscriber.port(), columns)
    }

    /// Reads that the subscriber has answered.
    pub(super) fn reads(&self) -> i64 {
        self.shown(&["reads"]).parse().unwrap()
    }

    pub(super) fn client(&self) -> RawClient {
        client(&self.paceline)
    }

    /// Runs this read until the subscriber answers it.
    pub(super) fn await_answer(&self, client: &mut RawClient, sql: &str) {
        let before = self.reads();
        until(&format!("the subscriber answers {sql}"), || {
            client.ok(sql);
            self.reads() > before
        });
    }

    /// Runs this read several times, and fails if the subscriber answers it.
    #[track_caller]
    pub(super) fn assert_elsewhere(&self, client: &mut RawClient, sql: &str) {
        let before = self.reads();
        for _ in 0..5 {
            client.ok(sql);
        }
        assert_eq!(self.reads(), before, "{sql}");
    }

    /// Returns when the subscriber has all that the primary has.
    fn await_caught_up(&self) {
        let mut publisher = self.primary.client("postgres");
        let end = publisher.value("SELECT pg_current_wal_lsn()");
        until("the subscriber has caught up", || {
            let confirmed = "SELECT confirmed_flush_lsn >= $$LSN$$ FROM pg_replication_slots";
            publisher.value(&confirmed.replace("LSN", &end)) == "t"
        });
    }
}

#[test]
fn a_subscriber_answers_reads_of_its_tables() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let mut client = subscribed.client();
    subscribed.await_answer(&mut client, READ);
    // A row that no subscription would change shows which server has answered.
    let mut copy = subscribed.subscriber.client("postgres");
    copy.ok("UPDATE orders SET customer = 'subscriber' WHERE id = 1");
    let before = subscribed.reads();
    let first = "SELECT customer FROM orders WHERE id = 1";
    subscribed.await_answer(&mut client, first);
    assert_eq!(client.value(first), "subscriber");
    assert!(subscribed.reads() > before + 1);
    let hinted = "SELECT /*+ PRIMARY */ customer FROM orders WHERE id = 1";
    assert_eq!(client.value(hinted), "c1");
    let joined = "SELECT sum(i.n), count(*) FROM public.orders o JOIN items i ON i.order_id = o.id WHERE o.amount > 3";
    subscribed.await_answer(&mut client, joined);
    let columns = ["role", "reason", "timeline", "lag_bytes", "serves_reads"];
    until("the lag is known", || {
        subscribed.shown(&columns) == "subscriber - - 0 1"
    });
}

#[test]
fn only_reads_that_may_be_behind_use_a_subscriber() {
    let subscribed = Subscribed::serving("reads = \"any\"\nmetrics_listen = \"127.0.0.1:0\"");
    let mut client = subscribed.client();
    subscribed.await_answer(&mut client, READ);
    for mode in ["primary", "session", "global"] {
        client.ok(&format!("SET paceline.reads = '{mode}'"));
        subscribed.assert_elsewhere(&mut client, READ);
        subscribed.assert_elsewhere(&mut client, "SELECT /*+ REPLICA */ count(*) FROM orders");
    }
    client.ok("RESET paceline.reads");
    subscribed.await_answer(&mut client, READ);
    // A subscriber has no position of the primary: what it answers does not change that of the client.
    let position = client.value("SHOW paceline.position");
    subscribed.await_answer(&mut client, READ);
    let mut publisher = subscribed.primary.client("postgres");
    let system = publisher.value("SELECT system_identifier FROM pg_control_system()");
    assert!(position.starts_with(&format!("{system}:1:")), "{position}");
    let later = client.value("SHOW paceline.position");
    let lsn = |text: &str| text.rsplit(':').next().unwrap().to_owned();
    let end = publisher.value("SELECT pg_current_wal_insert_lsn()");
    let is_within = format!("SELECT '{}'::pg_lsn <= '{end}'", lsn(&later));
    assert_eq!(publisher.value(&is_within), "t");
    let answer = http::get(&subscribed.paceline.metrics(), "/metrics");
    let host = format!("127.0.0.1:{}", subscribed.subscriber.port());
    let labels = [("database", "postgres"), ("host", host.as_str())];
    let serves = Scrape::read(&answer.body).value("paceline_host_serves_reads", &labels);
    assert_eq!(serves, Some(1.0));
}

/// Asks both until the subscriber has answered, and compares each answer.
fn assert_answers(subscribed: &Subscribed, what: &str, requests: &[Vec<u8>]) {
    let mut direct = subscribed.primary.client("postgres");
    let mut client = subscribed.client();
    let (last, first) = requests.split_last().unwrap();
    for request in first {
        assert_same(what, &direct.ask(request).0, &client.ask(request).0);
    }
    let expected = direct.ask(last);
    let before = subscribed.reads();
    until(what, || {
        assert_same(what, &expected.0, &client.ask(last).0);
        subscribed.reads() > before
    });
}

/// OIDs of tables, numbers of columns, types: everything is as the primary describes it.
#[test]
fn answers_are_those_of_the_primary_to_the_byte() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    for sql in [
        READ,
        "SELECT * FROM orders WHERE id < 4 ORDER BY id",
        "SELECT o.*, i.n + 1, count(*) OVER () FROM orders o JOIN items i ON i.id = o.id WHERE o.id < 3 ORDER BY 1",
        "SELECT count(*), max(at), min(customer) FROM orders",
        "SELECT n FROM items WHERE id = -1",
    ] {
        assert_answers(&subscribed, sql, &[query(sql)]);
        let unnamed = [
            parse("", sql, &[]),
            bind("", "", &[]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ];
        assert_answers(&subscribed, sql, &[unnamed.concat()]);
    }
    // A statement that was prepared on the primary.
    let sql = "SELECT id, customer, amount, at FROM orders WHERE id = $1";
    let prepare = [parse("p", sql, &[]), sync()].concat();
    let again = [bind("", "p", &[Some("2")]), execute("", 0), sync()].concat();
    assert_answers(&subscribed, "prepared", &[prepare.clone(), again]);
    let binary = [
        bind_formats("", "p", &[0], &[Some(b"3".to_vec())], &[1]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    assert_answers(&subscribed, "binary", &[prepare, binary.concat()]);
}

/// As when a replica is lost: each read runs elsewhere.
#[test]
fn a_lost_subscriber_causes_no_error() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let mut clients: Vec<RawClient> = (0..4).map(|_| subscribed.client()).collect();
    subscribed.await_answer(&mut clients[0], READ);
    for round in 0..40 {
        if round == 10 {
            subscribed.subscriber.kill();
        }
        for client in &mut clients {
            client.send(&query(READ));
        }
        for client in &mut clients {
            let rows = client.reply().expect_ok("a read").rows();
            assert_eq!(rows.len(), 20);
        }
    }
    until("the loss is known", || {
        subscribed.shown(&["serves_reads"]) == "0"
    });
    subscribed.subscriber.restart();
    subscribed.await_answer(&mut clients[0], READ);
    // Frozen, it answers nothing, and nothing fails.
    subscribed.subscriber.signal_all("STOP");
    for client in &mut clients {
        client.send(&query(READ));
    }
    for client in &mut clients {
        client
            .reply()
            .expect_ok("a read while the subscriber is frozen");
    }
    subscribed.subscriber.signal_all("CONT");
    subscribed.await_answer(&mut clients[0], READ);
}

/// The primary reports errors: here the subscriber alone would raise one, or would have no privilege.
#[test]
fn an_error_of_the_subscriber_is_no_answer() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let mut client = subscribed.client();
    let divide = "SELECT 10 / n FROM items WHERE id = 1";
    subscribed.await_answer(&mut client, divide);
    let mut copy = subscribed.subscriber.client("postgres");
    copy.ok("UPDATE items SET n = 0 WHERE id = 1");
    let before = subscribed.reads();
    for _ in 0..5 {
        assert_eq!(client.value(divide), "10");
    }
    assert_eq!(subscribed.reads(), before);
    // An error that the primary has is its own.
    let mut direct = subscribed.primary.client("postgres");
    direct.ok("UPDATE items SET n = 0 WHERE id = 1");
    let expected = direct.simple(divide);
    assert_same("an error", &expected.0, &client.simple(divide).0);
}

/// The time of a statement that the subscriber takes does not count for the client.
#[test]
fn a_time_limit_that_expires_on_the_subscriber_is_no_answer() {
    let subscribed = Subscribed::serving("reads = \"any\"\nreplica_wait = \"30s\"");
    let mut client = subscribed.client();
    client.ok("SET statement_timeout = '2s'");
    subscribed.await_answer(&mut client, READ);
    let mut copy = subscribed.subscriber.client("postgres");
    copy.ok("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE");
    let before = subscribed.reads();
    assert_eq!(client.ok(READ).rows().len(), 20);
    assert_eq!(subscribed.reads(), before);
    copy.ok("COMMIT");
}
