//! Traces: the spans of requests and groups, as a collector receives them.

mod servers;

use crate::harness::collector::{Behaviour, Collector, ReceivedSpan};
use crate::harness::message::{
    bind, copy_data, copy_done, copy_fail, execute, parse, query, sync, unit,
};
use crate::harness::open_metrics::Scrape;
use crate::harness::raw::RawClient;
use crate::harness::stage::{StageBuilder, Target};
use crate::harness::{Gate, Stage, http, until};
use std::time::{SystemTime, UNIX_EPOCH};

const SETUP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL CHECK (qty >= 0));
    INSERT INTO stock SELECT i, 10 FROM generate_series(1, 9) i;";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// The comment of a client whose span has this number; with flags.
fn comment(number: usize, flags: &str) -> String {
    format!("/*action='%2Fsell',traceparent='00-{TRACE}-{number:016x}-{flags}'*/")
}

fn is_traced(span: &ReceivedSpan) -> bool {
    span.field("traceId") == TRACE
}

/// Paceline and its collector. `None` when PostgreSQL is the target.
fn stage(
    behaviour: Behaviour,
    more: impl FnOnce(StageBuilder) -> StageBuilder,
) -> Option<(Stage, Collector)> {
    if Target::chosen() == Target::Bare {
        return None;
    }
    let collector = Collector::start(behaviour);
    let builder = Stage::on_shared()
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=on")
        .set("metrics_listen=127.0.0.1:0")
        .set(&collector.setting());
    let stage = more(builder).open();
    stage.direct().ok(SETUP);
    Some((stage, collector))
}

/// The counts of sent and of dropped spans.
#[track_caller]
fn counts(stage: &mut Stage) -> [f64; 2] {
    let metrics = stage.paceline().unwrap().metrics();
    let scrape = Scrape::read(&http::get(&metrics, "/metrics").body);
    ["sent", "dropped"].map(|name| {
        let name = format!("paceline_spans_{name}_total");
        scrape.value(&name, &[]).unwrap()
    })
}

#[test]
fn a_request_is_a_child_of_the_span_of_its_client() {
    let Some((mut stage, collector)) = stage(Behaviour::Accepts, |builder| builder) else {
        return;
    };
    let traced = format!("/*traceparent='00-{TRACE}-{PARENT}-01'*/");
    let mut client = stage.client();
    client.ok(&format!("SELECT qty + 41 FROM stock WHERE id = 7 {traced}"));
    let by_parse = format!("SELECT qty FROM stock WHERE id = $1 {traced}");
    client
        .ask(&unit(&by_parse, &[Some("8")]))
        .expect_ok("by Parse");
    let failing = format!("UPDATE stock SET qty = -5 WHERE id = 3; {traced}");
    assert_eq!(client.ask(&query(&failing)).sqlstate(), "23514");
    // These are not sampled.
    client.ok(&format!("SELECT 1 {}", comment(1, "00")));
    client.ok("SELECT 2");
    let last = format!("SELECT qty FROM stock WHERE id = 9 {traced}");
    client.ok(&last);
    let spans = collector.await_spans(4, |_| true);
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let port = stage.cluster.port().to_string();
    for span in &spans {
        assert!(is_traced(span), "{span:?}");
        assert_eq!(span.field("parentSpanId"), PARENT);
        assert_eq!(span.attribute("db.system.name"), "postgresql");
        assert_eq!(span.attribute("db.namespace"), stage.database);
        assert_eq!(span.attribute("server.address"), "127.0.0.1");
        assert_eq!(span.attribute("paceline.strategy"), "solo");
        if std::env::var_os("PACELINE_E2E_LINK").is_none() {
            assert_eq!(span.attribute("server.port"), port);
        }
        let [began, ended] = span.times();
        assert!(began < ended && span.links().is_empty());
        // The template is analyzed on the only connection, so the next request may wait.
        let wait: f64 = span.attribute("paceline.wait_seconds").parse().unwrap();
        assert!(
            (0.0..(ended - began) as f64 / 1e9).contains(&wait),
            "{span:?}"
        );
    }
    let texts = spans.iter().map(|span| span.attribute("db.query.text"));
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            "SELECT qty + $1 FROM stock WHERE id = $2",
            "SELECT qty FROM stock WHERE id = $1",
            "UPDATE stock SET qty = -$1 WHERE id = $2;",
            "SELECT qty FROM stock WHERE id = $1",
        ]
    );
    let failed = spans
        .iter()
        .filter(|span| span.failed())
        .collect::<Vec<_>>();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].field("name"), "UPDATE");
    assert_eq!(failed[0].attribute("db.response.status_code"), "23514");
    until("they are counted", || counts(&mut stage) == [4.0, 0.0]);
}

#[test]
fn members_are_linked_to_the_span_of_their_group() {
    let Some((stage, collector)) = stage(Behaviour::Accepts, |builder| builder) else {
        return;
    };
    let sell = |number: usize| {
        let id = 1 + number % 2;
        format!("UPDATE stock SET qty = qty - 1 WHERE id = {id}")
    };
    stage.client().ok(&sell(0));
    stage.await_analysis();
    // Each with a comment of its own; two are not sampled.
    let units: Vec<_> = (0..6)
        .map(|number| {
            let flags = if number < 4 { "01" } else { "00" };
            query(&format!("{} {}", sell(number), comment(number + 1, flags)))
        })
        .collect();
    let mut clients = stage.clients(units.len());
    let mut gate = Gate::close(&stage);
    for (client, unit) in clients.iter_mut().zip(&units) {
        gate.submit(client, unit);
    }
    gate.open();
    for client in &mut clients {
        client.reply().expect_ok("a member");
    }
    stage.assert_grouped(6, 6);
    let members = collector.await_spans(4, is_traced);
    assert_eq!(members.len(), 4);
    let groups = collector.await_spans(1, |span| !is_traced(span));
    let [group] = groups.as_slice() else {
        panic!("{groups:#?}");
    };
    assert_eq!(group.field("parentSpanId"), "");
    let mut linked = group.links();
    linked.sort();
    let mut ids: Vec<_> = members.iter().map(ReceivedSpan::ids).collect();
    ids.sort();
    assert_eq!(linked, ids);
    let text = "UPDATE stock SET qty = qty - $1 WHERE id = $2";
    for span in members.iter().chain([group]) {
        assert_eq!(span.attribute("paceline.strategy"), "fold");
        assert_eq!(span.attribute("paceline.group.size"), "6");
        assert_eq!(span.attribute("paceline.group.id"), group.field("spanId"));
        assert_eq!(span.attribute("db.query.text"), text);
        assert_eq!(span.attribute("db.namespace"), stage.database);
        assert!(!span.failed());
    }
    let [group_began, group_ended] = group.times();
    assert!(group_began < group_ended);
    for member in &members {
        assert_eq!(member.links(), [group.ids()]);
        let wait: f64 = member.attribute("paceline.wait_seconds").parse().unwrap();
        assert!(wait > 0.0);
        assert!(member.times()[0] < group_began);
    }
}

/// Each request of a transaction has a span; so has each of a pipeline, with its own error.
#[test]
fn requests_of_a_transaction_have_spans_of_their_own() {
    let Some((stage, collector)) = stage(Behaviour::Accepts, |builder| builder) else {
        return;
    };
    let mut client = stage.client();
    client.ok(&format!("BEGIN {}", comment(1, "01")));
    let update = "UPDATE stock SET qty = 5 WHERE id = 1";
    client.ok(&format!("{update} {}", comment(2, "01")));
    client.ok("SELECT 1");
    let read = format!("SELECT qty FROM stock WHERE id = $1 {}", comment(3, "01"));
    client.send(&parse("named", &read, &[]));
    client.send(&[bind("", "named", &[Some("1")]), execute("", 0), sync()].concat());
    client.reply().expect_ok("a named statement");
    client.ok(&format!("COMMIT {}", comment(4, "01")));
    // One packet; a Sync within COPY is not answered.
    let failing = format!("SELECT 1 / (qty - qty) FROM stock {}", comment(6, "01"));
    let pipeline = [
        query(&format!("BEGIN {}", comment(5, "01"))),
        query(&failing),
        query(&format!("ROLLBACK {}", comment(7, "01"))),
    ];
    client.send(&pipeline.concat());
    let states = [(); 3].map(|()| client.reply().sqlstate());
    assert_eq!(states, ["", "22012", ""]);
    client.send(&query(&format!("BEGIN {}", comment(8, "01"))));
    client.reply().expect_ok("BEGIN");
    client.send(
        &[
            parse("", "COPY stock FROM STDIN", &[]),
            bind("", "", &[]),
            execute("", 0),
        ]
        .concat(),
    );
    client.send(&[sync(), copy_data(b"10\t1\n"), copy_done(), sync()].concat());
    client.reply().expect_ok("COPY");
    client.ok(&format!("COMMIT {}", comment(9, "01")));
    let mut spans = collector.await_spans(9, |_| true);
    assert_eq!(spans.len(), 9, "{spans:#?}");
    spans.sort_by_key(|span| span.field("parentSpanId").to_owned());
    let names: Vec<_> = spans.iter().map(|span| span.field("name")).collect();
    let expected = [
        "BEGIN", "UPDATE", "SELECT", "COMMIT", "BEGIN", "SELECT", "ROLLBACK", "BEGIN", "COMMIT",
    ];
    assert_eq!(names, expected);
    let states: Vec<_> = spans
        .iter()
        .map(|span| span.attribute("db.response.status_code"))
        .collect();
    assert_eq!(states, ["", "", "", "", "", "22012", "", "", ""]);
    for (number, span) in (1..).zip(&spans) {
        assert_eq!(span.field("parentSpanId"), format!("{number:016x}"));
        assert_eq!(span.attribute("paceline.strategy"), "lease");
        assert_eq!(span.attribute("db.namespace"), stage.database);
    }
    let [[_, first_ended], [second_began, _]] = [spans[0].times(), spans[1].times()];
    assert!(first_ended <= second_began, "it ends with its own answer");
}

/// The span of a COPY ends with the answer to the client's last row.
#[test]
fn a_copy_has_a_span() {
    let Some((stage, collector)) = stage(Behaviour::Accepts, |builder| builder) else {
        return;
    };
    let begin = |client: &mut RawClient, number: usize| {
        let load = "COPY stock FROM STDIN";
        client.send(&query(&format!("{load} {}", comment(number, "01"))));
        assert_eq!(client.receive().tag, b'G');
        client.send(&copy_data(format!("{}\t1\n", 10 + number).as_bytes()));
    };
    let mut client = stage.client();
    begin(&mut client, 1);
    let done = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    client.send(&copy_done());
    assert_eq!(client.reply().expect_ok("COPY").tag(), "COPY 1");
    let mut spans = collector.await_spans(1, |_| true);
    let [_, ended] = spans[0].times();
    assert!(ended >= done.as_nanos(), "it ended before the last row");
    begin(&mut client, 2);
    client.send(&copy_fail("no more"));
    client.reply().expect_error("57014");
    begin(&mut client, 3);
    client.send(&[copy_data(b"no number\n"), copy_done()].concat());
    client.reply().expect_error("22P02");
    let unload = format!("COPY stock TO STDOUT {}", comment(4, "01"));
    client.ok(&unload);
    client.ok(&format!("SELECT 1 {}", comment(5, "01")));
    spans = collector.await_spans(5, |_| true);
    spans.sort_by_key(|span| span.field("parentSpanId").to_owned());
    let shown: Vec<_> = spans
        .iter()
        .map(|span| {
            let names = ["paceline.strategy", "db.response.status_code"];
            let [strategy, state] = names.map(|name| span.attribute(name));
            (span.field("name"), strategy, state)
        })
        .collect();
    let expected = [
        ("COPY", "lease", ""),
        ("COPY", "lease", "57014"),
        ("COPY", "lease", "22P02"),
        ("COPY", "lease", ""),
        ("SELECT", "solo", ""),
    ]
    .map(|(name, strategy, state)| (name, strategy.to_owned(), state.to_owned()));
    assert_eq!(shown, expected);
}

/// The contexts of long texts are not read, but their requests count: the next span gets its own error.
#[test]
fn a_long_request_of_a_transaction_has_its_number() {
    let Some((stage, collector)) = stage(Behaviour::Accepts, |builder| builder) else {
        return;
    };
    let mut client = stage.client();
    client.ok(&format!("BEGIN {}", comment(1, "01")));
    let long = "x".repeat(300_000);
    let mut pipeline = query(&format!("SELECT length('{long}') {}", comment(2, "01")));
    pipeline.extend(query(&format!("SELECT 1 / 0 {}", comment(3, "01"))));
    client.send(&pipeline);
    assert_eq!(client.reply().value(), "300000");
    client.reply().expect_error("22012");
    client.ok(&format!("ROLLBACK {}", comment(4, "01")));
    let mut spans = collector.await_spans(3, |_| true);
    spans.sort_by_key(|span| span.field("parentSpanId").to_owned());
    let names: Vec<_> = spans.iter().map(|span| span.field("name")).collect();
    assert_eq!(names, ["BEGIN", "SELECT", "ROLLBACK"]);
    let state = |span: &ReceivedSpan| span.attribute("db.response.status_code");
    let states: Vec<_> = spans.iter().map(state).collect();
    assert_eq!(states, ["", "22012", ""]);
}

/// Nothing but the clients' own requests is sampled by the ratio.
#[test]
fn without_a_context_the_ratio_decides() {
    let Some((stage, collector)) = stage(Behaviour::Accepts, |builder| {
        builder.set("otlp_sample_ratio=1")
    }) else {
        return;
    };
    let mut client = stage.client();
    for _ in 0..3 {
        client.ok("SELECT 'secret'");
    }
    client.ok(&format!("SELECT 'other' {}", comment(1, "00")));
    client.ok("SELECT 'last' AS last");
    let spans = collector.await_spans(4, |span| span.field("name") == "SELECT");
    assert_eq!(spans.len(), 4);
    let mut traces: Vec<_> = spans.iter().map(|span| span.field("traceId")).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 4, "each has a trace of its own");
    for span in &spans {
        assert_eq!(span.field("parentSpanId"), "");
        assert!(span.attribute("db.query.text").starts_with("SELECT $1"));
    }
}

/// Sends requests that are traced, and returns when all their spans are dropped.
#[track_caller]
fn await_dropped(stage: &mut Stage) {
    let mut client = stage.client();
    for number in 1..=3 {
        client.ok(&format!("SELECT 1 {}", comment(number, "01")));
    }
    until("the spans are dropped", || counts(stage) == [0.0, 3.0]);
}

#[test]
fn a_collector_that_is_away_drops_spans() {
    // Nothing listens on port 1.
    let Some((mut stage, _)) = stage(Behaviour::Accepts, |builder| {
        builder.set("otlp_endpoint=http://127.0.0.1:1/v1/traces")
    }) else {
        return;
    };
    await_dropped(&mut stage);
}

#[test]
fn a_collector_that_rejects_spans_drops_them() {
    let Some((mut stage, collector)) = stage(Behaviour::Rejects(503), |builder| builder) else {
        return;
    };
    await_dropped(&mut stage);
    assert!(collector.connections() > 0);
}

/// While a request to it has no answer, the clients are answered all the same. Then its spans are dropped.
#[test]
fn a_collector_that_never_answers_delays_no_request() {
    const REQUESTS: usize = 1_000;
    let Some((mut stage, collector)) = stage(Behaviour::Silent, |builder| builder) else {
        return;
    };
    let mut client = stage.client();
    let request = query(&format!("SELECT 1 {}", comment(1, "01")));
    client.ask(&request).expect_ok("the first");
    until("the collector was asked", || collector.connections() > 0);
    let requests = request.repeat(100);
    for _ in 0..REQUESTS / 100 {
        client.send(&requests);
        (0..100).for_each(|_| drop(client.reply().expect_ok("a request")));
    }
    until("spans are dropped", || {
        let [sent, dropped] = counts(&mut stage);
        assert_eq!(sent, 0.0);
        dropped > 0.0
    });
    client.ask(&request).expect_ok("the last");
}

#[test]
fn without_an_endpoint_nothing_is_sent() {
    let Some((mut stage, collector)) = stage(Behaviour::Accepts, |builder| {
        builder.set("otlp_endpoint=").set("otlp_sample_ratio=1")
    }) else {
        return;
    };
    let mut client = stage.client();
    for number in 1..=100 {
        client.ok(&format!("SELECT 1 {}", comment(number, "01")));
    }
    assert_eq!(counts(&mut stage), [0.0, 0.0]);
    assert_eq!(collector.connections(), 0);
}

/// Statements that differ only in the comment are one template, and PostgreSQL receives the comment of a statement alone.
#[test]
fn the_context_is_in_no_template() {
    let Some((stage, _)) = stage(Behaviour::Accepts, |builder| builder.set("otlp_endpoint="))
    else {
        return;
    };
    let mut client = stage.client();
    let seen = "SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    for number in 1..=5 {
        let sql = format!("{seen} {}", comment(number, "01"));
        assert_eq!(client.ok(&sql).value(), sql);
        assert_eq!(client.ask(&unit(&sql, &[])).value(), sql);
        client.ok("BEGIN");
        assert_eq!(client.ask(&unit(&sql, &[])).value(), sql);
        client.ok("COMMIT");
    }
    let rows = client.ok("SHOW GROUPS").rows();
    let templates: Vec<_> = rows.iter().filter_map(|row| row[0].clone()).collect();
    let of_reads = templates.iter().filter(|text| text.starts_with(seen));
    assert_eq!(of_reads.collect::<Vec<_>>(), [seen], "{templates:#?}");
}
