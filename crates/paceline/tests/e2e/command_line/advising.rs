//! `paceline advise` on real servers under real load: each scenario of the lab is found first and alone, and what is healthy has no
//! finding.

use super::benching::bench;
use crate::harness::Stage;
use crate::harness::cluster::Cluster;
use crate::harness::programs::program;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::until;
use crate::harness::wait::until_moving;
use serde_json::Value;
use std::cell::RefCell;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The exit codes without and with findings.
const NONE: Option<i32> = Some(0);
const FOUND: Option<i32> = Some(3);

/// A load that ends with the test.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server() -> Arc<Cluster> {
    Cluster::with(&[
        ("max_connections", "400"),
        ("max_prepared_transactions", "2"),
        ("autovacuum", "off"),
    ])
}

fn url(server: &Cluster, user: &str) -> String {
    format!("postgres://{user}@127.0.0.1:{}/postgres", server.port())
}

struct Advised {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Advised {
    /// The patterns of the findings, in order, each with its table.
    fn found(&self) -> Vec<(String, Option<String>)> {
        let findings: Value = serde_json::from_str(&self.out).unwrap();
        let text = |finding: &Value, name: &str| finding[name].as_str().map(str::to_owned);
        let findings = findings.as_array().unwrap().iter();
        findings
            .map(|finding| (text(finding, "pattern").unwrap(), text(finding, "table")))
            .collect()
    }
}

fn advise(url: &str, more: &[&str]) -> Advised {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let command = command.args(["advise", url, "--interval", "3s"]).args(more);
    let ended = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Advised {
        code: ended.status.code(),
        out: text(ended.stdout),
        err: text(ended.stderr),
    }
}

/// Starts a scenario of the lab; returns when this many of its statements have run at the same time.
fn scenario(server: &Cluster, arguments: &[&str], active: i64) -> Load {
    let target = format!("direct={}", url(server, "postgres"));
    let mut command = bench(arguments);
    command.args(["--against", &target, "--duration", "60s", "--rounds", "1"]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let load = Load(command.spawn().unwrap());
    let observer = RefCell::new(server.client("postgres"));
    let number = |query| observer.borrow_mut().number(query);
    // The lab fills its tables first: as long as one of its statements runs, the time moves on.
    let at_work = || {
        number(
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp())::bigint), 0) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state = 'active'",
        )
    };
    until_moving("the load runs", at_work, |_| {
        number(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
             AND (state = 'active' OR state_change > now() - interval '1s') AND query LIKE '%paceline_lab%' AND query NOT LIKE '%generate_series%'",
        ) >= active
    });
    load
}

/// A scenario is found first, and nothing else is.
#[track_caller]
fn assert_only(arguments: &[&str], active: i64, pattern: &str, table: Option<&str>) {
    let server = server();
    let load = scenario(&server, arguments, active);
    let advised = advise(&url(&server, "postgres"), &["--format", "json"]);
    drop(load);
    let table = table.map(|table| format!("paceline_lab.{table}"));
    let expected = [(pattern.to_owned(), table)];
    assert_eq!(advised.found(), expected, "{}", advised.out);
    assert_eq!((advised.code, advised.err.as_str()), (FOUND, ""));
}

#[test]
fn updates_of_a_row_are_a_hot_row() {
    assert_only(
        &["hot-row", "--clients", "64"],
        60,
        "hot-row",
        Some("stock"),
    );
}

#[test]
fn consumers_are_a_queue() {
    assert_only(
        &["queue", "--clients", "64"],
        60,
        "queue",
        Some("t_order_q"),
    );
}

#[test]
fn writes_of_edges_are_an_upsert_store() {
    assert_only(
        &["edges", "--clients", "64"],
        60,
        "upsert-store",
        Some("edge"),
    );
}

#[test]
fn many_clients_are_a_storm() {
    assert_only(&["storm", "--clients", "200"], 190, "storm", None);
}

#[test]
fn reads_of_rows_in_many_blocks_are_scattered() {
    let arguments = ["keyed-read", "--variant", "scattered", "--clients", "16"];
    assert_only(&arguments, 14, "scattered-read", Some("fares_scattered"));
}

/// The tool alone brings the rows of a key together, under load.
#[test]
fn scattered_rows_are_stored_together() {
    let server = server();
    let load = scenario(
        &server,
        &["keyed-read", "--variant", "scattered", "--clients", "8"],
        6,
    );
    let mut observer = server.client("postgres");
    let table = "paceline_lab.fares_scattered";
    let mut blocks = || {
        observer.number(&format!(
            "SELECT count(DISTINCT (ctid::text::point)[0]) FROM {table} WHERE typeid = 1"
        ))
    };
    let before = blocks();
    let url = url(&server, "postgres");
    let refused = advise(&url, &["--apply"]);
    assert_eq!(
        refused.code, FOUND,
        "nothing to apply without --allow-cluster"
    );
    assert!(
        refused.err.contains("nothing of this can be applied"),
        "{}",
        refused.err
    );
    let unconfirmed = advise(&url, &["--apply", "--allow-cluster"]);
    assert_eq!(unconfirmed.code, Some(1));
    assert!(
        unconfirmed.err.contains("is no terminal; add --yes"),
        "{}",
        unconfirmed.err
    );
    assert_eq!(blocks(), before);
    let applied = advise(&url, &["--apply", "--yes", "--allow-cluster"]);
    assert_eq!(applied.code, FOUND, "{}", applied.err);
    assert!(applied.err.contains("scattered-read: "), "{}", applied.err);
    assert!(applied.err.contains("not found now"), "{}", applied.err);
    drop(load);
    let after = blocks();
    assert!(after * 3 <= before, "{before} blocks before, {after} after");
}

#[test]
fn healthy_and_empty_databases_have_no_finding() {
    let server = server();
    let url = url(&server, "postgres");
    let advised = advise(&url, &["--format", "json"]);
    assert_eq!((advised.code, advised.out.as_str()), (NONE, "[]\n"));
    let pgbench = |arguments: &[&str]| {
        let mut command = program("pgbench");
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p"]);
        command.arg(server.port().to_string()).args(arguments);
        command
            .arg("postgres")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Load(command.spawn().unwrap())
    };
    let filled = pgbench(&["-i", "-q", "-s", "10"]).0.wait().unwrap();
    assert!(filled.success());
    let load = pgbench(&["-n", "-c", "4", "-j", "1", "-T", "60"]);
    let mut observer = server.client("postgres");
    until("pgbench runs", || {
        observer.number("SELECT count(*) FROM pgbench_history") > 100
    });
    let advised = advise(&url, &["--format", "json"]);
    drop(load);
    assert_eq!((advised.code, advised.out.as_str()), (NONE, "[]\n"));
}

#[test]
fn many_tables_are_no_finding() {
    let server = Cluster::with(&[("synchronous_commit", "off"), ("autovacuum", "off")]);
    let mut client = server.client("postgres");
    client.ok(
        "DO $$ BEGIN FOR i IN 1..10000 LOOP EXECUTE format('CREATE TABLE t%s AS SELECT 1 AS n', i); \
         IF i % 500 = 0 THEN COMMIT; END IF; END LOOP; END $$",
    );
    let advised = advise(&url(&server, "postgres"), &["--format", "json"]);
    assert_eq!(
        (advised.code, advised.out.as_str()),
        (NONE, "[]\n"),
        "{}",
        advised.err
    );
}

#[test]
fn a_role_without_rights_is_told_so() {
    let server = server();
    server.client("postgres").ok("CREATE ROLE guest LOGIN");
    let load = scenario(&server, &["hot-row", "--clients", "16"], 14);
    let advised = advise(&url(&server, "guest"), &["--format", "json"]);
    drop(load);
    assert_eq!((advised.code, advised.out.as_str()), (NONE, "[]\n"));
    assert!(
        advised.err.contains("GRANT pg_read_all_stats"),
        "{}",
        advised.err
    );
}

/// Updates rows until `over` is set.
fn update(mut client: RawClient, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        client.ok("UPDATE t SET n = n + 1 WHERE id <= 100");
    }
}

#[test]
fn a_forgotten_prepared_transaction_is_named() {
    let server = server();
    let mut client = server.client("postgres");
    client.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 20000) i; CREATE TABLE other (id int)");
    client.ok("BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'forgotten'");
    client.ok("UPDATE t SET n = 1");
    let over = AtomicBool::new(false);
    let pinned_for = |time| ["--format", "json", "--pinned-after", time];
    let url = url(&server, "postgres");
    let (old, young) = thread::scope(|scope| {
        scope.spawn(|| update(server.client("postgres"), &over));
        let old = advise(&url, &pinned_for("1s"));
        let young = advise(&url, &pinned_for("1h"));
        over.store(true, Ordering::Relaxed);
        (old, young)
    });
    let expected = ("pinned-horizon".to_owned(), Some("public.t".to_owned()));
    assert_eq!(old.found(), [expected], "{}", old.out);
    assert!(
        old.out.contains("ROLLBACK PREPARED 'forgotten'"),
        "{}",
        old.out
    );
    assert_eq!(young.out, "[]\n");
    client.ok("ROLLBACK PREPARED 'forgotten'");
}

#[test]
fn errors_are_one_line() {
    let server = server();
    let nobody = advise(&url(&server, "nobody"), &[]);
    assert_eq!(
        (nobody.code, nobody.err.lines().count()),
        (Some(1), 1),
        "{}",
        nobody.err
    );
    let wrong = advise("mysql://x", &[]);
    assert_eq!(
        (wrong.code, wrong.err.lines().count()),
        (Some(1), 1),
        "{}",
        wrong.err
    );
}

/// With pg_stat_statements, the tool knows how many rows a read needs, and builds the index.
#[test]
fn an_index_that_reads_need_is_built() {
    let server = Cluster::with(&[("shared_preload_libraries", "pg_stat_statements")]);
    let mut direct = server.client("postgres");
    direct.ok("CREATE EXTENSION pg_stat_statements SCHEMA public");
    direct.ok("CREATE TABLE orders AS SELECT n AS id, n % 20000 AS customer FROM generate_series(1, 40000) n");
    direct.ok("ANALYZE orders");
    let ends = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..6)
        .map(|n| {
            let (mut client, ends) = (server.client("postgres"), Arc::clone(&ends));
            thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    client.ok(&format!("SELECT * FROM orders WHERE customer = {n}"));
                }
            })
        })
        .collect();
    let url = url(&server, "postgres");
    let advised = advise(&url, &["--format", "json"]);
    let table = Some("public.orders".to_owned());
    assert_eq!(
        advised.found(),
        [("scattered-read".to_owned(), table)],
        "{}",
        advised.out
    );
    assert!(
        advised.out.contains("pg_stat_statements: "),
        "{}",
        advised.out
    );
    let applied = advise(&url, &["--apply", "--yes"]);
    ends.store(true, Ordering::Relaxed);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    assert!(applied.err.contains("not found now"), "{}", applied.err);
    let indexes = "SELECT count(*) FROM pg_indexes WHERE indexname = 'orders_customer_advised'";
    assert_eq!(direct.number(indexes), 1);
}

/// A running Paceline knows which requests waited although they could have been grouped.
#[test]
fn the_counts_of_a_running_paceline_are_observed() {
    let stage = Stage::on_shared().set("admin_users=boss").open();
    if stage.target() != Target::Paceline {
        return;
    }
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE stock (id int PRIMARY KEY, qty int); INSERT INTO stock VALUES (1, 0)");
    let update = "UPDATE stock SET qty = qty + 1 WHERE id = 1";
    stage.client().ok(update);
    stage.await_analysis();
    let ends = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..40)
        .map(|_| {
            let (mut client, ends) = (stage.client(), Arc::clone(&ends));
            thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    client.ok(update);
                }
            })
        })
        .collect();
    let url = format!("postgres://boss@127.0.0.1:{}/pgbouncer", stage.port());
    let advised = advise(&url, &["--format", "json"]);
    ends.store(true, Ordering::Relaxed);
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    assert_eq!(
        advised.found(),
        [("hot-row".to_owned(), None)],
        "{}",
        advised.out
    );
    assert_eq!((advised.code, advised.err.as_str()), (FOUND, ""));
    let advice = format!("[databases.{}]", stage.database);
    assert!(advised.out.contains(&advice), "{}", advised.out);
    let idle = advise(&url, &["--format", "json"]);
    assert_eq!((idle.code, idle.out.trim()), (NONE, "[]"));
}
