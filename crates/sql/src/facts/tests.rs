//! The queries as text. End-to-end tests check their results.

use super::{
    Added, CatalogVersion, Compared, Extent, Names, VersionSql, apart_sql, catalog_version_sql,
    columns_sql, extent_sql, fits_groups_sql, keys_sql, no_names_sql, same_on_replicas_sql,
};
use crate::{Effect, Expr, Name, parse};

fn name(schema: Option<&str>, name: &str) -> Name {
    Name {
        schema: schema.map(str::to_owned),
        name: name.to_owned(),
    }
}

/// All questions, which only read.
fn read_questions(version: VersionSql) -> String {
    let questions = version.questions();
    questions.iter().for_each(|sql| assert_reads(sql));
    questions.join("; ")
}

fn assert_reads(sql: &str) {
    let statement = parse(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    assert_eq!((statement.statements, statement.effect), (1, Effect::Read));
}

#[test]
fn names_of_assigned_columns_are_quoted() {
    for columns in [vec![], vec!["state".to_owned(), "it's".to_owned()]] {
        let sql = apart_sql(&name(None, "q"), &columns);
        assert_reads(&sql);
        for column in columns {
            assert!(sql.contains(&crate::quote_literal(&column)), "{sql}");
        }
    }
}

#[test]
fn the_catalog_version_covers_the_objects_of_a_table() {
    let table = name(Some("s"), "t");
    assert_reads(&keys_sql(&table));
    assert_reads(&columns_sql(&table));
    assert_reads(&extent_sql(&table));
    let simple = Extent {
        tree: vec![16_400],
        ..Extent::default()
    };
    let version = |extent: &Extent| read_questions(catalog_version_sql(&table, extent));
    let sql = version(&simple);
    for catalog in ["pg_class", "pg_attribute", "pg_index"] {
        assert!(sql.contains(catalog), "{sql}");
    }
    let further = [
        (
            "pg_trigger",
            Extent {
                triggers: true,
                ..simple.clone()
            },
        ),
        (
            "pg_inherits",
            Extent {
                children: true,
                ..simple.clone()
            },
        ),
        (
            "pg_enum",
            Extent {
                types: vec![16_500],
                ..simple.clone()
            },
        ),
        (
            "contypid",
            Extent {
                types: vec![16_500],
                ..simple.clone()
            },
        ),
        (
            "conrelid",
            Extent {
                tree: vec![16_400, 16_401],
                ..simple.clone()
            },
        ),
        (
            "{16400,16401}",
            Extent {
                tree: vec![16_400, 16_401],
                ..simple.clone()
            },
        ),
    ];
    for (part, extent) in further {
        assert!(!sql.contains(part), "{sql}");
        assert!(version(&extent).contains(part), "{part}");
    }
}

/// The part of the check that needs no catalog.
#[test]
fn some_functions_and_types_do_not_fit_groups() {
    let unfit = |functions: &[&str], types: &[&str]| {
        let names = |all: &[&str]| -> Vec<Name> { all.iter().map(|n| name(None, n)).collect() };
        let sql = fits_groups_sql(&names(functions), &names(types));
        assert_reads(&sql);
        let count = sql
            .strip_prefix("SELECT ")
            .and_then(|sql| sql.split_once(' '));
        count.map_or(String::new(), |(count, _)| count.to_owned())
    };
    assert_eq!(unfit(&["lower", "nextval"], &["int4", "regclass"]), "0");
    assert_eq!(unfit(&["pg_column_size", "lower"], &["regtype"]), "2");
    assert_eq!(unfit(&[], &["aclitem", "regrole"]), "2");
    assert_reads(&no_names_sql(&name(Some("s"), "t")));
}

#[test]
fn the_catalog_version_covers_the_objects_of_names() {
    let expr = |text| Expr::parse(text).expect("an expression");
    let exprs = [
        expr("lower(a) || 'x'"),
        expr("nextval('my.\"Seq\"'::regclass) + b::state"),
        expr("c::pg_catalog.int4 % 2 = 1"),
        expr("d + 'other'::regclass::oid::int"),
    ];
    let names = Names::of(&exprs);
    assert_reads(&names.added_sql());
    assert_reads(&names.only_extensions_sql());
    for added in [false, true] {
        let added = Added {
            operators: added,
            casts: added,
        };
        let sql = read_questions(names.catalog_version_sql(added));
        for part in [
            "'lower'",
            "'nextval'",
            "'||'",
            "'+'",
            "'%'",
            "'='",
            r#"to_regtype('"state"')"#,
            r#"to_regclass('my."Seq"')"#,
            "to_regclass('other')",
            "current_schemas",
            "'TimeZone'",
        ] {
            assert!(sql.contains(part), "{part} is missing: {sql}");
        }
        assert!(!sql.contains("int4\""), "{sql}");
    }
    // Groups always compare keys.
    let none: [Expr; 0] = [];
    assert!(Names::of(&none).added_sql().contains("'='"));
}

#[test]
fn the_facts_of_a_table_are_compared_after_another_analysis() {
    let compared = |sql: &str, value: &str| Compared {
        sql: sql.to_owned(),
        value: value.to_owned(),
    };
    let version = |value| CatalogVersion {
        always: compared("'a'::pg_catalog.text", "a"),
        at_analysis: Some(compared("'b'::pg_catalog.text", value)),
    };
    let other = CatalogVersion::new("'c'::pg_catalog.text".to_owned(), "c".to_owned());
    let sql = version("it's").and(&other).facts_sql(1, " AND true");
    // Another Paceline between this one and the server sees that nothing is changed.
    assert_reads(&sql);
    let (_, query) = sql.split_once("tsquery, '").expect("a text");
    let query = query.split("') OPERATOR").next().expect("its end");
    let query = query.replace("''", "'");
    assert!(query.ends_with(" 'it''s'"), "{query}");
    assert_reads(&query);
    let sql = version(r"it's \ both").facts_sql(1, "");
    assert!(parse(&sql).is_ok(), "{sql}");
}

/// Some are keywords for the parser.
#[test]
fn functions_that_show_the_server_differ_on_replicas() {
    for (sql, counted) in [
        ("SELECT system_user", 1),
        ("SELECT pg_backend_pid(), inet_server_addr()", 2),
        ("SELECT pg_stat_get_numscans(1)", 1),
        ("SELECT unicode_version(), pg_numa_available()", 2),
        ("SELECT abbrev FROM pg_timezone_abbrevs_zone()", 1),
        ("SELECT upper('a'), session_user", 0),
    ] {
        let functions = parse(sql).unwrap().functions;
        let question = same_on_replicas_sql(&[], &functions);
        assert!(question.contains(&format!("SELECT {counted} = 0")), "{sql}");
    }
}
