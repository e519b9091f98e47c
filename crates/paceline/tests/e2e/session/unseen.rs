//! State that functions leave on the server connection although the text does not call them, or not in the usual way.

use crate::harness::Stage;
use crate::harness::message::{bind, close, execute, function_call, parse, query, sync, unit};
use crate::harness::raw::RawClient;

const LOCKED: &str =
    "SELECT count(*)::text FROM pg_locks WHERE objid = 7707 AND pid = pg_backend_pid()";
const LOCK: &str = "SELECT pg_advisory_lock(7707)";

fn stage() -> Stage {
    Stage::on_shared().set("default_pool_size=2").open()
}

/// The neighbour does not hold the lock, and the client does.
#[track_caller]
fn assert_locked_by_client(client: &mut RawClient, neighbour: &mut RawClient, what: &str) {
    assert_eq!(neighbour.value(LOCKED), "0", "{what}");
    assert_eq!(client.value(LOCKED), "1", "{what}");
}

/// PostgreSQL calls a function of one argument by the name of a field, too.
#[test]
fn a_function_that_is_written_as_a_field_is_seen() {
    for sql in [
        "SELECT (7707::bigint).pg_advisory_lock",
        "SELECT g.pg_advisory_lock FROM generate_series(7707::bigint, 7707) AS g",
    ] {
        let stage = stage();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok(sql);
        assert_locked_by_client(&mut client, &mut neighbour, sql);
    }
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("CREATE SEQUENCE numbers");
    // PostgreSQL executes each of them, also when it is known to be a read.
    let numbers: Vec<String> = (0..10)
        .map(|_| client.value("SELECT ('numbers'::regclass).nextval"))
        .collect();
    let expected: Vec<String> = (1..=10).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected);
    assert_eq!(neighbour.simple("SELECT lastval()").sqlstate(), "55000");
    stage
        .direct()
        .ok("CREATE TABLE t (a int); INSERT INTO t VALUES (1); \
        CREATE FUNCTION raises(t) RETURNS text LANGUAGE sql AS \
        $$ SELECT set_config('custom.flag', 'x', false) $$");
    let flag = "SELECT coalesce(current_setting('custom.flag', true), '')";
    for sql in ["SELECT t.raises FROM t", "SELECT (t).raises FROM t"] {
        for _ in 0..4 {
            client.ok(sql);
            assert_eq!(neighbour.value(flag), "", "{sql}");
        }
    }
}

/// PostgreSQL evaluates the values of an EXECUTE that it only explains.
#[test]
fn the_values_of_an_explained_execute_are_seen() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let before = neighbour.value("SHOW work_mem");
    client.ok("PREPARE p (text) AS SELECT $1");
    client.ok("EXPLAIN EXECUTE p(set_config('work_mem', '123MB', false))");
    assert_eq!(neighbour.value("SHOW work_mem"), before);
    assert_eq!(client.value("SHOW work_mem"), "123MB");
    client.ok("PREPARE q (bool) AS SELECT $1");
    client.ok("EXPLAIN EXECUTE q(pg_catalog.pg_try_advisory_lock(7707))");
    assert_locked_by_client(&mut client, &mut neighbour, "EXPLAIN EXECUTE");
}

/// A portal exists as long as PostgreSQL has not replaced or closed it.
#[test]
fn a_portal_that_the_server_keeps_is_seen() {
    let opens = || [parse("", LOCK, &[]), bind("p", "", &[]), sync()].concat();
    let again = [parse("", "SELECT 1", &[]), bind("p", "", &[]), sync()].concat();
    let skipped = [
        parse("", "SELECT 1/0", &[]),
        bind("", "", &[]),
        execute("", 0),
        close(b'P', "p"),
        sync(),
    ];
    let executes = [execute("p", 0), sync()].concat();
    for (fails, runs) in [
        (again.clone(), executes.clone()),
        (again, query("FETCH ALL FROM p")),
        (skipped.concat(), query("FETCH ALL FROM p")),
    ] {
        let stage = stage();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok("BEGIN");
        client.ask(&opens()).expect_ok("the portal");
        client.ok("SAVEPOINT s");
        assert_ne!(client.ask(&fails).sqlstate(), "");
        client.ok("ROLLBACK TO s");
        client.ask(&runs).expect_ok("the lock");
        client.ok("COMMIT");
        assert_locked_by_client(&mut client, &mut neighbour, "the portal");
    }
}

#[test]
fn what_a_function_has_done_by_itself_reaches_no_other_client() {
    const SEED: &str = "SELECT setseed(0.5)";
    const RANDOM: &str = "SELECT random()::text";
    const SETSEED: u32 = 1599;
    const ADVISORY_LOCK: u32 = 2880;
    let stage = stage();
    let mut direct = stage.direct();
    direct.ok(SEED);
    let seeded = direct.value(RANDOM);
    direct.ok("CREATE FUNCTION seeds() RETURNS void LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM setseed(0.5); END $$");
    for sets in [
        query("DO 'BEGIN PERFORM setseed(0.5); END'"),
        query("SELECT seeds()"),
        function_call(SETSEED, &[Some("0.5")]),
    ] {
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ask(&sets).expect_ok("the seed");
        assert_ne!(neighbour.value(RANDOM), seeded);
    }
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let locks = function_call(ADVISORY_LOCK, &[Some("7707")]);
    client.ask(&locks).expect_ok("the lock");
    assert_locked_by_client(&mut client, &mut neighbour, "FunctionCall");
    let mut other = stage.client();
    other
        .ask(&unit("SELECT 1", &[]))
        .expect_ok("another client is served");
}
