//! The shown numbers equal the executed work: counts, bytes, waits, errors, clients and server connections.

use std::collections::BTreeMap;

use super::{operator, row, stage, table};
use crate::harness::message::{bind, execute, parse, query, sync, unit};
use crate::harness::open_metrics::Scrape;
use crate::harness::raw::RawClient;
use crate::harness::{Gate, Stage, cluster, http, until};

/// The totals of the stage's database.
#[derive(Debug, Default)]
struct Totals(BTreeMap<String, i64>);

impl Totals {
    #[track_caller]
    fn read(operator: &mut RawClient, stage: &Stage) -> Self {
        let row = row(operator, "SHOW STATS_TOTALS", "database", &stage.database);
        let numbers = row
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)));
        Self(numbers.collect())
    }

    /// The difference to `before`.
    fn since(&self, before: &Self, name: &str) -> i64 {
        self.0[name] - before.0[name]
    }
}

#[test]
fn transactions_queries_and_bytes_add_up() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let mut client = stage.client();
    // Paceline looks at what is new on a connection that a client may have to wait for.
    client.ok("SELECT 1");
    client
        .ask(&unit("SELECT $1::text", &[Some("x")]))
        .expect_ok("first");
    stage.await_analysis();
    let before = Totals::read(&mut operator, &stage);
    let (mut sent, mut received) = (0, 0);
    let mut ask = |bytes: &[u8]| {
        let reply = client.ask(bytes);
        sent += bytes.len();
        received += reply
            .0
            .iter()
            .map(|message| message.body.len() + 5)
            .sum::<usize>();
    };
    // Alone, simple and extended.
    (0..20).for_each(|n| ask(&query(&format!("SELECT {n}"))));
    (0..10).for_each(|_| ask(&unit("SELECT $1::text", &[Some("x")])));
    // Five transactions of four units.
    for _ in 0..5 {
        for sql in ["BEGIN", "SELECT 1", "SELECT 1/0", "ROLLBACK"] {
            ask(&query(sql));
        }
    }
    let after = Totals::read(&mut operator, &stage);
    assert_eq!(after.since(&before, "query_count"), 20 + 10 + 5 * 4);
    assert_eq!(after.since(&before, "xact_count"), 20 + 10 + 5);
    assert_eq!(after.since(&before, "server_assignment_count"), 20 + 10 + 5);
    assert_eq!(after.since(&before, "bytes_received"), sent as i64);
    assert_eq!(after.since(&before, "bytes_sent"), received as i64);
    let (xact, query) = ("xact_time", "query_time");
    assert!(after.since(&before, query) > 0 && after.0[xact] >= after.0[query]);
    assert_eq!(after.since(&before, "wait_time"), 0);
}

/// For the first one, Paceline asks a server for the parameters that clients get when they log in.
#[test]
fn logins_are_counted_and_are_no_assignments() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    stage.direct().ok("CREATE ROLE logs_in LOGIN");
    stage.client().ok("SELECT 1");
    let mut operator = operator(&stage);
    let before = Totals::read(&mut operator, &stage);
    let mut clients: Vec<_> = (0..3)
        .map(|_| stage.client_with(&[("user", "logs_in")]))
        .collect();
    let after = Totals::read(&mut operator, &stage);
    assert_eq!(after.since(&before, "client_login_count"), 3);
    assert_eq!(after.since(&before, "server_assignment_count"), 0);
    for client in &mut clients {
        client.ok("SELECT 1");
    }
    let after = Totals::read(&mut operator, &stage);
    assert_eq!(after.since(&before, "server_assignment_count"), 3);
    drop(clients);
    stage.direct().ok("DROP ROLE logs_in");
}

/// The time in which a client in a transaction has nothing to do is the transaction's, but no query's.
#[test]
fn idle_time_is_no_querys() {
    let Some(stage) = stage(Stage::on_shared().set("default_pool_size=1")) else {
        return;
    };
    let mut operator = operator(&stage);
    let (mut client, mut other) = (stage.client(), stage.client());
    client.ok("BEGIN");
    other.send(&query("SELECT 1"));
    // So long that no query of this test takes as much.
    until("the other one has waited", || {
        let pool = row(&mut operator, "SHOW POOLS", "database", &stage.database);
        pool["cl_waiting"] == "1" && pool["maxwait"].parse::<u64>().unwrap() >= 1
    });
    let waits = row(&mut operator, "SHOW CLIENTS", "state", "waiting");
    assert!(waits["wait"].parse::<u64>().unwrap() >= 1);
    client.ok("COMMIT");
    other.reply().expect_ok("after its wait");
    until("both are counted", || {
        Totals::read(&mut operator, &stage).0["query_count"] >= 3
    });
    let totals = Totals::read(&mut operator, &stage).0;
    assert!(totals["xact_time"] >= 1_000_000, "{totals:?}");
    assert!(totals["query_time"] < totals["xact_time"] / 2, "{totals:?}");
    assert!(totals["wait_time"] >= 1_000_000, "{totals:?}");
}

#[test]
fn each_member_of_a_group_counts() {
    let builder = Stage::on_shared()
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=true");
    let Some(stage) = stage(builder) else {
        return;
    };
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, n int, note text); INSERT INTO t VALUES (1, 0)");
    let mut operator = operator(&stage);
    let note = "x".repeat(20_000);
    let update = unit(
        "UPDATE t SET n = n + 1, note = $2 WHERE id = $1",
        &[Some("1"), Some(&note)],
    );
    stage.client().ask(&update).expect_ok("alone");
    stage.await_analysis();
    let mut clients = stage.clients(8);
    let mut gate = Gate::close(&stage);
    let before = Totals::read(&mut operator, &stage);
    for client in &mut clients {
        gate.submit(client, &update);
    }
    gate.open();
    for client in &mut clients {
        client.reply().expect_ok("in a group");
    }
    let after = Totals::read(&mut operator, &stage);
    // With the one at the gate.
    assert_eq!(after.since(&before, "query_count"), 9);
    assert_eq!(after.since(&before, "xact_count"), 9);
    assert_eq!(after.since(&before, "grouped_query_count"), 8);
    assert_eq!(after.since(&before, "group_count"), 1);
    assert_eq!(after.since(&before, "server_assignment_count"), 1);
    assert!(after.since(&before, "wait_time") > 0);
    // The client that reads SHOW GROUPS sends some, too, but far fewer.
    assert!(after.since(&before, "bytes_received") > 8 * note.len() as i64);
    let shown = row(&mut operator, "SHOW GROUPS", "strategy", "fold");
    assert_eq!(
        (shown["database"].as_str(), shown["units"].as_str()),
        (&*stage.database, "8")
    );
    let pool = row(&mut operator, "SHOW POOLS", "database", &stage.database);
    assert_eq!(
        (pool["groups"].as_str(), pool["grouped_queries"].as_str()),
        ("1", "8")
    );
}

#[test]
fn named_statements_are_counted() {
    // While the analysis of the template has the connection, another one would be opened, with statements of its own.
    let Some(stage) = stage(Stage::on_shared().set("default_pool_size=1")) else {
        return;
    };
    let mut operator = operator(&stage);
    let mut client = stage.client();
    for name in ["a", "b"] {
        let prepare = [parse(name, "SELECT $1::int + 1", &[]), sync()].concat();
        client.ask(&prepare).expect_ok(name);
        let run = [bind("", name, &[Some("1")]), execute("", 0), sync()].concat();
        (0..3).for_each(|_| drop(client.ask(&run).expect_ok(name)));
    }
    let totals = Totals::read(&mut operator, &stage).0;
    assert_eq!((totals["client_parse_count"], totals["bind_count"]), (2, 6));
    // Two statements of one client are two on the server, too.
    assert_eq!(totals["server_parse_count"], 2);
    let shown = row(&mut operator, "SHOW CLIENTS", "database", &stage.database);
    assert_eq!(shown["prepared_statements"], "2");
    let shown = row(&mut operator, "SHOW SERVERS", "database", &stage.database);
    assert_eq!(shown["prepared_statements"], "2");
}

#[test]
fn a_client_and_its_server_are_linked() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let mut client = stage.client_with(&[("application_name", "it's me")]);
    client.ok("BEGIN");
    let pid = client.value("SELECT pg_backend_pid()");
    let of_client = row(&mut operator, "SHOW CLIENTS", "type", "C");
    let of_server = row(&mut operator, "SHOW SERVERS", "remote_pid", &pid);
    assert_eq!(of_client["state"], "active");
    assert_eq!(of_client["server_pid"], pid);
    assert_eq!(of_client["id"], client.process().to_string());
    assert_eq!(of_client["link"], of_server["ptr"]);
    assert_eq!(of_server["link"], of_client["ptr"]);
    assert_eq!(of_server["state"], "active");
    assert_eq!(of_server["port"], stage.cluster.port().to_string());
    for shown in [&of_client, &of_server] {
        assert_eq!(shown["application_name"], "it's me");
        assert!(shown["connect_time"].ends_with(" UTC"));
        assert_eq!(shown["user"], "postgres");
    }
    assert_eq!(of_client["local_port"], stage.port().to_string());
    let states = |operator: &mut RawClient, show: &str| {
        let rows = operator.ok(show).rows().into_iter();
        let mut states: Vec<String> = rows.map(|row| row[4].clone().unwrap()).collect();
        states.dedup();
        states
    };
    assert_eq!(
        states(&mut operator, "SHOW ACTIVE_SOCKETS"),
        ["cl_active", "sv_active"]
    );
    client.ok("COMMIT");
    client.ok("SET application_name = 'another'");
    let idle = row(&mut operator, "SHOW CLIENTS", "type", "C");
    assert_eq!((&*idle["state"], &*idle["link"]), ("idle", ""));
    assert_eq!(idle["application_name"], "another");
    until("the statement of the transaction is analyzed", || {
        row(&mut operator, "SHOW SERVERS", "remote_pid", &pid)["state"] == "idle"
    });
    assert!(operator.ok("SHOW ACTIVE_SOCKETS").rows().is_empty());
}

#[test]
fn databases_and_users_are_listed() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let _client = stage.client();
    let database = row(&mut operator, "SHOW DATABASES", "name", &stage.database);
    assert_eq!(database["database"], stage.database);
    assert_eq!(database["port"], stage.cluster.port().to_string());
    assert_eq!(database["current_client_connections"], "1");
    let console = row(&mut operator, "SHOW DATABASES", "name", "pgbouncer");
    assert_eq!(console["pool_mode"], "statement");
    for (user, clients) in [("postgres", "1"), ("boss", "0"), ("watch", "0")] {
        let user = row(&mut operator, "SHOW USERS", "name", user);
        assert_eq!(user["current_client_connections"], clients);
    }
}

/// Metrics show the same, and errors by their codes: of relays, of members of groups, and of ends.
#[test]
fn metrics_tell_durations_and_errors() {
    let builder = Stage::on_shared()
        .set("default_pool_size=1")
        .set("metrics_listen=127.0.0.1:0");
    let Some(mut stage) = stage(builder) else {
        return;
    };
    let mut client = stage.client();
    for _ in 0..3 {
        client.simple("SELECT 1/0").expect_error("22012");
    }
    client.simple("SELECT nothing").expect_error("42703");
    let mut operator = operator(&stage);
    let totals = Totals::read(&mut operator, &stage).0;
    let metrics = stage.paceline().unwrap().metrics();
    let scrape = Scrape::read(&http::get(&metrics, "/metrics").body);
    let pool = [("database", stage.database.as_str()), ("user", "postgres")];
    let value = |name: &str, more: &[(&str, &str)]| scrape.value(name, &[&pool, more].concat());
    let number = |name: &str| value(name, &[]).map(|value| value as i64);
    assert_eq!(
        number("paceline_query_seconds_count"),
        Some(totals["query_count"])
    );
    assert_eq!(
        number("paceline_transaction_seconds_count"),
        Some(totals["xact_count"])
    );
    assert_eq!(
        number("paceline_received_bytes_total"),
        Some(totals["bytes_received"])
    );
    assert_eq!(
        number("paceline_sent_bytes_total"),
        Some(totals["bytes_sent"])
    );
    let errors = |code: &str| value("paceline_errors_total", &[("sqlstate", code)]);
    assert_eq!((errors("22012"), errors("42703")), (Some(3.0), Some(1.0)));
}

/// The server's last error counts once; the end of the connection after it does not count again.
#[test]
fn a_lost_connection_is_one_error() {
    let Some(mut stage) = stage(Stage::on_shared().set("metrics_listen=127.0.0.1:0")) else {
        return;
    };
    let mut client = stage.client();
    client.ok("BEGIN");
    let pid = client.value("SELECT pg_backend_pid()");
    stage
        .direct()
        .ok(&format!("SELECT pg_terminate_backend({pid})"));
    assert_eq!(
        client.receive_to_end().last().unwrap().fields().sqlstate(),
        "57P01"
    );
    let metrics = stage.paceline().unwrap().metrics();
    let scrape = Scrape::read(&http::get(&metrics, "/metrics").body);
    let errors = |code: &str| {
        let database = ("database", stage.database.as_str());
        let labels = [database, ("user", "postgres"), ("sqlstate", code)];
        scrape.value("paceline_errors_total", &labels)
    };
    assert_eq!((errors("57P01"), errors("08006")), (Some(1.0), None));
}

/// Those by which Paceline itself ends a connection are among them.
#[test]
fn waits_that_time_out_are_errors() {
    let builder = Stage::on_shared()
        .set("default_pool_size=1")
        .set("query_wait_timeout=1")
        .set("metrics_listen=127.0.0.1:0");
    let Some(mut stage) = stage(builder) else {
        return;
    };
    let (mut busy, mut waiting) = (stage.client(), stage.client());
    busy.ok("BEGIN");
    waiting.send(&query("SELECT 1"));
    let told = waiting.receive_to_end();
    assert_eq!(told.last().unwrap().fields().text(), "query_wait_timeout");
    let metrics = stage.paceline().unwrap().metrics();
    let scrape = Scrape::read(&http::get(&metrics, "/metrics").body);
    let labels = [
        ("database", stage.database.as_str()),
        ("user", "postgres"),
        ("sqlstate", "08P01"),
    ];
    assert_eq!(scrape.value("paceline_errors_total", &labels), Some(1.0));
}

/// A pool whose database the configuration does not name is removed when it was not used for long, and created again.
#[test]
fn a_pool_of_any_name_is_forgotten() {
    let named = format!(
        "[databases.postgres]\nprimary = \"postgres://127.0.0.1:{}\"\n",
        cluster::shared().port()
    );
    let builder = Stage::on_shared()
        .declare(&named)
        .set("server_idle_timeout=100ms")
        .set("autodb_idle_timeout=200ms");
    let Some(stage) = stage(builder) else { return };
    let mut operator = operator(&stage);
    let mut pools = || {
        let rows = table(&operator.ok("SHOW POOLS"));
        let names = rows.into_iter().map(|mut row| row.remove("database"));
        names.flatten().collect::<Vec<_>>()
    };
    let mut client = stage.client();
    client.ok("SELECT 1");
    RawClient::connect(
        stage.port(),
        &[("user", "postgres"), ("database", "postgres")],
    )
    .ok("SELECT 1");
    let mut direct = stage.direct();
    until("its server connection is closed", || {
        direct.number(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        ) == 0
    });
    // This one is not used: when it is removed, the other would have been, too.
    let third = [("user", "postgres"), ("database", "template1")];
    RawClient::connect(stage.port(), &third).ok("SELECT 1");
    until("the third is forgotten", || {
        !pools().iter().any(|name| name == "template1")
    });
    assert!(pools().contains(&stage.database), "it has a client");
    drop(client);
    until("it is forgotten", || !pools().contains(&stage.database));
    assert!(pools().iter().any(|name| name == "postgres"));
    let mut client = stage.client();
    client.ok("SELECT 1");
    assert!(pools().contains(&stage.database));
}
