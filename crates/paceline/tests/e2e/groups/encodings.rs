//! Texts that PostgreSQL converts between the encodings of the client and of the database. Different texts of clients may then be one text
//! in the database, and different texts there one text of a client.

use super::{prepared, simple};
use crate::harness::Stage;
use crate::harness::message::{bind_formats, execute, parse, sync, unit};
use crate::harness::together::Tables;

const SETUP: &str = "CREATE TABLE word (name text PRIMARY KEY, n int NOT NULL)";
const TABLES: Tables = Tables {
    fill: "DELETE FROM word; INSERT INTO word SELECT chr(97 + i), 0 FROM generate_series(0, 3) i",
    content: "SELECT name, n FROM word ORDER BY name",
};
/// The row of U+FFE4, as which EUC_JP also stores U+00A6.
const BROKEN_BARS: Tables = Tables {
    fill: "DELETE FROM word; INSERT INTO word VALUES ('a', 0), ('b', 0), (U&'\\FFE4', 0)",
    ..TABLES
};
const BARS: [&[&str]; 6] = [
    &["a"],
    &["\u{a6}"],
    &["\u{ffe4}"],
    &["b"],
    &["\u{a6}"],
    &["\u{ffe4}"],
];

const UPDATE: &str = "UPDATE word SET n = n + 1 WHERE name = $1 RETURNING n";
const UPSERT: &str = "INSERT INTO word VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = word.n + 1 RETURNING name, n";
const ROWS: &str = "INSERT INTO word VALUES ($1, 1), ($2, 2) ON CONFLICT (name) DO UPDATE SET n = word.n + EXCLUDED.n RETURNING n";

/// A stage with a database in this encoding, whose sessions begin with that of the client.
fn stage(of_database: &str, of_client: &str) -> Stage {
    let mut stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=true")
        .set("queue_reorder_time=1h")
        .open();
    let name = format!("{}_encoded", stage.database);
    let mut direct = stage.direct();
    direct.ok(&format!(
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING '{of_database}' LC_COLLATE 'C' LC_CTYPE 'C'"
    ));
    direct.ok(&format!(
        "ALTER DATABASE {name} SET client_encoding = '{of_client}'"
    ));
    stage.database = name;
    stage.direct().ok(SETUP);
    stage
}

#[test]
fn texts_that_the_database_stores_as_one_are_one_key() {
    let stage = stage("EUC_JP", "UTF8");
    for sql in [
        UPDATE,
        UPSERT,
        "INSERT INTO word VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = EXCLUDED.n RETURNING *",
        "INSERT INTO word VALUES ($1, 1) ON CONFLICT DO NOTHING RETURNING name",
    ] {
        BROKEN_BARS.compare_asks(&stage, &prepared(sql, &BARS));
        let quoted = sql.replace("$1", "'$1'");
        BROKEN_BARS.compare_asks(&stage, &simple(&quoted, &BARS));
    }
    let rows: [&[&str]; 4] = [
        &["a", "k"],
        &["\u{a6}", "l"],
        &["m", "\u{ffe4}"],
        &["b", "o"],
    ];
    BROKEN_BARS.compare_asks(&stage, &prepared(ROWS, &rows));
}

/// In the encoding of a role or a database, which the client has not set.
#[test]
fn texts_of_another_client_encoding_that_the_database_stores_as_one_are_one_key() {
    let stage = stage("UTF8", "EUC_JP");
    let tables = Tables {
        fill: "DELETE FROM word; INSERT INTO word VALUES ('a', 0), (U&'\\2252', 0)",
        ..TABLES
    };
    let ask = |sql: &str, name: &[u8]| {
        let bound = bind_formats("", "", &[], &[Some(name.to_vec())], &[]);
        [parse("", sql, &[]), bound, execute("", 0), sync()].concat()
    };
    for sql in [UPDATE, UPSERT] {
        let names: [&[u8]; 5] = [b"a", b"\xa2\xe2", b"\xad\xf0", b"a", b"\xad\xf0"];
        tables.compare_asks(&stage, &names.map(|name| ask(sql, name)));
    }
}

#[test]
fn keys_of_ascii_characters_keep_their_groups() {
    for (of_database, of_client) in [("EUC_JP", "UTF8"), ("UTF8", "EUC_JP"), ("LATIN1", "UTF8")] {
        let stage = stage(of_database, of_client);
        for sql in [UPDATE, UPSERT] {
            let grouped =
                TABLES.compare_asks(&stage, &prepared(sql, &[&["a"], &["b"], &["c"], &["a"]]));
            assert!(grouped, "{of_database}, {of_client}: {sql}");
        }
    }
}

/// A database in SQL_ASCII converts nothing.
#[test]
fn other_keys_keep_their_groups_if_nothing_is_converted() {
    for (of_database, of_client) in [("UTF8", "UTF8"), ("SQL_ASCII", "UTF8")] {
        let stage = stage(of_database, of_client);
        let values: [&[&str]; 4] = [&["\u{a6}"], &["\u{ffe4}"], &["é"], &["\u{a6}"]];
        for sql in [UPDATE, UPSERT] {
            let tables = Tables {
                fill: "DELETE FROM word; INSERT INTO word VALUES ('\u{a6}', 0), ('\u{ffe4}', 0), ('é', 0)",
                ..TABLES
            };
            let grouped = tables.compare_asks(&stage, &prepared(sql, &values));
            assert!(grouped, "{of_database}: {sql}");
        }
    }
}

/// The text of the first row comes back from the client as that of the last.
#[test]
fn a_queue_in_the_order_of_converted_texts() {
    let stage = stage("EUC_JP", "UTF8");
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE q (id int PRIMARY KEY, name text NOT NULL UNIQUE)");
    let take = "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY name LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    let mut client = stage.client();
    client.ask(&unit(take, &[])).expect_ok(take);
    stage.await_analysis();
    direct.ok(
        "INSERT INTO q VALUES (1, convert_from('\\x8ff3fd', 'EUC_JP')), (2, convert_from('\\xa4a2', 'EUC_JP')), \
         (3, convert_from('\\xadb5', 'EUC_JP'))",
    );
    let taken: Vec<String> = (0..3)
        .map(|_| client.ask(&unit(take, &[])).expect_ok(take).value())
        .collect();
    assert_eq!(taken, ["1", "2", "3"]);
}
