//! Statements that are parsed or executed while other settings than those of the session are in force.

use crate::harness::Stage;
use crate::harness::message::{self, bind, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;

/// True if the text is parsed in UTC.
const IN_UTC: &str = "SELECT '2026-01-01 00:00'::timestamptz = '2026-01-01 00:00+00'";
/// True if the text is parsed in Tokyo.
const IN_TOKYO: &str = "SELECT '2026-01-01 00:00'::timestamptz = '2026-01-01 00:00+09'";

fn stage() -> Stage {
    Stage::on_shared().set("default_pool_size=1").open()
}

fn client_in(stage: &Stage, zone: &str) -> RawClient {
    let mut client = stage.client();
    client.ok(&format!("SET TimeZone = '{zone}'"));
    client
}

fn prepare(name: &str, sql: &str) -> Vec<u8> {
    [parse(name, sql, &[]), sync()].concat()
}

fn run(name: &str) -> Vec<u8> {
    [bind("", name, &[]), execute("", 0), sync()].concat()
}

/// Requests that set the time zone for their transaction, or for the session until the client is reset.
fn moves_to_tokyo() -> Vec<Vec<u8>> {
    let texts = [
        "SET LOCAL TimeZone = 'Asia/Tokyo'",
        "SET LOCAL TIME ZONE 'Asia/Tokyo'",
        "SELECT set_config('TimeZone', 'Asia/Tokyo', true)",
        "SELECT set_config('timezone', 'Asia/Tokyo', true), now()",
        "SELECT set_config('TimeZone', z, true) FROM (VALUES ('Asia/Tokyo')) AS v (z)",
        "SELECT set_config(n, 'Asia/Tokyo', true) FROM (VALUES ('TimeZone')) AS v (n)",
        "SELECT moves()",
        "DO 'BEGIN PERFORM moves(); END'",
        "EXECUTE moves_by_name('Asia/Tokyo', true)",
        "SELECT 1; SET LOCAL TimeZone = 'Asia/Tokyo'",
    ];
    let bound = [
        unit(
            "SELECT set_config($1, $2, true)",
            &[Some("TimeZone"), Some("Asia/Tokyo")],
        ),
        unit(
            "SELECT set_config($1, $2, true) FROM (VALUES (1)) AS v",
            &[Some("TimeZone"), Some("Asia/Tokyo")],
        ),
    ];
    texts.map(query).into_iter().chain(bound).collect()
}

fn with_function(stage: &Stage) {
    stage
        .direct()
        .ok("CREATE FUNCTION moves() RETURNS text LANGUAGE sql AS \
        $$ SELECT set_config('TimeZone', 'Asia/Tokyo', true) $$");
}

/// The client sends these requests, each after the answer to the one before it, or all at once.
fn send(client: &mut RawClient, requests: &[Vec<u8>], at_once: bool) {
    let shown = String::from_utf8_lossy(&requests.concat()).into_owned();
    let packets: Vec<&[Vec<u8>]> = match at_once {
        true => vec![requests],
        false => requests.chunks(1).collect(),
    };
    for packet in packets {
        client.send(&packet.concat());
        for _ in packet {
            client.reply().expect_ok(&shown);
        }
    }
}

#[test]
fn a_statement_that_is_parsed_under_local_settings_serves_no_other_client() {
    for moves in moves_to_tokyo() {
        for at_once in [false, true] {
            let stage = stage();
            with_function(&stage);
            let mut client = client_in(&stage, "UTC");
            let mut neighbour = client_in(&stage, "UTC");
            client.ask(&prepare(
                "moves_by_name",
                "SELECT set_config('TimeZone', $1, $2)",
            ));
            neighbour
                .ask(&prepare("s", IN_UTC))
                .expect_ok("the neighbour's");
            let requests = [
                query("BEGIN"),
                moves.clone(),
                prepare("x", IN_UTC),
                run("x"),
                query("COMMIT"),
            ];
            send(&mut client, &requests, at_once);
            let shown = String::from_utf8_lossy(&moves).into_owned();
            assert_eq!(neighbour.ask(&run("s")).value(), "t", "{shown}");
            // As in PostgreSQL, on the connection that has parsed it.
            if !at_once {
                assert_eq!(client.value("SHOW TimeZone"), "UTC", "{shown}");
            }
        }
    }
}

/// The server connection does not have the statement, so Paceline prepares it there.
#[test]
fn a_statement_that_is_prepared_again_under_local_settings_serves_no_other_client() {
    for moves in moves_to_tokyo() {
        let stage = Stage::on_shared()
            .set("default_pool_size=1")
            .set("max_prepared_statements=1")
            .open();
        with_function(&stage);
        let mut client = client_in(&stage, "UTC");
        let mut neighbour = client_in(&stage, "UTC");
        client.ask(&prepare(
            "moves_by_name",
            "SELECT set_config('TimeZone', $1, $2)",
        ));
        neighbour
            .ask(&prepare("s", IN_UTC))
            .expect_ok("the neighbour's");
        client.ask(&prepare("x", IN_UTC)).expect_ok("the client's");
        neighbour
            .ask(&prepare("o", "SELECT 1"))
            .expect_ok("another");
        for request in [query("BEGIN"), moves.clone(), run("x"), query("COMMIT")] {
            client.ask(&request).expect_ok("the client's transaction");
        }
        let shown = String::from_utf8_lossy(&moves).into_owned();
        assert_eq!(neighbour.ask(&run("s")).value(), "t", "{shown}");
        assert_eq!(client.ask(&run("x")).value(), "t", "{shown}");
    }
}

/// PostgreSQL infers the types of parameters when it parses a statement, and keeps them.
#[test]
fn the_types_of_parameters_are_those_of_the_sessions_search_path() {
    const SQL: &str = "SELECT (a = $1)::text FROM t";
    for moves in [
        "SET LOCAL search_path = texts",
        "SELECT set_config('search_path', 'texts', true)",
    ] {
        let stage = stage();
        stage.direct().ok(
            "CREATE SCHEMA numbers; CREATE TABLE numbers.t AS SELECT 1 AS a; \
            CREATE SCHEMA texts; CREATE TABLE texts.t AS SELECT '1'::text AS a",
        );
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        for one in [&mut client, &mut neighbour] {
            one.ok("SET search_path = numbers");
        }
        neighbour
            .ask(&prepare("s", SQL))
            .expect_ok("the neighbour's");
        for request in [
            query("BEGIN"),
            query(moves),
            prepare("x", SQL),
            query("COMMIT"),
        ] {
            client.ask(&request).expect_ok("the client's transaction");
        }
        let one = [bind("", "s", &[Some("01")]), execute("", 0), sync()].concat();
        assert_eq!(neighbour.ask(&one).value(), "true", "{moves}");
    }
}

/// As in PostgreSQL alone, where the connection of a client is its own.
#[test]
fn a_constant_keeps_the_meaning_of_its_parsing() {
    for paceline in [false, true] {
        let stage = stage();
        let mut clients = match paceline {
            true => stage.clients(2),
            false => vec![stage.direct()],
        };
        for client in &mut clients {
            client.ok("SET TimeZone = 'UTC'");
            client.ask(&prepare("s", IN_UTC)).expect_ok("before");
        }
        // The last one to parse the text is another client.
        let client = &mut clients[0];
        client.ok("BEGIN");
        client.ok("SET LOCAL TimeZone = 'Asia/Tokyo'");
        assert_eq!(client.ask(&run("s")).value(), "t", "{paceline}");
        client.ask(&prepare("x", IN_TOKYO)).expect_ok("within");
        assert_eq!(client.ask(&run("x")).value(), "t", "{paceline}");
        assert_eq!(client.ask(&run("x")).value(), "t", "{paceline}");
        client.ok("COMMIT");
        assert_eq!(client.ask(&run("s")).value(), "t", "{paceline}");
        assert_eq!(client.ask(&run("x")).value(), "t", "{paceline}");
    }
}

/// PostgreSQL analyzes a statement again when its tables have changed.
#[test]
fn a_statement_that_is_analyzed_again_under_local_settings_serves_no_other_client() {
    const SQL: &str =
        "SELECT ('2026-01-01 00:00'::timestamptz = '2026-01-01 00:00+00')::text FROM t";
    for moves in ["SET LOCAL TimeZone = 'Asia/Tokyo'", "SELECT moves()"] {
        let stage = stage();
        with_function(&stage);
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE t AS SELECT 1 AS a");
        let mut client = client_in(&stage, "UTC");
        let mut neighbour = client_in(&stage, "UTC");
        client.ask(&prepare("x", SQL)).expect_ok("the client's");
        neighbour
            .ask(&prepare("s", SQL))
            .expect_ok("the neighbour's");
        assert_eq!(neighbour.ask(&run("s")).value(), "true");
        client.ok("BEGIN");
        client.ok(moves);
        direct.ok("ALTER TABLE t ADD COLUMN b int");
        client.ask(&run("x")).expect_ok("analyzed again");
        client.ok("COMMIT");
        assert_eq!(neighbour.ask(&run("s")).value(), "true", "{moves}");
    }
}

/// What follows a rollback is parsed under the settings of before, also if it is sent with it.
#[test]
fn a_statement_that_is_sent_with_a_rollback_is_parsed_under_the_settings_of_before() {
    const SQL: &str = "SELECT ((1 = NULL) IS NULL)::text";
    const SET: &str = "SET transform_null_equals = on";
    for (begins, ends) in [
        (&["BEGIN"][..], "ROLLBACK"),
        (&["BEGIN", "SAVEPOINT a"], "ROLLBACK TO a"),
        (&["BEGIN"], "ROLLBACK AND CHAIN"),
    ] {
        let stage = stage();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        neighbour.ok(SET);
        neighbour.ask(&prepare("s", SQL)).expect_ok("prepared");
        assert_eq!(neighbour.ask(&run("s")).value(), "false");
        for sql in begins {
            client.ok(sql);
        }
        client.ok(SET);
        let ends_and_parses = [message::run(ends, &[]), prepare("x", SQL)].concat();
        client.ask(&ends_and_parses).expect_ok(ends);
        client.simple("ROLLBACK");
        assert_eq!(neighbour.ask(&run("s")).value(), "false", "{ends}");
    }
}
