//! `PREPARE`, `EXECUTE`, and names of prepared statements in other texts.

use super::Named;
use crate::statement::parse;

fn named(sql: &str) -> Option<Named> {
    parse(sql).unwrap().named
}

#[test]
fn a_prepare_is_split() {
    let cases = [
        ("PREPARE a AS SELECT 1", "a", vec![], "SELECT 1"),
        (
            "prepare \"A b\" (int, varchar(3), timestamp with time zone) as -- why\n select $1 ; ",
            "A b",
            vec![23, 1043, 1184],
            "select $1",
        ),
        (
            "PREPARE a(pg_catalog.uuid) AS WITH b AS (SELECT 1 AS c) SELECT * FROM b",
            "a",
            vec![2950],
            "WITH b AS (SELECT 1 AS c) SELECT * FROM b",
        ),
    ];
    for (sql, name, types, body) in cases {
        let (name, body) = (name.to_owned(), body.to_owned());
        assert_eq!(
            named(sql),
            Some(Named::Prepare { name, types, body }),
            "{sql}"
        );
    }
}

#[test]
fn a_prepare_with_types_of_the_catalog_is_not_split() {
    for sql in [
        "PREPARE a (mine) AS SELECT $1",
        "PREPARE a (int[]) AS SELECT $1",
        "PREPARE a (other.text) AS SELECT $1",
        "PREPARE a AS SELECT 1; SELECT 2",
    ] {
        let names = ["a".to_owned()].into();
        let executes = false;
        assert_eq!(named(sql), Some(Named::Uses { names, executes }), "{sql}");
    }
    for sql in [
        "SELECT 1",
        "EXPLAIN SELECT 1",
        "GRANT EXECUTE ON FUNCTION f TO a",
        "DEALLOCATE a",
        "DEALLOCATE ALL; SELECT 1",
        "DO 'BEGIN PERFORM a(); END'",
    ] {
        assert_eq!(named(sql), None, "{sql}");
    }
}

#[test]
fn the_name_in_an_execute_is_found() {
    for (sql, name) in [
        ("EXECUTE a", "a"),
        ("/* execute b */ execute \"A b\"(1, 'execute c')", "A b"),
        ("EXPLAIN (ANALYZE) EXECUTE a(1)", "a"),
        ("CREATE TABLE t AS EXECUTE a", "a"),
    ] {
        let Some(Named::Execute {
            name: found, at, ..
        }) = named(sql)
        else {
            panic!("{sql}");
        };
        assert_eq!(found, name, "{sql}");
        assert_eq!(sql[at].trim_matches('"'), name, "{sql}");
    }
}

/// UESCAPE is a part of the name.
#[test]
fn a_name_with_an_escape_character_is_found() {
    for (sql, spelling) in [
        (
            r#"EXECUTE U&"d!0061ta" UESCAPE '!'"#,
            r#"U&"d!0061ta" UESCAPE '!'"#,
        ),
        (
            r#"EXECUTE U&"d!0061ta" /* a */ uescape '!' (1)"#,
            r#"U&"d!0061ta" /* a */ uescape '!'"#,
        ),
        (r#"EXPLAIN EXECUTE U&"d\0061ta""#, r#"U&"d\0061ta""#),
        ("EXECUTE data('uescape')", "data"),
    ] {
        let Some(Named::Execute { name, at, .. }) = named(sql) else {
            panic!("{sql}");
        };
        assert_eq!((&*name, &sql[at]), ("data", spelling));
    }
}

#[test]
fn an_execute_that_is_explained_or_creates_an_empty_table_does_not_run() {
    for (sql, expected) in [
        ("EXECUTE a", true),
        ("EXPLAIN EXECUTE a", false),
        ("EXPLAIN (ANALYZE off) EXECUTE a", false),
        ("EXPLAIN ANALYZE EXECUTE a", true),
        ("CREATE TABLE t AS EXECUTE a", true),
        ("CREATE TABLE t AS EXECUTE a WITH NO DATA", false),
        (
            "EXPLAIN ANALYZE CREATE TABLE t AS EXECUTE a WITH NO DATA",
            false,
        ),
    ] {
        let Some(Named::Execute { runs, .. }) = named(sql) else {
            panic!("{sql}");
        };
        assert_eq!(runs, expected, "{sql}");
    }
}

#[test]
fn names_in_texts_that_are_not_split_are_found() {
    for (sql, expected) in [
        ("EXECUTE a; EXPLAIN EXECUTE \"A b\"(1)", &["a", "A b"][..]),
        ("DEALLOCATE a; PREPARE a AS SELECT 1", &["a"]),
        ("CREATE TABLE t AS EXECUTE a; DEALLOCATE ALL", &["a"]),
        ("DO $$BEGIN EXECUTE 'execute Ab(1)'; END$$", &["Ab", "ab"]),
        ("SELECT 1; DO 'BEGIN EXECUTE ''execute b''; END'", &["b"]),
    ] {
        let Some(Named::Uses { names, executes }) = named(sql) else {
            panic!("{sql}");
        };
        assert_eq!(
            executes,
            sql != "DEALLOCATE a; PREPARE a AS SELECT 1",
            "{sql}"
        );
        for name in expected {
            assert!(names.contains(*name), "{sql}: {names:?}");
        }
    }
}
