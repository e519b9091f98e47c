//! The metrics listener: a scrape shows the executed work, and no scrape, however slow, delays a client.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::num::NonZero;
use std::process::Command;

use bytes::BytesMut;
use paceline_wire::ErrorResponse;

use crate::harness::cluster::Cluster;
use crate::harness::message::{self, unit};
use crate::harness::open_metrics::Scrape;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::{StageBuilder, Target};
use crate::harness::{Gate, Stage, http, until};

const SETUP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL CHECK (qty >= 0));
    INSERT INTO stock SELECT i, 10 FROM generate_series(1, 9) i;
    CREATE TABLE note (id bigserial PRIMARY KEY, text text NOT NULL);";

const SELL: &str = "UPDATE stock SET qty = qty - $2 WHERE id = $1";
const NOTE: &str = "INSERT INTO note (text) VALUES ($1) RETURNING \"id\"";
const HINT_FREE: &str = "UPDATE stock SET qty = 1 WHERE id = $1";

/// Paceline with metrics, and where they are. `None` when PostgreSQL is the target.
fn stage(builder: StageBuilder) -> Option<(Stage, String)> {
    let mut stage = builder
        .set("default_pool_size=1")
        .set("metrics_listen=127.0.0.1:0")
        .open();
    stage.direct().ok(SETUP);
    let metrics = stage.paceline()?.metrics();
    Some((stage, metrics))
}

#[track_caller]
fn scrape(metrics: &str) -> Scrape {
    let answer = http::get(metrics, "/metrics");
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type");
    assert_eq!(
        kind,
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    Scrape::read(&answer.body)
}

/// Sends each client's unit while the pool's connections wait, and returns when all are answered.
#[track_caller]
fn together(stage: &Stage, units: &[Vec<u8>]) {
    let mut clients = stage.clients(units.len());
    let mut gate = Gate::close(stage);
    for (client, unit) in clients.iter_mut().zip(units) {
        gate.submit(client, unit);
    }
    gate.open();
    for client in &mut clients {
        client.reply();
    }
}

fn sell(id: &str, many: &str) -> Vec<u8> {
    unit(SELL, &[Some(id), Some(many)])
}

/// From now on what a template counts is shown under its name.
fn earn_name(client: &mut RawClient, unit: &[u8]) {
    (0..100).for_each(|_| drop(client.ask(unit)));
}

/// The label of a template, of which only the text is known here.
#[track_caller]
fn named<'a>(scrape: &'a Scrape, text: &str) -> &'a str {
    let mut labels = scrape.labels("template").into_iter();
    let found = labels.find(|label| label.split_once(' ').is_some_and(|(_, rest)| rest == text));
    found.unwrap_or_else(|| panic!("{text}: {scrape:#?}"))
}

#[test]
fn a_scrape_says_what_was_done() {
    let Some((stage, metrics)) = stage(Stage::on_shared().set("hotspot_for_autocommit=on")) else {
        return;
    };
    let mut client = stage.client();
    earn_name(&mut client, &sell("9", "0"));
    earn_name(&mut client, &unit(NOTE, &[Some("early")]));
    client.ask(&sell("1", "1"));
    client.ask(&unit(NOTE, &[Some("a")]));
    client.ok("BEGIN");
    client.ok("COMMIT");
    // Four on one row and one on another; then one that violates, and one behind it.
    together(&stage, &["1", "1", "2", "1", "1"].map(|id| sell(id, "1")));
    together(&stage, &["4", "4", "4", "1"].map(|many| sell("5", many)));
    together(
        &stage,
        &["b", "c", "d"].map(|text| unit(NOTE, &[Some(text)])),
    );
    let scrape = scrape(&metrics);
    let pool = [("database", stage.database.as_str()), ("user", "postgres")];
    let value = |name: &str, more: &[(&str, &str)]| scrape.value(name, &[&pool, more].concat());
    let of = |name: &str, strategy: &str, text: &str| {
        let labels = [("strategy", strategy), ("template", named(&scrape, text))];
        value(&format!("paceline_{name}"), &labels)
    };
    assert_eq!(of("units_total", "fold", SELL), Some(7.0));
    assert_eq!(of("units_total", "solo", SELL), Some(3.0));
    assert_eq!(of("groups_total", "fold", SELL), Some(2.0));
    assert_eq!(of("largest_group_units", "fold", SELL), Some(5.0));
    assert_eq!(of("rows_written_total", "fold", SELL), Some(3.0));
    assert_eq!(of("commits_saved_total", "fold", SELL), Some(5.0));
    assert_eq!(of("groups_total", "solo", SELL), None);
    assert_eq!(of("units_total", "merge", NOTE), Some(3.0));
    assert_eq!(of("rows_written_total", "merge", NOTE), Some(3.0));
    assert_eq!(
        value(
            "paceline_units_total",
            &[("strategy", "lease"), ("template", "")]
        ),
        Some(1.0)
    );
    let came_back = [
        ("strategy", "fold"),
        ("template", named(&scrape, SELL)),
        ("reason", "error"),
    ];
    assert_eq!(value("paceline_fallbacks_total", &came_back), Some(2.0));
    let sizes = |le: &str| {
        value(
            "paceline_group_size_units_bucket",
            &[("strategy", "fold"), ("le", le)],
        )
    };
    assert_eq!(
        ["1.0", "2.0", "4.0", "8.0"].map(sizes),
        [0.0, 1.0, 1.0, 2.0].map(Some)
    );
    let fold = [("strategy", "fold")];
    assert_eq!(value("paceline_group_size_units_sum", &fold), Some(7.0));
    assert_eq!(value("paceline_group_size_units_count", &fold), Some(2.0));
    // Every unit of the pool, the gate's among them.
    let all = value("paceline_pool_units_total", &[]);
    assert_eq!(all, Some(scrape.sum("paceline_units_total", &pool)));
    assert!(all >= Some(215.0));
    let early = [("strategy", "solo"), ("template", "other")];
    assert!(value("paceline_units_total", &early) >= Some(200.0));
}

#[test]
fn pools_and_the_process_are_seen_at_work() {
    let Some((stage, metrics)) = stage(Stage::on_shared()) else {
        return;
    };
    let mut first = stage.client();
    earn_name(&mut first, &unit(HINT_FREE, &[Some("1")]));
    stage.await_analysis();
    until("the others have left", || {
        scrape(&metrics).value("paceline_clients", &[]) == Some(1.0)
    });
    let before = scrape(&metrics);
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &unit(HINT_FREE, &[Some("2")]));
    }
    let during = scrape(&metrics);
    gate.open();
    clients.iter_mut().for_each(|client| drop(client.reply()));
    let pool = [("database", stage.database.as_str()), ("user", "postgres")];
    let state = |scrape: &Scrape, name: &str, state: &str| {
        let name = format!("paceline_pool_{name}");
        scrape.value(&name, &[&pool[..], &[("state", state)]].concat())
    };
    let clients_of = |scrape| ["active", "waiting"].map(|s| state(scrape, "clients", s));
    let servers = |scrape| ["active", "idle", "opening"].map(|s| state(scrape, "servers", s));
    assert_eq!(clients_of(&before), [1.0, 0.0].map(Some));
    assert_eq!(servers(&before), [0.0, 1.0, 0.0].map(Some));
    // The first one, the gate's two, and three that wait.
    assert_eq!(clients_of(&during), [3.0, 3.0].map(Some));
    assert_eq!(servers(&during), [1.0, 0.0, 0.0].map(Some));
    assert_eq!(during.value("paceline_pool_servers_max", &pool), Some(1.0));
    assert_eq!(during.value("paceline_clients", &[]), Some(6.0));
    let accepted = |scrape: &Scrape| {
        scrape
            .value("paceline_clients_accepted_total", &[])
            .unwrap()
    };
    assert_eq!(accepted(&during), accepted(&before) + 5.0);
    let missed = [("template", named(&during, &HINT_FREE.replace("= 1", "= ?")))];
    let missed = during.value(
        "paceline_would_have_grouped_total",
        &[&pool[..], &missed].concat(),
    );
    assert_eq!(missed, Some(3.0));
    let started = during.value("process_start_time_seconds", &[]).unwrap();
    let mut direct = stage.direct();
    let now = direct.number("SELECT extract(epoch FROM clock_timestamp())::bigint") as f64;
    assert!(started > 1e9 && started <= now + 1.0, "{started} {now}");
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(during.value("paceline_build_info", &version), Some(1.0));
}

/// Four clients hold four server connections at the same time, so that all threads may serve them.
#[test]
fn the_configured_number_of_threads_serves_clients() {
    let builder = Stage::on_shared().set("metrics_listen=127.0.0.1:0");
    let mut stage = builder.set("worker_threads=3").open();
    stage.direct().ok(SETUP);
    let Some(paceline) = stage.paceline() else {
        return;
    };
    let metrics = paceline.metrics();
    let threads = scrape(&metrics).value("paceline_worker_threads", &[]);
    assert_eq!(threads, Some(3.0));
    let mut clients = stage.clients(4);
    for client in &mut clients {
        client.ok("BEGIN");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        client.ok(&format!("UPDATE stock SET qty = 0 WHERE id = {number} + 1"));
    }
    for client in &mut clients {
        client.ok("COMMIT");
    }
    let left = stage.direct().number("SELECT sum(qty) FROM stock");
    assert_eq!(left, 5 * 10);
}

/// The same rule as in docs/operations.md.
#[test]
fn the_number_of_threads_follows_the_cores() {
    let Some((_stage, metrics)) = stage(Stage::on_shared()) else {
        return;
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let expected = if cores < 8 { 1 } else { (cores / 2).min(16) };
    assert_eq!(
        scrape(&metrics).value("paceline_worker_threads", &[]),
        Some(expected as f64)
    );
}

/// Every process that can reach the listener reads the labels.
#[test]
fn no_value_is_in_a_label() {
    let Some((stage, metrics)) = stage(Stage::on_shared()) else {
        return;
    };
    let mut client = stage.client();
    let secret = "SELECT id FROM note WHERE text = 'sesame' OR id = 73551";
    (0..101).for_each(|_| drop(client.ask(&unit(secret, &[]))));
    let scrape = scrape(&metrics);
    named(&scrape, "SELECT id FROM note WHERE text = ? OR id = ?");
    let labels = scrape.labels("template");
    let tells = |label: &&str| label.contains("sesame") || label.contains("73551");
    assert!(!labels.iter().any(tells), "{labels:?}");
}

#[test]
fn other_paths_and_methods_are_refused() {
    let Some((_stage, metrics)) = stage(Stage::on_shared()) else {
        return;
    };
    for path in ["/", "/metrics/", "/metric", "/health/x", "/ready.txt"] {
        assert_eq!(http::get(&metrics, path).status, 404, "{path}");
    }
    assert_eq!(http::get(&metrics, "/metrics?name=all").status, 200);
    for method in ["POST", "DELETE", "OPTIONS"] {
        let answer = http::ask(&metrics, method, "/metrics");
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("GET, HEAD"))
        );
        assert_eq!(http::ask(&metrics, method, "/nothing").status, 404);
    }
    let head = http::ask(&metrics, "HEAD", "/health");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), Some("3"));
}

#[test]
fn health_is_the_process_and_readiness_the_server() {
    let cluster = Cluster::private();
    let Some((stage, metrics)) = stage(Stage::on(cluster.clone())) else {
        return;
    };
    let ready = || http::get(&metrics, "/ready");
    assert_eq!((ready().status, ready().body.as_str()), (200, "ready\n"));
    cluster.kill();
    until("the server is missed", || ready().status == 503);
    let refused = format!("no server answers: 127.0.0.1:{}: ", cluster.port());
    assert!(ready().body.starts_with(&refused), "{:?}", ready());
    let health = http::get(&metrics, "/health");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    assert_eq!(http::get(&metrics, "/metrics").status, 200);
    cluster.restart();
    until("the server is back", || ready().status == 200);
    drop(stage);
}

/// It accepts connections and never sends anything.
#[test]
fn a_server_that_says_nothing_is_not_ready() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = format!("postgres://{}", silent.local_addr().unwrap());
    let paceline = Paceline::start(&upstream)
        .set("metrics_listen=127.0.0.1:0")
        .spawn();
    let answer = http::get(&paceline.metrics(), "/ready");
    assert_eq!(answer.status, 503);
    assert!(answer.body.ends_with(": timed out\n"), "{answer:?}");
}

/// The answer of `/ready` if the server rejects the login with this error.
#[track_caller]
fn said_at_login(sqlstate: &'static str, message: &str) -> http::Answer {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let file = format!("[databases.shop]\nprimary = \"postgres://app@{address}\"");
    let paceline = Paceline::configured(&file)
        .set("metrics_listen=127.0.0.1:0")
        .spawn();
    let refusal = ErrorResponse::fatal(sqlstate, message);
    let speaking = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut request = message::ssl_request();
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request, message::ssl_request());
        stream.write_all(b"N").unwrap();
        let mut packet = [0; 256];
        let len = stream.read(&mut packet).unwrap();
        let mut out = BytesMut::new();
        refusal.write(&mut out);
        stream.write_all(&out).unwrap();
        packet[..len].to_vec()
    });
    let answer = http::get(&paceline.metrics(), "/ready");
    let asked = speaking.join().unwrap();
    let login = b"user\0app\0database\0shop\0";
    assert!(asked.windows(login.len()).any(|part| part == login));
    answer
}

/// As `pg_isready` sees it: it answers, and accepts no client yet.
#[test]
fn a_server_that_starts_up_is_not_ready() {
    let answer = said_at_login("57P03", "the database system is starting up");
    assert_eq!(answer.status, 503);
    let told = answer
        .body
        .ends_with(": the database system is starting up\n");
    assert!(told, "{answer:?}");
}

#[test]
fn a_server_that_refuses_one_takes_others() {
    assert_eq!(said_at_login("28000", "no pg_hba.conf entry").status, 200);
}

#[test]
fn one_server_of_several_is_enough() {
    let Some((stage, _)) = stage(Stage::on_shared()) else {
        return;
    };
    let file = |first: u16, second: u16| {
        format!(
            "[databases.a]\nprimary = \"postgres://127.0.0.1:{first}\"\n\
             [databases.b]\nprimary = \"postgres://127.0.0.1:{second}\""
        )
    };
    let ready = |file: &str| {
        let start = Paceline::configured(file).set("metrics_listen=127.0.0.1:0");
        http::get(&start.spawn().metrics(), "/ready").status
    };
    assert_eq!(ready(&file(1, stage.cluster.port())), 200);
    assert_eq!(ready(&file(1, 2)), 503);
}

#[test]
fn a_process_without_free_client_slots_is_not_ready() {
    let Some((stage, metrics)) = stage(Stage::on_shared().set("max_client_conn=2")) else {
        return;
    };
    let clients = stage.clients(2);
    let full = http::get(&metrics, "/ready");
    assert_eq!(full.status, 503);
    assert!(full.body.contains("max_client_conn"), "{full:?}");
    let scrape = Scrape::read(&http::get(&metrics, "/metrics").body);
    let counts = ["paceline_clients", "paceline_clients_max"];
    assert_eq!(
        counts.map(|name| scrape.value(name, &[])),
        [Some(2.0), Some(2.0)]
    );
    drop(clients);
    until("there is a place again", || {
        http::get(&metrics, "/ready").status == 200
    });
}

/// One connection less than are served at a time: some silent, some in the middle of a request, some that take no answer.
#[test]
fn slow_clients_of_the_metrics_delay_no_other() {
    let Some((mut stage, metrics)) = stage(Stage::on_shared()) else {
        return;
    };
    let beginnings = [
        "",
        "GET /met",
        "GET /metrics HTTP/1.1\r\nHost: x\r\n",
        "GET /metrics HTTP/1.1\r\n\r\n",
    ];
    let mut slow: Vec<_> = (0..31)
        .map(|number| {
            let mut stream = http::open(&metrics);
            stream.write_all(beginnings[number % 4].as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(stage.client().number("SELECT 7"), 7);
    scrape(&metrics);
    assert_eq!(http::get(&metrics, "/health").status, 200);
    // Nor do they delay the shutdown.
    assert_eq!(stage.paceline().unwrap().stop(), Some(0));
    let mut rest = Vec::new();
    // Reset or closed: either is an end.
    let _ = slow[0].read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(std::net::TcpStream::connect(&metrics).is_err());
}

/// Not ready any more, but alive, while transactions end.
#[test]
fn a_shutdown_is_seen() {
    let Some((mut stage, metrics)) = stage(Stage::on_shared().set("shutdown_timeout=1h")) else {
        return;
    };
    let mut client = stage.client();
    client.ok("BEGIN");
    let pid = stage.paceline().unwrap().pid();
    crate::harness::caretaker::signal("TERM", pid);
    until("it is not ready any more", || {
        http::get(&metrics, "/ready").status == 503
    });
    assert_eq!(http::get(&metrics, "/ready").body, "shutting down\n");
    assert_eq!(http::get(&metrics, "/health").status, 200);
    client.ok("COMMIT");
    assert_eq!(stage.paceline().unwrap().stop(), Some(0));
}

#[test]
fn an_address_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args([
        "serve",
        "--upstream",
        "postgres://127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.args(["--set", &format!("metrics_listen={address}")]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = format!(
        "paceline: cannot listen on {address}: stop what listens there, or choose another metrics_listen"
    );
    assert!(told.contains(&expected), "{told}");
    assert!(!told.contains("listening on"), "{told}");
}

/// A scrape has the pools of all users, also those that another user may not see: that is why the address matters.
#[test]
fn all_pools_are_in_one_scrape() {
    let Some((stage, metrics)) = stage(Stage::on_shared()) else {
        return;
    };
    stage.client().ok("SELECT 1");
    let parameters = [("user", "postgres"), ("database", "postgres")];
    RawClient::connect(stage.port(), &parameters).ok("SELECT 2");
    let bogus = [("user", "nobody"), ("database", "postgres")];
    assert!(RawClient::try_connect(stage.port(), &bogus).is_err());
    let scrape = scrape(&metrics);
    let databases: Vec<&str> = scrape.labels("database").into_iter().collect();
    assert_eq!(databases, [stage.database.as_str(), "postgres"]);
    assert!(!scrape.labels("user").contains("nobody"));
    assert_eq!(stage.target(), Target::Paceline);
}
