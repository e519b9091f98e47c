//! State that functions leave on the server connection although the text does not call them, or not in the usual way.

use crate::harness::message::{bind, close, execute, function_call, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::{Gate, Stage};

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
        (again.clone(), query("FETCH ALL FROM p")),
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
    // The request that fails is not the last one of its packet.
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("BEGIN");
    client.ask(&opens()).expect_ok("the portal");
    client.ok("SAVEPOINT s");
    client.send(&[again, unit("ROLLBACK TO s", &[])].concat());
    assert_ne!(client.reply().sqlstate(), "");
    client.reply().expect_ok("the rollback");
    client.ask(&executes).expect_ok("the lock");
    client.ok("COMMIT");
    assert_locked_by_client(&mut client, &mut neighbour, "the packet");
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

/// Such a function of a column may read what earlier members of a group have changed.
#[test]
fn a_guard_with_a_function_behind_a_column_holds_for_each_member() {
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("default_pool_size=1")
        .open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE stock (id int PRIMARY KEY, qty int); INSERT INTO stock VALUES (1, 3)");
    direct.ok(
        "CREATE FUNCTION total(int) RETURNS int STABLE LANGUAGE sql AS \
        'SELECT qty FROM stock WHERE id = $1'",
    );
    let update = "UPDATE stock SET qty = qty - 1 WHERE id = 1 AND (id).total > 0";
    // It is analyzed, and sells nothing.
    stage.client().ok(&update.replace("id = 1", "id = 2"));
    stage.await_analysis();
    let mut clients = stage.clients(10);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &query(update));
    }
    gate.open();
    let tags = clients.iter_mut().map(|client| client.reply().tag());
    let sold = tags.filter(|tag| tag == "UPDATE 1").count();
    assert_eq!(sold, 3);
    assert_eq!(direct.number("SELECT qty FROM stock"), 0);
}

/// Functions that are declared as reading only may change the session, too, whatever executes them.
#[test]
fn a_stable_function_behind_a_value_is_seen_in_a_pipeline() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    stage.direct().ok(
        "CREATE FUNCTION raises(int) RETURNS text STABLE LANGUAGE sql AS \
        $$ SELECT set_config('work_mem', '123MB', false) $$",
    );
    let read = "SELECT (7).raises";
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let before = neighbour.value("SHOW work_mem");
    for _ in 0..4 {
        client.ok(read);
        assert_eq!(neighbour.value("SHOW work_mem"), before);
    }
    let mut readers = stage.clients(5);
    let mut gate = Gate::close(&stage);
    for reader in &mut readers {
        gate.submit(reader, &query(read));
    }
    gate.submit(&mut neighbour, &query("SHOW work_mem"));
    gate.open();
    for reader in &mut readers {
        reader.reply().expect_ok(read);
    }
    assert_eq!(neighbour.reply().rows(), [[Some(before)]]);
}

const FLAG: &str = "SELECT coalesce(current_setting('custom.flag', true), '')";

/// The alias of a function in FROM may be a value of any type, so the name behind it may be a function.
#[test]
fn a_function_behind_the_alias_of_a_function_is_seen_without_an_analysis() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    stage
        .direct()
        .ok("CREATE FUNCTION become(text) RETURNS text LANGUAGE sql AS \
        $$ SELECT set_config('custom.flag', $1, false) $$");
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for from in [
        "pg_catalog.unnest(ARRAY['acme'])",
        "ROWS FROM (pg_catalog.unnest(ARRAY['acme']))",
        "current_user",
        "CAST('acme' AS text)",
        "COALESCE('a', 'b')",
    ] {
        let read = format!("SELECT u.become FROM {from} AS u");
        let copy = format!("COPY ({read}) TO STDOUT");
        let explain = format!("EXPLAIN ANALYZE {read}");
        let several = format!("{read}; SELECT 1");
        for texts in [
            &["BEGIN", &read, "COMMIT"][..],
            &[&copy],
            &[&explain],
            &[&several],
        ] {
            for sql in texts {
                client.ok(sql);
            }
            assert_eq!(neighbour.value(FLAG), "", "{texts:?}");
        }
    }
}

#[test]
fn a_reset_of_all_settings_ends_no_setting_that_is_made_after_it() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let sets = "SELECT set_config(n, v, false) FROM (VALUES ('work_mem', '64MB')) AS x (n, v)";
    for sql in ["BEGIN", "RESET ALL", sets, "COMMIT"] {
        client.ok(sql);
    }
    // It has a connection of its own, or the one of the client.
    neighbour.ok("BEGIN");
    assert_eq!(client.value("SHOW work_mem"), "64MB");
    neighbour.ok("COMMIT");
    for sql in ["BEGIN", sets, "RESET ALL", "COMMIT"] {
        client.ok(sql);
    }
    let mut others = stage.clients(2);
    others.iter_mut().for_each(|other| drop(other.ok("BEGIN")));
}

/// PostgreSQL knows a portal as a cursor, also in a statement that another one executes by name.
#[test]
fn a_portal_that_a_statement_fetches_by_name_is_seen() {
    for runs in [
        query("EXECUTE f"),
        unit("EXECUTE f", &[]),
        query("EXECUTE f; SELECT 1"),
        [bind("", "f", &[]), execute("", 0), sync()].concat(),
    ] {
        let stage = stage();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok("BEGIN");
        let opens = [
            parse("lk", LOCK, &[]),
            bind("p", "lk", &[]),
            parse("f", "FETCH ALL FROM p", &[]),
            sync(),
        ];
        client.ask(&opens.concat()).expect_ok("the portal");
        client.ask(&runs).expect_ok("the lock");
        client.ok("COMMIT");
        let shown = String::from_utf8_lossy(&runs).into_owned();
        assert_locked_by_client(&mut client, &mut neighbour, &shown);
    }
}

/// PostgreSQL replaces the unnamed portal only if it accepts the Bind.
#[test]
fn an_unnamed_portal_that_the_server_keeps_is_seen() {
    let prepares = [
        parse("lk", LOCK, &[]),
        parse("sp", "SAVEPOINT s", &[]),
        parse("rb", "ROLLBACK TO s", &[]),
        parse("s2", "SELECT 2", &[]),
        parse("v", "SELECT $1::int", &[]),
        bind("", "lk", &[]),
        bind("a", "sp", &[]),
        execute("a", 0),
        sync(),
    ];
    let skipped = [parse("", "SELEC", &[]), bind("", "s2", &[]), sync()].concat();
    // The server rejects the value before, or after, it has replaced the portal.
    let rejected = [bind("", "v", &[Some("x")]), sync()].concat();
    let few = [bind("", "v", &[]), sync()].concat();
    let back = [bind("b", "rb", &[]), execute("b", 0), sync()].concat();
    let again = [execute("", 0), sync()].concat();
    for fails in [skipped, rejected, few] {
        let stage = stage();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        let mut direct = stage.direct();
        let mut found = Vec::new();
        for one in [&mut direct, &mut client] {
            one.ok("BEGIN");
            one.ask(&prepares.concat()).expect_ok("the portal");
            assert_ne!(one.ask(&fails).sqlstate(), "");
            one.ask(&back).expect_ok("the rollback");
            let state = one.ask(&again).sqlstate();
            one.simple("COMMIT");
            assert_eq!(neighbour.value(LOCKED), "0", "{state}");
            found.push((state, one.value(LOCKED)));
            one.ok("SELECT pg_advisory_unlock_all()");
        }
        assert_eq!(found[0], found[1], "as PostgreSQL alone");
    }
}

/// Such a value ends with its transaction, whichever way it is set.
#[test]
fn a_setting_of_a_transaction_is_none_of_the_session() {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("track_extra_parameters=transaction_read_only,transaction_isolation")
        .open();
    let mut neighbour = stage.client();
    // No statement can make a transaction read-write that began under this setting and has executed another.
    neighbour.ok("SET default_transaction_read_only = on");
    for sets in [
        "SELECT set_config('transaction_read_only', 'on', false), now()",
        "SELECT set_config('transaction_read_only', 'on', false) FROM (VALUES (1)) AS v",
        "SELECT set_config('Transaction_Read_Only', v, true), now() FROM (VALUES ('on')) AS x (v)",
        "EXECUTE sets('on')",
        "DO 'BEGIN PERFORM set_config(''transaction_read_only'', ''on'', false); END'",
        "SET transaction_read_only FROM CURRENT",
    ] {
        let mut client = stage.client();
        client.ok("PREPARE sets (text) AS SELECT set_config('transaction_read_only', $1, false)");
        client.ok(sets);
        for _ in 0..2 {
            neighbour.ok("SELECT 1");
            client.ok("SELECT 1");
            assert_eq!(client.value("SHOW transaction_read_only"), "off", "{sets}");
        }
    }
}

/// PostgreSQL calls functions that are declared IMMUTABLE when it plans a statement.
#[test]
fn a_function_that_is_called_by_planning_is_seen() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    stage.direct().ok(
        "CREATE FUNCTION raises(int) RETURNS text IMMUTABLE LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM set_config('custom.flag', 'x', false); RETURN 'a'; END $$",
    );
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("PREPARE p (int) AS SELECT raises($1)");
    client
        .ask(&[parse("s", "SELECT raises(1)", &[]), sync()].concat())
        .expect_ok("a named statement");
    for plans in [
        vec![query("EXPLAIN EXECUTE p(1)")],
        vec![
            query("CREATE TABLE t AS EXECUTE p(1) WITH NO DATA"),
            query("DROP TABLE t"),
        ],
        vec![
            [
                parse("", "SELECT raises(1)", &[]),
                bind("", "", &[]),
                sync(),
            ]
            .concat(),
        ],
        vec![[bind("", "s", &[]), sync()].concat()],
        vec![
            query("BEGIN"),
            [bind("c", "s", &[]), sync()].concat(),
            query("COMMIT"),
        ],
    ] {
        let shown = String::from_utf8_lossy(&plans.concat()).into_owned();
        for request in plans {
            client.ask(&request).expect_ok(&shown);
        }
        assert_eq!(neighbour.value(FLAG), "", "{shown}");
    }
}
