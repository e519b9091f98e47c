//! The meaning of a backslash in a plain constant depends on `standard_conforming_strings`. So the ends of tokens depend on it, too.

use super::Together;
use crate::harness::Stage;
use crate::harness::message::{bind, execute, parse, query, run, sync, unit};
use crate::harness::stage::Target;
use crate::harness::together::Tables;

const SETUP: &str = "
    CREATE TABLE note (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, text text);
    CREATE TABLE line (id serial PRIMARY KEY, text text)";
const FILL: &str = "DELETE FROM note; DELETE FROM line; ALTER SEQUENCE line_id_seq RESTART; INSERT INTO note SELECT i, 0, '' FROM generate_series(1, 3) i";
const CONTENT: &str = "SELECT 'note', id, n, text FROM note UNION ALL SELECT 'line', id, 0, text FROM line ORDER BY 1, 2";

/// `?` is a number that each client has of its own.
const TEXTS: [&str; 7] = [
    r"UPDATE note SET n = n + ?, text = 'a\tb' WHERE id = 1 RETURNING n, text",
    r"UPDATE note SET n = n + ? WHERE id = 1 AND text <> '\\' RETURNING n, 'c\\d' AS c",
    r"UPDATE note SET n = n + ?, text = E'a\tb' WHERE id = 1 RETURNING n, text",
    r"INSERT INTO line (text) VALUES ('a\tb' || ?::text) RETURNING text",
    r"INSERT INTO note (id, text) VALUES (?, 'x\\y') ON CONFLICT (id) DO UPDATE SET n = note.n + 1, text = 'z\\' || note.n RETURNING n, text",
    r"INSERT INTO line (text) VALUES (E'it\'s' || ?::text) RETURNING text",
    r"UPDATE note SET n = n + ?, text = E'\'' WHERE id = 1 RETURNING n, text",
];

#[test]
fn constants_mean_in_a_group_what_they_mean_alone() {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    for begin in [
        "SET standard_conforming_strings = off",
        "SET standard_conforming_strings = on",
        "SET backslash_quote = off",
        "SET backslash_quote = on",
        "SET escape_string_warning = off; SET standard_conforming_strings = off",
    ] {
        let together = Together {
            stage: &stage,
            tables: Tables {
                fill: FILL,
                content: CONTENT,
            },
            begin,
        };
        for sql in TEXTS {
            // A query with such a constant keeps its number, too: then only equal ones are a group.
            together.compare(&sql.replace('?', "1"), false);
            let grouped = together.compare(sql, true);
            let depends = !sql.contains("E'a");
            assert_eq!(grouped, !depends || stage.target() == Target::Bare, "{sql}");
        }
    }
}

/// Paceline reads the constraints of a table as text, which depends on the settings of the session.
#[test]
fn constraints_mean_the_same_under_all_settings() {
    let stage = Stage::for_groups();
    stage.direct().ok(
        r"CREATE TABLE path (id int PRIMARY KEY, path text CHECK (path <> 'a\b' AND path !~ '\d'), raw bytea CHECK (raw <> '\x5c5c'),
            f float8 CHECK (f <> 7.1234567890123456), at timestamptz CHECK (at <> '2020-02-03 04:05:06+00'), long interval CHECK (long <> '-1 day 2:00'))",
    );
    for begin in [
        "SET standard_conforming_strings = on",
        "SET standard_conforming_strings = off; SET escape_string_warning = off",
        "SET bytea_output = escape; SET standard_conforming_strings = off; SET escape_string_warning = off",
        "SET quote_all_identifiers = on",
        "SET extra_float_digits = -15",
        "SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Kathmandu'; SET IntervalStyle = sql_standard",
    ] {
        let together = Together {
            stage: &stage,
            tables: Tables {
                fill: "DELETE FROM path; INSERT INTO path SELECT i FROM generate_series(1, 3) i",
                content: "SELECT * FROM path ORDER BY id",
            },
            begin,
        };
        for sql in [
            "UPDATE path SET path = repeat(chr(92), ?) WHERE id = 1",
            "UPDATE path SET path = concat('a', repeat(chr(92), ?), 'b') WHERE id = 1",
            "UPDATE path SET path = (ARRAY['d', 'dd', 'add', 'b'])[?::int + 1] WHERE id = 1",
            "UPDATE path SET path = ?::text WHERE id = 1",
            "UPDATE path SET raw = decode(repeat('5c', ?), 'hex') WHERE id = 1",
            "UPDATE path SET f = 7.1234567890123456 + ?::int - 2 WHERE id = 1",
            "UPDATE path SET f = 7.12345678901234 + ?::int - 2 WHERE id = 1",
            "UPDATE path SET at = to_timestamp(1580702706 + (?::int - 2) * 3600) WHERE id = 1",
            "UPDATE path SET long = make_interval(days => 1 - ?::int, hours => 2) WHERE id = 1",
            "INSERT INTO path (id, path) VALUES (1, repeat(chr(92), ?)) ON CONFLICT (id) DO UPDATE SET path = EXCLUDED.path || 'd'",
        ] {
            together.compare(sql, true);
        }
    }
}

/// One statement with constants, or a change of the search path: that depends on where the first constant ends.
const HIDDEN_SET: &str = r"select '\', ' ; set search_path to evil; --'";
const HIDDEN_CALL: &str = r"select '\', ', set_config($$search_path$$, $$evil$$, false) --'";
/// The same by the encoding: the last byte of the letter and the backslash are one character of SJIS.
const HIDDEN_BY_ENCODING: &str = r"select E'ぃ\'; set search_path to evil; --'";

/// A stage on whose server connections this holds from the start.
fn stage_with(setting: &str) -> Stage {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=true")
        .open();
    let database = &stage.database;
    stage
        .direct()
        .ok(&format!("ALTER DATABASE {database} SET {setting}"));
    stage
}

/// A unit of one client must not affect the next client on the connection.
fn assert_contained(setting: &str, unit: &[u8]) {
    let stage = stage_with(setting);
    if stage.target() == Target::Bare {
        return;
    }
    let (mut one, mut other) = (stage.client(), stage.client());
    assert_eq!(other.value("SHOW search_path"), "\"$user\", public");
    one.ask(unit);
    // A statement that such a text has prepared pins the client.
    one.hang_up();
    let found = other.value("SHOW search_path");
    assert_eq!(
        found,
        "\"$user\", public",
        "{}",
        String::from_utf8_lossy(unit)
    );
}

const OFF: &str = "standard_conforming_strings = off";

#[test]
fn a_hidden_change_of_settings_reaches_no_other_client_by_a_simple_query() {
    assert_contained(OFF, &query(HIDDEN_SET));
    assert_contained(OFF, &query(&format!("select 1; {HIDDEN_SET}")));
    assert_contained(OFF, &query(&format!("copy ({HIDDEN_CALL}\n) to stdout")));
    assert_contained(OFF, &query(&format!("explain (analyze) {HIDDEN_CALL}")));
}

#[test]
fn a_hidden_change_of_settings_reaches_no_other_client_by_an_encoding() {
    assert_contained("client_encoding = 'SJIS'", &query(HIDDEN_BY_ENCODING));
}

#[test]
fn a_hidden_change_of_settings_reaches_no_other_client_by_a_prepared_statement() {
    assert_contained(OFF, &unit(HIDDEN_CALL, &[]));
    let named = [
        parse("s", HIDDEN_CALL, &[]),
        bind("", "s", &[]),
        execute("", 0),
        sync(),
    ];
    assert_contained(OFF, &named.concat());
    let in_one = query(&format!("prepare p as {HIDDEN_CALL}\n; execute p"));
    assert_contained(OFF, &in_one);
}

/// The setting changes in the same unit, unseen until its end.
#[test]
fn a_hidden_change_of_settings_reaches_no_other_client_by_a_pipeline() {
    let pipeline = [
        run("set standard_conforming_strings = off", &[]),
        run(HIDDEN_CALL, &[]),
        run("reset standard_conforming_strings", &[]),
        sync(),
    ];
    assert_contained("application_name = 'x'", &pipeline.concat());
}

/// PREPARE by one query, EXECUTE by the next.
#[test]
fn a_hidden_change_of_settings_reaches_no_other_client_by_execute() {
    let stage = stage_with(OFF);
    if stage.target() == Target::Bare {
        return;
    }
    let (mut one, mut other) = (stage.client(), stage.client());
    one.ok(&format!("prepare p as {HIDDEN_CALL}"));
    one.ok("execute p");
    one.hang_up();
    assert_eq!(other.value("SHOW search_path"), "\"$user\", public");
    let mut third = stage.client();
    let named = [parse("s", HIDDEN_CALL, &[]), sync()].concat();
    third.ask(&named).expect_ok("prepare");
    assert_eq!(other.value("SHOW search_path"), "\"$user\", public");
    let executed = [bind("", "s", &[]), execute("", 0), sync()].concat();
    third.ask(&executed).expect_ok("execute");
    assert_eq!(other.value("SHOW search_path"), "\"$user\", public");
}
