//! Effects of texts, by example.

use super::{Effect, Listening, PinReason, SessionChange};
use crate::statement::parse;

pub(super) fn effect(sql: &str) -> Effect {
    parse(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
        .effect
}

pub(super) fn changes(sql: &str) -> Vec<SessionChange> {
    match effect(sql) {
        Effect::Session(changes) => changes,
        other => panic!("{sql}: {other:?}"),
    }
}

fn set(name: &str, sql: &str) -> SessionChange {
    SessionChange::Set {
        name: name.to_owned(),
        sql: sql.to_owned(),
    }
}

#[test]
fn reads() {
    let texts = [
        "SELECT 1",
        "TABLE t",
        "VALUES (1), (2)",
        "WITH a AS (SELECT 1) SELECT * FROM a UNION SELECT 2 ORDER BY 1 LIMIT 3",
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT pg_try_advisory_xact_lock_shared(1)",
        "SELECT set_config('work_mem', '64kB', true)",
        "SELECT set_config('work_mem', f(1), true) FROM t",
        "SELECT set_config(is_local => true, setting_name => 'work_mem', new_value => 'b')",
        "SELECT other.set_config('a.b', 'c', false)",
        "SELECT 'pg_temp.a', pg_temp FROM t",
    ];
    for sql in texts {
        assert_eq!(effect(sql), Effect::Read, "{sql}");
    }
}

#[test]
fn writes() {
    let texts = [
        "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "SELECT * FROM t FOR UPDATE SKIP LOCKED",
        "SELECT * FROM (SELECT * FROM t FOR SHARE) s",
        "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
    ];
    for sql in texts {
        assert_eq!(effect(sql), Effect::Write, "{sql}");
    }
}

#[test]
fn others() {
    let texts = [
        "",
        "-- nothing",
        ";",
        "BEGIN",
        "COMMIT",
        "CREATE TABLE t (a int)",
        "COPY t FROM STDIN",
        "VACUUM t",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "SET LOCAL work_mem = '1MB'",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET TRANSACTION SNAPSHOT 'a'",
        "SET transaction_read_only = on",
        "SHOW work_mem",
        "FETCH 1 FROM c",
        "NOTIFY a",
        "LOCK t",
        "SET CONSTRAINTS ALL DEFERRED",
        "SELECT 1; SELECT 2",
        "SELECT 1 INTO t",
        "CREATE TABLE t AS SELECT 1",
        "DISCARD PLANS",
        "DISCARD TEMP",
        "EXECUTE a(1)",
        "DECLARE c CURSOR FOR SELECT 1",
        "CLOSE c",
        "ALTER ROLE a SET work_mem = '1MB'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET work_mem = '1MB' AS 'select 1'",
        "EXPLAIN SELECT set_config('a.b', 'c', false)",
        "EXPLAIN (ANALYZE false) SELECT pg_advisory_lock(1)",
        "PREPARE TRANSACTION 'a'",
    ];
    for sql in texts {
        assert_eq!(effect(sql), Effect::Other, "{sql}");
    }
}

#[test]
fn the_sql_of_a_setting_is_the_deparsed_statement() {
    let cases = [
        (
            "set Work_Mem = '1MB'",
            "work_mem",
            "SET work_mem TO \"1MB\"",
        ),
        (
            "SET SESSION search_path = a, \"B\"",
            "search_path",
            "SET search_path TO a, \"B\"",
        ),
        ("SET SCHEMA 'a'", "search_path", "SET search_path TO a"),
        (
            "SET NAMES 'latin1'",
            "client_encoding",
            "SET client_encoding TO latin1",
        ),
        ("SET TIME ZONE 'UTC'", "timezone", "SET TIME ZONE \"UTC\""),
        (
            "SET timezone = 'UTC'",
            "timezone",
            "SET timezone TO \"UTC\"",
        ),
        ("SET ROLE a", "role", "SET role TO a"),
        ("SET a.B = 1.5", "a.b", "SET \"a.b\" TO 1.5"),
        (
            "SELECT set_config('A.b', 'it''s', false)",
            "a.b",
            "SELECT pg_catalog.set_config('a.b', 'it''s', false)",
        ),
    ];
    for (sql, name, again) in cases {
        assert_eq!(changes(sql), [set(name, again)], "{sql}");
    }
}

#[test]
fn the_sql_of_a_setting_has_the_same_effect() {
    let texts = [
        "SET SESSION AUTHORIZATION a",
        "SET SESSION AUTHORIZATION \"A b\"",
        "SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE",
        "SET TIME ZONE -7",
        "SET TIME ZONE 'it''s\\x'",
        "SET work_mem TO 64",
        "SET DateStyle TO iso, dmy",
        "SET bytea_output = escape",
        "SET \"my.Var\" = ''",
        "SET XML OPTION DOCUMENT",
        "SET statement_timeout = -1",
    ];
    for sql in texts {
        let found = changes(sql);
        let [SessionChange::Set { sql: again, .. }] = found.as_slice() else {
            panic!("{sql}: {found:?}")
        };
        assert_eq!(changes(again), found, "{sql} became {again}");
    }
}

#[test]
fn resets_are_recognized() {
    let reset = |name: &str| SessionChange::Reset {
        name: name.to_owned(),
    };
    assert_eq!(changes("RESET Work_Mem"), [reset("work_mem")]);
    assert_eq!(changes("SET work_mem TO DEFAULT"), [reset("work_mem")]);
    assert_eq!(changes("RESET TIME ZONE"), [reset("timezone")]);
    assert_eq!(changes("SET TIME ZONE LOCAL"), [reset("timezone")]);
    assert_eq!(changes("RESET ROLE"), [reset("role")]);
    assert_eq!(
        changes("RESET SESSION AUTHORIZATION"),
        [reset("session_authorization")]
    );
    assert_eq!(
        changes("SET SESSION AUTHORIZATION DEFAULT"),
        [reset("session_authorization")]
    );
    assert_eq!(changes("RESET ALL"), [SessionChange::ResetAll]);
    assert_eq!(changes("DISCARD ALL"), [SessionChange::DiscardAll]);
    assert_eq!(
        changes("DISCARD SEQUENCES"),
        [SessionChange::DiscardSequences]
    );
    assert_eq!(changes("DEALLOCATE ALL"), [SessionChange::DeallocateAll]);
    assert_eq!(
        changes("DEALLOCATE PREPARE a"),
        [SessionChange::Deallocate {
            name: "a".to_owned()
        }]
    );
}

#[test]
fn session_state_of_one_server_connection_pins_the_client() {
    let texts = [
        "CREATE TEMP TABLE t (a int)",
        "CREATE LOCAL TEMPORARY TABLE t AS SELECT 1",
        "CREATE TEMP VIEW v AS SELECT 1",
        "CREATE TEMP SEQUENCE s",
        "SELECT 1 INTO TEMP t",
        "SELECT 1 INTO TEMP t UNION SELECT 2",
        "CREATE TABLE pg_temp.t (a int)",
        "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'select 1'",
        "SELECT pg_temp.f()",
        "SELECT * FROM pg_temp_3.t",
        "CREATE TYPE pg_temp.e AS ENUM ('a')",
        "SET LOCAL search_path = pg_temp, public",
        "SELECT set_config('search_path', '\"pg_temp\"', true)",
        "SELECT set_config('search_path', 'pg_temp', true) FROM t",
        "PREPARE p AS SELECT 1",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
        "LOAD 'x'",
        "SET seed = 0.5",
        "SELECT setseed(0.5)",
        "SELECT set_config(name, 'b', false) FROM t",
        "SELECT set_config('a' || 'b', 'b', false)",
        "SELECT set_config(lower($1), 'b', false)",
        "SELECT pg_advisory_lock(1)",
        "SELECT PG_CATALOG.pg_try_advisory_lock(1, 2)",
        "EXPLAIN (VERBOSE, ANALYZE on) SELECT pg_advisory_lock(1)",
        "EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1",
        "COPY (SELECT pg_advisory_lock(1)) TO STDOUT",
        "CREATE TABLE t AS SELECT setseed(1)",
        "DECLARE c CURSOR FOR SELECT setseed(1)",
    ];
    for sql in texts {
        assert!(
            matches!(changes(sql).first(), Some(SessionChange::Pin(_))),
            "{sql}"
        );
    }
}

#[test]
fn a_call_counts_anywhere_in_a_statement() {
    const CALL: &str = "set_config('a', 'b', false)";
    let texts = [
        "SELECT CASE WHEN # = 'b' THEN 1 END",
        "SELECT CASE # WHEN 'b' THEN 1 ELSE 2 END",
        "SELECT coalesce(NULL, #), greatest(1, #)",
        "SELECT 1 WHERE EXISTS (SELECT #)",
        "SELECT (SELECT #)",
        "SELECT ARRAY(SELECT #), ARRAY[#], ROW(#), (ARRAY['a'])[length(#)]",
        "SELECT sum(1) OVER (PARTITION BY # ORDER BY # ROWS length(#) PRECEDING)",
        "SELECT sum(1) OVER w FROM t WINDOW w AS (ORDER BY #)",
        "SELECT sum(1) FILTER (WHERE # = 'b')",
        "SELECT string_agg(a, # ORDER BY #) FROM t",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length(#))",
        "SELECT 1 FROM t GROUP BY ROLLUP (#)",
        "SELECT 1 FROM t GROUP BY GROUPING SETS ((#), ())",
        "SELECT grouping(#) FROM t",
        "SELECT 1 FROM t HAVING # = 'b'",
        "SELECT 1 ORDER BY #",
        "SELECT DISTINCT ON (#) 1",
        "SELECT 1 LIMIT length(#)",
        "SELECT 1 OFFSET length(#)",
        "SELECT 1 FETCH FIRST (length(#)) ROWS ONLY",
        "SELECT 1 FROM #",
        "SELECT 1 FROM ROWS FROM (#, f())",
        "SELECT 1 FROM a, LATERAL (SELECT #) b",
        "SELECT 1 FROM a JOIN b ON # = 'b'",
        "SELECT 1 FROM a TABLESAMPLE system (length(#)) REPEATABLE (length(#))",
        "SELECT 1 FROM (VALUES (#)) v",
        "SELECT 1 FROM XMLTABLE('/a' PASSING # COLUMNS a text DEFAULT #)",
        "SELECT 1 FROM JSON_TABLE(#, '$' COLUMNS (a text PATH '$'))",
        "SELECT json_object('a' : #), json_array(#), xmlelement(name a, #)",
        "SELECT #::text COLLATE \"C\" IS NULL",
        "SELECT (#::bool) IS TRUE, # IN ('a', #), # BETWEEN 'a' AND 'b', # LIKE 'a' ESCAPE #",
        "SELECT f(a => #), f(VARIADIC ARRAY[#])",
        "VALUES (1, #)",
        "WITH a AS (SELECT #) SELECT 1",
        "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT length(#) FROM a) SELECT 1",
        "SELECT 1 UNION (SELECT length(#))",
        "SELECT 1 INTERSECT ALL (VALUES (length(#)))",
        "INSERT INTO t VALUES (1, #)",
        "INSERT INTO t SELECT #",
        "INSERT INTO t VALUES (1) RETURNING #",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = #",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE # = 'b' DO UPDATE SET a = 1 WHERE t.b = #",
        "UPDATE t SET a = #",
        "UPDATE t SET (a, b) = (SELECT 1, #)",
        "UPDATE t SET (a, b) = (1, #)",
        "UPDATE t SET a[length(#)] = 1",
        "UPDATE t SET a = 1 FROM (SELECT #) s WHERE b = #",
        "UPDATE t SET a = 1 RETURNING #",
        "DELETE FROM t USING f(#) WHERE true",
        "DELETE FROM t WHERE # = 'b' RETURNING 1",
        "MERGE INTO t USING s ON # = 'b' WHEN MATCHED THEN UPDATE SET a = 1",
        "MERGE INTO t USING s ON true WHEN MATCHED AND # = 'b' THEN UPDATE SET a = #",
        "MERGE INTO t USING s ON true WHEN NOT MATCHED THEN INSERT VALUES (#) RETURNING #",
        "EXECUTE p(#)",
        "CREATE TABLE t AS SELECT #",
        "SELECT # FOR UPDATE",
    ];
    for text in texts {
        let sql = text.replace('#', CALL);
        assert!(changes(&sql).contains(&unknown("a")), "{sql}");
        let local = text.replace('#', "set_config('work_mem', 'b', true)");
        assert!(!matches!(effect(&local), Effect::Session(_)), "{local}");
    }
}

#[test]
fn repeated_changes_of_a_statement_are_listed_once() {
    let both = "pg_advisory_lock(1), pg_advisory_unlock(1), setseed(1)";
    let sql = format!("SELECT {}", [both; 100].join(", "));
    assert_eq!(changes(&sql).len(), 3, "{:?}", changes(&sql));
}

#[test]
fn statements_with_unknown_changes_are_recognized() {
    for sql in [
        "DO 'begin end'",
        "CALL p(1)",
        "UPDATE pg_settings SET setting = 'x' WHERE name = 'work_mem'",
    ] {
        assert_eq!(changes(sql), [SessionChange::Anything], "{sql}");
    }
}

#[test]
fn changes_of_several_statements_are_listed_in_order() {
    let sql = "SET a.b = 1; SELECT 1; RESET a.b; LISTEN c";
    let reset = SessionChange::Reset {
        name: "a.b".to_owned(),
    };
    assert_eq!(
        changes(sql),
        [
            set("a.b", "SET \"a.b\" TO 1"),
            SessionChange::Next,
            SessionChange::Next,
            reset,
            SessionChange::Next,
            SessionChange::Listening(Listening::Listen("c".to_owned()))
        ]
    );
}

#[test]
fn characteristics_of_the_session_are_defaults_of_its_transactions() {
    let sql = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE";
    let expected = [
        ("default_transaction_isolation", "repeatable read"),
        ("default_transaction_read_only", "on"),
        ("default_transaction_deferrable", "off"),
    ];
    let expected = expected.map(|(name, value)| set(name, &format!("SET {name} TO '{value}'")));
    assert_eq!(changes(sql), expected);
}

fn unknown(name: &str) -> SessionChange {
    SessionChange::SetUnknown {
        name: name.to_owned(),
    }
}

/// The changes of a text with these parameter values.
fn bound(sql: &str, values: &[Option<&[u8]>]) -> Vec<SessionChange> {
    let value = |number: usize, _| values.get(number - 1).copied();
    let changes = changes(sql);
    let calls = changes.iter().map(|change| match change {
        SessionChange::SetTo(call) => call.with(&value),
        other => vec![other.clone()],
    });
    calls.flatten().collect()
}

#[test]
fn arguments_of_a_call_may_be_parameters() {
    let set = |value| super::set_to("c.d", Some(value));
    for sql in [
        "SELECT set_config('c.d', $2, false)",
        "SELECT set_config('C.d', $2::text, NULL)",
        "SELECT 1, current_setting('c.d'), set_config($1, $2, 'off')::text AS new",
        "SELECT set_config(new_value => $2, setting_name => $1, is_local => false)",
        "SELECT set_config($1, $2, $3)",
    ] {
        for no in [&b"f"[..], b"0", &[0], b" FALSE"] {
            let values = [Some(&b"c.d"[..]), Some(b"x"), Some(no)];
            assert_eq!(bound(sql, &values), set("x"), "{sql}");
        }
    }
    let local = [Some(&b"c.d"[..]), Some(b"x"), Some(&[1][..])];
    let known = SessionChange::OptionDefined {
        name: "c.d".to_owned(),
    };
    assert_eq!(bound("SELECT set_config($1, $2, $3)", &local), [known]);
    let null = [Some(&b"c.d"[..]), None];
    assert!(matches!(
        bound("SELECT set_config($1, $2, false)", &null)[..],
        [SessionChange::Reset { .. }]
    ));
    assert_eq!(
        bound("SELECT set_config('a', $1, false)", &[]),
        [unknown("a")]
    );
    assert_eq!(
        bound("SELECT set_config($1, 'b', false)", &[]),
        [SessionChange::Pin(PinReason::Setting)]
    );
    assert!(matches!(
        super::set_to("seed", Some("1"))[..],
        [SessionChange::Pin(PinReason::Seed)]
    ));
}

#[test]
fn a_call_beside_columns_without_calls_is_executed_once() {
    // asyncpg sends this for each type that it looks up.
    let sql = "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new";
    assert_eq!(changes(sql), super::set_to("jit", Some("off")));
}

#[test]
fn a_value_that_the_text_does_not_show_is_read_from_the_server() {
    for sql in [
        "SELECT set_config('A', b, false) FROM t",
        "SELECT set_config('a', 'b', x) FROM t",
        "SELECT set_config('a', 'b', false) WHERE true",
        "SELECT set_config('a', 'b', false), f()",
        "SELECT CASE WHEN f() THEN set_config('a', 'b', false) END",
        "SELECT 1 UNION SELECT length(set_config('a', 'b', false))",
        "SET a FROM CURRENT",
    ] {
        assert_eq!(changes(sql), [unknown("a")], "{sql}");
    }
}

#[test]
fn a_value_that_postgresql_resolves_is_read_from_the_server() {
    let changes = changes("SET default_text_search_config = mine");
    assert!(matches!(&changes[..], [SessionChange::Set { .. }, second]
        if *second == unknown("default_text_search_config")));
}

#[test]
fn a_search_path_with_the_temporary_schema_is_a_setting_and_a_pin() {
    let temporary = SessionChange::Pin(PinReason::Temporary);
    for (sql, also) in [
        ("SET search_path TO pg_temp, app", &temporary),
        ("SET search_path TO app, pg_temp", &SessionChange::Anything),
        (
            "SELECT set_config('search_path', 'app, pg_temp', false)",
            &SessionChange::Anything,
        ),
    ] {
        let changes = changes(sql);
        assert!(
            matches!(&changes[..], [SessionChange::Set { name, .. }, second] if name == "search_path" && second == also),
            "{sql}: {changes:?}"
        );
    }
}

#[test]
fn set_role_none_is_not_a_reset() {
    let none = SessionChange::Set {
        name: "role".to_owned(),
        sql: "SET ROLE NONE".to_owned(),
    };
    assert_eq!(changes("SET ROLE NONE"), [none]);
}

#[test]
fn savepoints_are_listed_by_name() {
    let name = || "A b".to_owned();
    assert_eq!(
        changes("SAVEPOINT \"A b\""),
        [SessionChange::Savepoint { name: name() }]
    );
    assert_eq!(
        changes("RELEASE \"A b\""),
        [SessionChange::Release { name: name() }]
    );
    assert_eq!(
        changes("ROLLBACK TO \"A b\""),
        [SessionChange::RollbackTo { name: name() }]
    );
}

#[test]
fn an_unlock_may_end_a_pin() {
    for sql in [
        "SELECT pg_advisory_unlock_all()",
        "SELECT 1 WHERE pg_advisory_unlock(1)",
    ] {
        assert_eq!(changes(sql), [SessionChange::PinMayEnd], "{sql}");
    }
}

#[test]
fn state_that_no_reset_ends_lasts_until_the_connection_closes() {
    for (sql, reason) in [
        ("SELECT pg_backup_start('b', true)", PinReason::Backup),
        (
            "SELECT pg_start_backup('b', true, false)",
            PinReason::Backup,
        ),
        (
            "SELECT pg_replication_origin_session_setup('o')",
            PinReason::ReplicationOrigin,
        ),
        (
            "SELECT ext.dblink_connect('c', 'dbname=x')",
            PinReason::Dblink,
        ),
        ("SELECT set_limit(0.5)", PinReason::Limit),
        (
            "SELECT pg_create_physical_replication_slot('s', false, true)",
            PinReason::ReplicationSlot,
        ),
        ("SET LOCAL seed = 0.5", PinReason::Seed),
        ("SELECT set_config('Seed', '0.5', true)", PinReason::Seed),
        (
            "SELECT set_config('seed', x::text, false) FROM t",
            PinReason::Seed,
        ),
    ] {
        let pin = Effect::Session(vec![SessionChange::Pin(reason)]);
        assert_eq!(effect(sql), pin, "{sql}");
        assert!(!reason.can_be_discarded(), "{sql}");
    }
}

#[test]
fn begin_and_start_transaction_start_a_transaction_block() {
    for (text, begins) in [
        ("begin", true),
        ("START TRANSACTION READ ONLY", true),
        ("/* */ Begin Isolation Level Serializable", true),
        ("select 1; begin", true),
        ("commit and chain", false),
        ("savepoint a", false),
        ("select 1", false),
        ("", false),
    ] {
        assert_eq!(parse(text).unwrap().begins, begins, "{text}");
    }
}

#[test]
fn channel_names_are_folded_and_truncated_as_in_postgresql() {
    use Listening::{Listen, Unlisten, UnlistenAll};
    for (sql, expected) in [
        ("listen Jobs", Listen("jobs".to_owned())),
        ("LISTEN \"Jobs \"\" 1\"", Listen("Jobs \" 1".to_owned())),
        ("UNLISTEN jobs", Unlisten("jobs".to_owned())),
        ("UNLISTEN *", UnlistenAll),
        (
            &format!("LISTEN {}", "é".repeat(40)),
            Listen("é".repeat(31)),
        ),
        ("UNLISTEN \"*\"", Unlisten("*".to_owned())),
    ] {
        assert_eq!(changes(sql), [SessionChange::Listening(expected)], "{sql}");
    }
}

/// The reset of a server connection has such a seed. If the server is another Paceline, it must not pin the connection.
#[test]
fn a_random_seed_is_no_state() {
    let seed = "SELECT setseed(hashtext(gen_random_uuid()::text)::float8 / 2147483648)";
    assert_eq!(effect(seed), Effect::Read);
    assert_eq!(
        changes("SELECT setseed(0.5)"),
        [SessionChange::Pin(PinReason::Seed)]
    );
}
