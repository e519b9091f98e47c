//! State that a client leaves on its server connection although its text does not show it, and that the next client must not find.

use crate::harness::Stage;
use crate::harness::message::{bind, execute, function_call, parse, query, sync, unit};

/// A setting that a statement has changed although its text does not show it.
const FLAG: &str = "SELECT coalesce(current_setting('custom.flag', true), '')";

fn stage() -> Stage {
    Stage::on_shared().set("default_pool_size=1").open()
}

/// The client that is pinned leaves a connection to the other one.
fn stage_of_two() -> Stage {
    Stage::on_shared().set("default_pool_size=2").open()
}

#[test]
fn what_a_function_or_do_has_prepared_reaches_no_other_client() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok(
        "CREATE FUNCTION prepares() RETURNS int LANGUAGE plpgsql AS \
        $$ BEGIN EXECUTE 'PREPARE p AS SELECT 1'; RETURN 1; END $$",
    );
    client.ok("SELECT prepares()");
    assert_eq!(neighbour.simple("EXECUTE p").sqlstate(), "26000");
    // The client keeps its server as long as the statement exists.
    client.ok("DO $$ BEGIN EXECUTE 'PREPARE q AS SELECT 2'; END $$");
    assert_eq!(client.value("EXECUTE q"), "2");
    client.ok("DEALLOCATE q");
    assert_eq!(neighbour.simple("EXECUTE q").sqlstate(), "26000");
}

/// The texts differ only in that one has parameters where the other has constants.
#[test]
fn a_setting_follows_its_client_although_another_one_has_prepared_the_text_with_parameters() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let before = neighbour.value("SHOW work_mem");
    let prepares = [
        parse("s", "SELECT set_config($1, $2, false)", &[0, 0]),
        // PostgreSQL rejects this one.
        parse("t", "SET work_mem = $1", &[0]),
    ];
    for prepare in prepares {
        neighbour.ask(&[prepare, sync()].concat());
    }
    for (sql, value) in [
        ("SELECT set_config('work_mem', '5MB', false)", "5MB"),
        ("SET work_mem = '6MB'", "6MB"),
    ] {
        client.ok(sql);
        assert_eq!(neighbour.value("SHOW work_mem"), before, "{sql}");
        assert_eq!(client.value("SHOW work_mem"), value);
    }
}

/// PostgreSQL accepts no parameter in place of these literals. Texts that differ in them do different things.
#[test]
fn what_a_text_does_is_not_decided_by_another_with_other_literals() {
    let stage = stage_of_two();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let before = client.value("SHOW work_mem");
    for (first, sql) in [
        (
            "EXPLAIN (ANALYZE 0) SELECT set_config('work_mem', '5MB', false)",
            "EXPLAIN (ANALYZE 1) SELECT set_config('work_mem', '5MB', false)",
        ),
        (
            "SELECT set_config('work_mem', '5MB', 't'), 'x'::varchar(5)",
            "SELECT set_config('work_mem', '5MB', 'f'), 'x'::varchar(5)",
        ),
        (
            "SELECT set_config('transaction_read_only', 'off', false), 'x'::varchar(6)",
            "SELECT set_config('work_mem', '5MB', false), 'x'::varchar(6)",
        ),
    ] {
        neighbour.ok(first);
        client.ok(sql);
        assert_eq!(neighbour.value("SHOW work_mem"), before, "{sql}");
        assert_eq!(client.value("SHOW work_mem"), "5MB", "{sql}");
        client.ok("RESET work_mem");
    }
    neighbour.ok("EXPLAIN (ANALYZE 0) SELECT pg_advisory_lock(1)");
    client.ok("EXPLAIN (ANALYZE 1) SELECT pg_advisory_lock(1)");
    assert_eq!(neighbour.value("SELECT pg_try_advisory_lock(1)"), "f");
    assert_eq!(client.value("SELECT pg_advisory_unlock(1)"), "t");
}

#[test]
fn a_temporary_path_of_a_transaction_in_any_form_reaches_no_other_client() {
    let texts = [
        "SET LOCAL search_path TO 'pg_temp'",
        "SET LOCAL search_path TO \"pg_temp\"",
        "SELECT set_config('search_path', 'pg_temp', true) FROM (VALUES (1)) AS v",
        "SELECT set_config('search_path', 'pg_temp', 1 = 1)",
        "SELECT set_config('search_path', s, true) FROM (VALUES ('pg_temp')) AS v (s)",
        "SELECT set_config(n, s, true) FROM (VALUES ('search_path', 'pg_temp')) AS v (n, s)",
        "SELECT set_config('search_path', 'pg_temp', false) FROM (VALUES (1)) AS v",
        "EXECUTE sets('pg_temp', true)",
    ];
    let once = "SELECT set_config('search_path', $1, true) FROM (VALUES (1)) AS v";
    let either = "SELECT set_config('search_path', $1, $2::text::bool) FROM (VALUES (1)) AS v";
    let bound = [
        unit(once, &[Some("pg_temp")]),
        unit(either, &[Some("pg_temp"), Some("true")]),
    ];
    let create = "CREATE TABLE mine (a int)";
    let [first, begin, create_apart, commit] = ["SELECT 1", "BEGIN", create, "COMMIT"].map(query);
    let in_one = texts.map(|sql| vec![vec![query(&format!("{sql}; {create}"))]]);
    let mut histories = in_one.to_vec();
    for sets in texts.map(query).into_iter().chain(bound) {
        let all = [&first, &begin, &sets, &create_apart, &commit].map(Vec::clone);
        histories.push(all.iter().map(|one| vec![one.clone()]).collect());
        // The end of the first transaction becomes known when the next one has set the path.
        let (early, late) = all.split_at(3);
        histories.push(vec![early.to_vec(), late.to_vec()]);
        histories.push(vec![all.to_vec()]);
    }
    for sent_together in histories {
        let stage = stage_of_two();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        let sets = "SELECT set_config('search_path', $1, $2)";
        client.ask(&[parse("sets", sets, &[0, 0]), sync()].concat());
        let shown = String::from_utf8_lossy(&sent_together.concat().concat()).into_owned();
        for requests in sent_together {
            client.send(&requests.concat());
            for _ in requests {
                client.reply().expect_ok(&shown);
            }
        }
        let exists = "SELECT to_regclass('pg_temp.mine') IS NOT NULL";
        assert_eq!(neighbour.value(exists), "f", "{shown}");
        assert_eq!(client.value(exists), "t", "{shown}");
    }
}

/// PostgreSQL finds a temporary object also by a name that begins with the database.
#[test]
fn a_temporary_schema_behind_the_name_of_the_database_reaches_no_other_client() {
    let stage = stage_of_two();
    let database = &stage.database;
    for (creates, found) in [
        (
            "CREATE DOMAIN {}.pg_temp.mine AS text",
            "SELECT to_regtype('pg_temp.mine') IS NOT NULL",
        ),
        (
            "CREATE TYPE {}.pg_temp.kind AS ENUM ('a')",
            "SELECT to_regtype('pg_temp.kind') IS NOT NULL",
        ),
        (
            "CREATE FUNCTION {}.pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "SELECT to_regprocedure('pg_temp.f()') IS NOT NULL",
        ),
        (
            "CREATE OPERATOR FAMILY pg_temp.family USING btree",
            "SELECT EXISTS (SELECT FROM pg_opfamily WHERE opfname = 'family' AND opfnamespace = pg_my_temp_schema())",
        ),
    ] {
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok(&creates.replace("{}", database));
        assert_eq!(neighbour.value(found), "f", "{creates}");
        assert_eq!(client.value(found), "t", "{creates}");
    }
}

/// PostgreSQL's `FETCH` also executes portals to which the client has bound a statement.
#[test]
fn what_a_fetched_portal_does_reaches_no_other_client() {
    const SET: &str = "SELECT set_config('custom.flag', 'x', false)";
    const LOCK: &str = "SELECT pg_advisory_lock(7706)";
    const LOCKED: &str =
        "SELECT count(*)::text FROM pg_locks WHERE objid = 7706 AND pid = pg_backend_pid()";
    for (sql, look, own) in [(SET, FLAG, "x"), (LOCK, LOCKED, "1")] {
        for in_one_request in [true, false] {
            let stage = stage_of_two();
            let (mut client, mut neighbour) = (stage.client(), stage.client());
            let others = neighbour.value(look);
            let opens = [parse("", sql, &[]), bind("p", "", &[])].concat();
            let fetch = "FETCH ALL FROM p";
            if in_one_request {
                let all = [opens, unit(fetch, &[])].concat();
                client.ask(&all).expect_ok(sql);
            } else {
                client.ok("BEGIN");
                client.ask(&[opens, sync()].concat()).expect_ok(sql);
                client.ok(fetch);
                client.ok("COMMIT");
            }
            assert_eq!(neighbour.value(look), others, "{sql}");
            assert_eq!(client.value(look), own, "{sql}");
        }
    }
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("CREATE SEQUENCE numbers");
    let draw = parse("", "SELECT nextval('numbers')", &[]);
    let all = [draw, bind("p", "", &[]), unit("MOVE ALL FROM p", &[])];
    client.ask(&all.concat()).expect_ok("nextval");
    assert_eq!(neighbour.simple("SELECT lastval()").sqlstate(), "55000");
}

const JSONB: u32 = 3802;

/// A request that binds text to parameters of these types.
fn bound(sql: &str, types: &[u32], values: &[Option<&str>]) -> Vec<u8> {
    let parts = [
        parse("", sql, types),
        bind("", "", values),
        execute("", 0),
        sync(),
    ];
    parts.concat()
}

/// The bytes of a value do not show a path if the parameter has another type.
#[test]
fn a_temporary_path_in_a_value_of_another_type_reaches_no_other_client() {
    let path = [Some(r#""pg\u005ftemp""#)];
    let declared = "SELECT set_config('search_path', $1::text, true)";
    let inferred = "SELECT $1::jsonb, set_config('search_path', $1::text, true)";
    for sets in [bound(declared, &[JSONB], &path), unit(inferred, &path)] {
        let stage = stage_of_two();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok("BEGIN");
        client.ask(&sets).expect_ok("the path");
        client.ok("CREATE TABLE mine (a int)");
        client.ok("COMMIT");
        let exists = "SELECT to_regclass('pg_temp.mine') IS NOT NULL";
        assert_eq!(neighbour.value(exists), "f");
        assert_eq!(client.value(exists), "t");
    }
}

#[test]
fn a_setting_of_a_value_of_another_type_follows_its_client() {
    const LOCAL: &str = "SELECT set_config('custom.flag', $1, $2::bool)";
    const TEXT: &str = "SELECT set_config('custom.flag', $1::text, false)";
    const CAST: &str = "SELECT set_config('custom.flag', 't'::bool::text, false)";
    let json = r#"{"b":1,"a":"\u00e4"}"#;
    // Text, types and values of its parameters, and the client's own setting.
    type Case<'a> = (&'a str, &'a [u32], &'a [Option<&'a str>], &'a str);
    let cases: [Case<'_>; 6] = [
        (LOCAL, &[25, 23], &[Some("x"), Some("2")], ""),
        (LOCAL, &[25, 23], &[Some("x"), Some("0")], "x"),
        (LOCAL, &[0, 0], &[Some("x"), Some("off")], "x"),
        (
            TEXT,
            &[JSONB],
            &[Some(json)],
            "{\"a\": \"\u{e4}\", \"b\": 1}",
        ),
        (TEXT, &[16], &[Some("t")], "true"),
        (CAST, &[], &[], "true"),
    ];
    for (sql, types, values, own) in cases {
        let stage = stage_of_two();
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ask(&bound(sql, types, values)).expect_ok(sql);
        // The neighbour keeps the server connection that the client has used.
        neighbour.ok("BEGIN");
        assert_eq!(neighbour.value(FLAG), "", "{sql}");
        assert_eq!(client.value(FLAG), own, "{sql}, {types:?}");
        neighbour.ok("COMMIT");
    }
}

#[test]
fn a_seed_that_an_execute_sets_reaches_no_other_client() {
    let stage = stage_of_two();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let sets = parse("sets", "SELECT set_config('seed', $1, false)", &[0]);
    client.ask(&[sets, sync()].concat()).expect_ok("prepared");
    let random = "SELECT random()::text";
    let mut direct = stage.direct();
    direct.ok("SELECT setseed(0.5)");
    let seeded = direct.value(random);
    client.ok("EXECUTE sets('0.5')");
    assert_ne!(neighbour.value(random), seeded);
    assert_eq!(client.value(random), seeded);
}

/// PostgreSQL keeps a table that a transaction has created under a temporary path, whatever has set that.
#[test]
fn a_table_under_a_path_that_no_text_shows_stays_with_its_client() {
    const SET_CONFIG: u32 = 2078;
    let stage = stage_of_two();
    stage
        .direct()
        .ok("CREATE FUNCTION sets_path() RETURNS text LANGUAGE sql AS \
        $$ SELECT set_config('search_path', 'pg_temp', true) $$");
    let named =
        "SELECT set_config(n, v, l) FROM (VALUES ('search_path', 'pg_temp', true)) AS x (n, v, l)";
    let arguments = ["search_path", "pg_temp", "t"].map(Some);
    let exists = "SELECT to_regclass('pg_temp.mine') IS NOT NULL";
    for (sets, ends) in [
        (query("SELECT sets_path()"), "SELECT 1"),
        (query(named), "RESET ALL"),
        (function_call(SET_CONFIG, &arguments), "SELECT 2"),
    ] {
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok("BEGIN");
        client.ask(&sets).expect_ok("the path");
        let create = "CREATE TABLE mine (a int)";
        for sql in ["SAVEPOINT s", create, "RELEASE s", "COMMIT", ends] {
            client.ok(sql);
        }
        assert_eq!(neighbour.value(exists), "f", "{ends}");
        assert_eq!(client.value(exists), "t", "{ends}");
    }
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("SELECT sets_path(); CREATE TABLE mine (a int)");
    assert_eq!(neighbour.value(exists), "f");
    assert_eq!(client.value(exists), "t");
}

#[test]
fn what_is_created_under_a_temporary_path_reaches_no_other_client() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("SET search_path TO nowhere, pg_temp");
    assert_eq!(client.value("SHOW search_path"), "nowhere, pg_temp");
    assert_eq!(neighbour.value("SHOW search_path"), "\"$user\", public");
    client.ok("CREATE TABLE mine (a int)");
    assert_eq!(client.value("SELECT count(*) FROM mine"), "0");
    client.ok("DROP TABLE mine");
    client.ok("BEGIN");
    client.ok("SET LOCAL search_path TO pg_temp");
    client.ok("CREATE TABLE also_mine (a int) ON COMMIT DELETE ROWS");
    client.ok("COMMIT");
    client.ok("DROP TABLE pg_temp.also_mine");
    let found = "SELECT to_regclass('mine') IS NULL AND to_regclass('also_mine') IS NULL";
    assert_eq!(neighbour.value(found), "t");
}

#[test]
fn what_a_stable_function_has_set_reaches_no_other_client() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok(
        "CREATE FUNCTION sets() RETURNS text STABLE LANGUAGE sql AS \
        $$ SELECT set_config('custom.flag', 'x', false) $$",
    );
    for _ in 0..4 {
        client.ok("SELECT sets()");
        assert_eq!(neighbour.value(FLAG), "");
    }
}

#[test]
fn a_new_application_name_needs_no_server() {
    let stage = stage();
    let mut client = stage.client_with(&[("application_name", "first")]);
    client.ok("BEGIN");
    let mut other = stage.client_with(&[("application_name", "second")]);
    client.ok("COMMIT");
    assert_eq!(other.value("SHOW application_name"), "second");
}

#[test]
fn what_an_execute_sets_itself_reaches_no_other_client() {
    let stage = stage();
    stage
        .direct()
        .ok("CREATE FUNCTION raises() RETURNS text LANGUAGE sql AS \
        $$ SELECT set_config('custom.flag', 'x', false) $$");
    for (sql, left) in [
        (
            "CREATE TEMP TABLE mine AS EXECUTE p('a')",
            "SELECT to_regclass('pg_temp.mine')",
        ),
        ("EXECUTE p(set_config('custom.flag', 'x', false))", FLAG),
        ("EXECUTE p(raises())", FLAG),
        (
            "EXECUTE p(pg_advisory_lock(7705)::text)",
            "SELECT nullif(count(*), 0) FROM pg_locks WHERE objid = 7705 AND pid = pg_backend_pid()",
        ),
    ] {
        let (mut client, mut neighbour) = (stage.client(), stage.client());
        client.ok("PREPARE p (text) AS SELECT $1");
        client.ok(sql);
        drop(client);
        let left = neighbour.ok(left).rows();
        assert!(
            matches!(left[0][0].as_deref(), None | Some("")),
            "{sql}: {left:?}"
        );
    }
}

#[test]
fn explain_sets_nothing() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let before = client.value("SHOW work_mem");
    client.ok("PREPARE p AS SELECT set_config('work_mem', '77MB', false)");
    client.ok("EXPLAIN EXECUTE p");
    client.ok("CREATE TABLE never_set AS EXECUTE p WITH NO DATA");
    assert_eq!(neighbour.value("SHOW work_mem"), before);
    assert_eq!(client.value("SHOW work_mem"), before);
    client.ok("EXECUTE p");
    assert_eq!(neighbour.value("SHOW work_mem"), before);
    assert_eq!(client.value("SHOW work_mem"), "77MB");
}

#[test]
fn what_a_text_within_a_text_has_set_reaches_no_other_client() {
    const TEXT: &str =
        "SELECT * FROM ts_stat('SELECT set_config(''custom.flag'', ''x'', false)::tsvector')";
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    // After a few calls, Paceline knows the function from the catalog.
    for _ in 0..4 {
        client.ok(TEXT);
        assert_eq!(neighbour.value(FLAG), "");
    }
}
