//! References of texts, and robustness of the parser.

use std::io::Write as _;

use proptest::prelude::*;

use super::{Statement, parse};
use crate::name::Name;

fn parsed(sql: &str) -> Statement {
    parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn spelled(names: &[Name]) -> Vec<String> {
    names
        .iter()
        .map(|name| {
            name.schema
                .iter()
                .chain([&name.name])
                .cloned()
                .collect::<Vec<_>>()
                .join(".")
        })
        .collect()
}

fn relations(sql: &str) -> Vec<String> {
    spelled(&parsed(sql).relations)
}

#[test]
fn relations_do_not_include_ctes_in_their_scope() {
    assert_eq!(
        relations("SELECT * FROM a JOIN s.b ON true, a c"),
        ["a", "s.b"]
    );
    assert_eq!(
        relations("WITH a AS (SELECT * FROM b) SELECT * FROM a"),
        ["b"]
    );
    assert_eq!(
        relations("WITH a AS (SELECT * FROM a) SELECT * FROM a"),
        ["a"]
    );
    assert_eq!(
        relations("WITH RECURSIVE a AS (SELECT * FROM a) SELECT * FROM a"),
        [""; 0]
    );
    assert_eq!(relations("WITH a AS (SELECT 1) SELECT * FROM s.a"), ["s.a"]);
    assert_eq!(
        relations("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT (SELECT 1 FROM b)"),
        [""; 0]
    );
    assert_eq!(
        relations("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x, a"),
        ["a"]
    );
    assert_eq!(
        relations("WITH q AS (DELETE FROM t RETURNING a) INSERT INTO q SELECT * FROM q"),
        ["t", "q"]
    );
    assert_eq!(relations("SELECT * FROM a x FOR UPDATE OF x"), ["a"]);
    assert_eq!(relations("DROP TABLE a, s.b"), ["a", "s.b"]);
    assert_eq!(
        relations("UPDATE \"T\" SET a = 1 WHERE b IN (SELECT c FROM d)"),
        ["T", "d"]
    );
}

#[test]
fn functions_operators_and_casts_are_found() {
    let found = parsed(
        "SELECT f(x), pg_catalog.g(1), f(2), now(), current_timestamp, a + 1, a OPERATOR(s.@@) b, a BETWEEN 1 AND 2,
                a IN (1), a LIKE 'x', '1'::int, CAST(a AS s.t), a = ANY (SELECT 1)
         FROM t ORDER BY a USING <",
    );
    assert_eq!(spelled(&found.functions), ["f", "pg_catalog.g", "now"]);
    let mut operators = spelled(&found.operators);
    operators.sort();
    assert_eq!(operators, ["+", "<", "<=", "=", ">=", "s.@@", "~~"]);
    assert_eq!(spelled(&found.casts_to), ["pg_catalog.int4", "s.t"]);
}

#[test]
fn statements_are_counted() {
    for (sql, count) in [
        ("", 0),
        ("/* */ ;;", 0),
        ("SELECT 1;", 1),
        ("BEGIN; SELECT 1; COMMIT", 3),
    ] {
        assert_eq!(parsed(sql).statements, count, "{sql}");
    }
}

#[test]
fn invalid_texts_are_rejected() {
    for sql in [
        "SELEC 1",
        "SELECT 'a",
        "SELECT 1 \0",
        "UPDATE a b c SET d = 1",
    ] {
        assert!(parse(sql).is_err(), "{sql}");
    }
}

#[test]
fn parameters_in_place_of_constants_are_marked() {
    let needing = [
        "SELECT a FROM t ORDER BY $1",
        "SELECT a FROM t UNION SELECT b FROM s ORDER BY $1 DESC",
        "SELECT a + $1 FROM t GROUP BY a + $2",
        "SELECT DISTINCT a + $1 FROM t ORDER BY a + $2",
        "SELECT DISTINCT ON ($1) a FROM t",
        "SELECT a::numeric($1) FROM t",
        "SELECT (SELECT b FROM s ORDER BY $1) FROM t",
        "INSERT INTO t VALUES ($1) ON CONFLICT (a) WHERE b = $2 DO NOTHING",
        "EXPLAIN SELECT $1",
        "CREATE TABLE t AS SELECT $1",
    ];
    for sql in needing {
        assert!(parsed(sql).needs_constants, "{sql}");
    }
    let free = [
        "SELECT a + $1 FROM t WHERE b = $2 ORDER BY a + $3 LIMIT $4",
        "SELECT a FROM t ORDER BY 1",
        "SELECT count(*) FROM t WHERE a = $1 GROUP BY b",
        "UPDATE t SET a = a + $1 WHERE b = $2",
        "INSERT INTO t VALUES ($1) ON CONFLICT (a) DO UPDATE SET b = $2 WHERE t.c = $3",
    ];
    for sql in free {
        assert!(!parsed(sql).needs_constants, "{sql}");
    }
}

#[test]
fn deep_nesting_does_not_crash() {
    let deep = 20_000;
    let texts = [
        format!("SELECT {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("SELECT {}1", "1 + ".repeat(deep)),
        format!("SELECT {}1", "- ".repeat(deep)),
        format!("SELECT {}1", "NOT ".repeat(deep)),
        format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(deep)),
        format!("SELECT {}1{}", "ARRAY[".repeat(deep), "]".repeat(deep)),
        format!("SELECT 1 WHERE {} x", "x OR y AND ".repeat(deep)),
    ];
    for sql in texts {
        // The result does not matter, only that the parser returns.
        let _ = std::thread::spawn(move || parse(&sql).is_ok())
            .join()
            .unwrap();
    }
}

#[test]
fn standard_error_works_after_parsing_in_many_threads() {
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(|| {
                for _ in 0..200 {
                    assert!(parse("SELECT 1").is_ok());
                    assert!(parse("SELEC").is_err());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(writeln!(std::io::stderr(), "still open").is_ok());
}

/// Words of the grammar in any order: mostly invalid, sometimes a statement.
fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "select",
        "update",
        "set",
        "drop",
        "table",
        "function",
        "trigger",
        "rule",
        "on",
        "t",
        "a.b",
        "*",
        "t.*",
        "where",
        "=",
        "1",
        "'x'",
        "$1",
        "(",
        ")",
        ",",
        ";",
        "with",
        "as",
        "insert",
        "into",
        "values",
        "delete",
        "from",
        "returning",
        "create",
        "temp",
        "reset",
        "all",
        "explain",
        "analyze",
        "declare",
        "cursor",
        "for",
        "execute",
        "alter",
        "rename",
        "to",
        "is",
        "null",
        "case",
        "when",
        "then",
        "end",
        "begin",
        "commit",
        "grant",
        "aggregate",
        "owner",
        "schema",
    ]);
    prop::collection::vec(word, 0..10).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(paceline_testing::cases(20_000))]

    #[test]
    fn no_text_crashes_the_parser(sql in words()) {
        if let Ok(statement) = parse(&sql) {
            prop_assert!(statement.update.is_none() || statement.statements == 1);
        }
    }
}

#[test]
fn constants_that_refer_to_the_time_of_parsing_are_found() {
    for sql in [
        "SELECT 'now'::timestamptz",
        "INSERT INTO t VALUES ($1, ' Today 10:00')",
        "SELECT timestamp 'YESTERDAY'",
        "UPDATE t SET at = CASE WHEN true THEN $$04:05 tomorrow$$ END",
    ] {
        assert!(parse(sql).unwrap().depends_on_parse_time, "{sql}");
    }
    for sql in [
        "SELECT now(), current_timestamp",
        "SELECT today FROM tomorrow",
        "SELECT 'unknown', 'nowhere', '2020-01-01'::date",
        "SELECT $1::timestamptz",
    ] {
        assert!(!parse(sql).unwrap().depends_on_parse_time, "{sql}");
    }
}
