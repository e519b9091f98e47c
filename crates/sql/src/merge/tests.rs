//! Which INSERTs are rewritten, and how. End-to-end tests check the effect of the statements.

use super::{Insert, rewrite};
use crate::distribution::{Distribution, DistributionRefusal, PerMemberParameter};
use crate::facts::{Column, Extent, TableFacts};
use crate::type_name::TypeName;
use crate::{Effect, parse};

fn insert(sql: &str) -> Option<Insert> {
    parse(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
        .insert
}

fn table() -> TableFacts {
    let column = |name: &str| Column {
        name: name.to_owned(),
        ..Column::default()
    };
    TableFacts {
        schema: "s".to_owned(),
        name: "t".to_owned(),
        extent: Extent {
            tree: vec![16_400],
            ..Extent::default()
        },
        columns: ["id", "a", "b"].map(column).into(),
        ..TableFacts::default()
    }
}

fn rewritten(
    sql: &str,
    parameters: &[&str],
    returning: usize,
) -> Result<Distribution, DistributionRefusal> {
    let named = |sql: &&str| TypeName {
        sql: (*sql).to_owned(),
        array: sql.ends_with("[]"),
        builtin: true,
        collatable: false,
    };
    let parameters: Vec<_> = parameters.iter().map(named).collect();
    let returning = vec![named(&"text"); returning];
    rewrite(&insert(sql).unwrap(), &table(), &parameters, &returning)
}

#[test]
fn an_insert_of_one_row_has_its_parts_found() {
    let one =
        insert("INSERT INTO s.t AS x (a, b) VALUES ($1, DEFAULT) RETURNING x.a, id + $2").unwrap();
    assert_eq!(one.columns, ["a", "b"]);
    assert!(one.rows[0][0].is_some() && one.rows[0][1].is_none());
    assert_eq!((one.returning.len(), one.exprs().len()), (2, 3));
    assert!(insert("INSERT INTO t VALUES (1, now(), nextval('q'))").is_some());
}

#[test]
fn other_inserts_are_not_supported() {
    for sql in [
        "INSERT INTO t (a, b) VALUES (1, 2), (3)",
        "INSERT INTO t (a) SELECT 1",
        "INSERT INTO t DEFAULT VALUES",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT ON CONSTRAINT c DO NOTHING",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) WHERE b > 0 DO NOTHING",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (lower(a)) DO NOTHING",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = (SELECT 1)",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.*",
        "INSERT INTO excluded (a) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 2",
        "INSERT INTO t (id) OVERRIDING SYSTEM VALUE VALUES (1)",
        "INSERT INTO t (a[1]) VALUES (1)",
        "INSERT INTO t (a) VALUES ((SELECT 1))",
        "WITH c AS (SELECT 1) INSERT INTO t (a) VALUES (1)",
    ] {
        assert!(insert(sql).is_none(), "{sql}");
    }
}

#[test]
fn values_differ_per_member_and_returning_is_shared() {
    let sql = "INSERT INTO t VALUES (DEFAULT, upper($1), $2) RETURNING id, $3 || a";
    let distribution = rewritten(sql, &["text", "integer[]", "text"], 2).unwrap();
    assert_eq!(distribution.shared, [3]);
    let per_member = [(1, false), (2, true)].map(|(number, as_text)| PerMemberParameter {
        numbers: vec![number],
        as_text,
    });
    assert_eq!(distribution.per_member, per_member);
    let text = &distribution.text;
    assert_eq!(parse(text).unwrap().effect, Effect::Write);
    for part in [
        r#"INSERT INTO "s"."t" AS u ("a", "b") SELECT (upper((k.p1))), ((k.p2::integer[])) FROM facts"#,
        "pg_catalog.unnest($4::pg_catalog.int4[]), pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::pg_catalog.text[])) AS k(pos, p1, p2)",
        r#"(($3::text) || (u."a"))"#,
        "OPERATOR(pg_catalog.<>) $1::pg_catalog.int8",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn a_row_without_parameters_is_repeated() {
    let text = rewritten("INSERT INTO t (a) VALUES (now())", &[], 0)
        .unwrap()
        .text;
    assert!(
        text.contains("generate_series(1, $1::pg_catalog.int8) AS k(pos)"),
        "{text}"
    );
}

#[test]
fn a_literal_must_not_depend_on_fields_of_an_interval() {
    let cast = |to: &str| {
        let sql = format!("INSERT INTO t (a) VALUES (now() + $1::{to})");
        rewritten(&sql, &["interval"], 0)
    };
    assert_eq!(
        cast("interval minute").unwrap_err(),
        DistributionRefusal::Interval
    );
    assert!(cast("interval").is_ok());
    let constant = "INSERT INTO t (a) VALUES (now() + interval '5' minute)";
    assert!(rewritten(constant, &[], 0).is_ok());
    let mut months = table();
    months.columns[1].base_type_oid = 1186;
    months.columns[1].type_modifier = 400;
    let of = |sql: &str| rewrite(&insert(sql).unwrap(), &months, &[], &[]);
    assert_eq!(
        of("INSERT INTO t (a) VALUES ('5')").unwrap_err(),
        DistributionRefusal::Interval
    );
    assert!(of("INSERT INTO t (b) VALUES ('5')").is_ok());
}

#[test]
fn inserts_that_cannot_be_merged_are_refused() {
    let default = rewritten("INSERT INTO t (a) VALUES (DEFAULT)", &[], 0);
    assert!(matches!(default, Err(DistributionRefusal::Column(_))));
    let many = rewritten("INSERT INTO t VALUES (1, 2, 3, 4)", &[], 0);
    assert_eq!(
        many.unwrap_err(),
        DistributionRefusal::Column("number 4".to_owned())
    );
    let boxes = rewritten("INSERT INTO t (a) VALUES ($1)", &["box"], 0);
    assert_eq!(boxes.unwrap_err(), DistributionRefusal::Type(1));
    let mut partition = table();
    partition.is_partition = true;
    let plain = insert("INSERT INTO t (a) VALUES (1)").unwrap();
    assert_eq!(
        rewrite(&plain, &partition, &[], &[]).unwrap_err(),
        DistributionRefusal::Table("t".to_owned(), "a partition".to_owned())
    );
}

#[test]
fn rows_of_one_form_are_bound_row_by_row() {
    let types = ["integer", "text", "integer", "text"];
    let sql = "INSERT INTO t (a, b) VALUES ($1, upper($2)), ($3, upper($4)) RETURNING id";
    let distribution = rewritten(sql, &types, 1).unwrap();
    let numbers: Vec<_> = distribution
        .per_member
        .iter()
        .map(|parameter| parameter.numbers.clone())
        .collect();
    assert_eq!(numbers, [[1, 3], [2, 4]]);
    assert!(!distribution.single && distribution.limit == constant("2"));
    let part = "SELECT (k.p1), (upper((k.p2))) FROM facts";
    let text = distribution.text.replace("((k.p1))", "(k.p1)");
    assert!(text.contains(part), "{text}");
}

fn constant(text: &str) -> crate::KeyValue {
    crate::KeyValue::Constant {
        kind: crate::LiteralKind::Int4,
        text: text.to_owned(),
    }
}

#[test]
fn rows_of_different_forms_are_refused() {
    for (sql, types) in [
        (
            "INSERT INTO t (a, b) VALUES ($1, $2), ($3, DEFAULT)",
            ["integer"; 4],
        ),
        (
            "INSERT INTO t (a, b) VALUES ($1, $1), ($2, $3)",
            ["integer"; 4],
        ),
        (
            "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $3)",
            ["integer"; 4],
        ),
        (
            "INSERT INTO t (a, b) VALUES ($1, 1), ($2, 2)",
            ["integer"; 4],
        ),
        (
            "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)",
            ["integer", "text", "integer", "bigint"],
        ),
    ] {
        assert_eq!(
            rewritten(sql, &types, 0).unwrap_err(),
            DistributionRefusal::Rows,
            "{sql}"
        );
    }
    let shared = "INSERT INTO t (a) VALUES ($1), ($2) RETURNING id + $1";
    assert_eq!(
        rewritten(shared, &["integer"; 2], 1).unwrap_err(),
        DistributionRefusal::Returning
    );
}
