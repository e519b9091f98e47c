//! `to_sql` preserves the meaning of expressions, whatever replaces their columns and parameters.

use pg_query::NodeEnum;
use proptest::prelude::*;

use super::{Expr, Terms, column_name, for_each_leaf, single_target};
use crate::parser;
use crate::quote::quote_ident;
use crate::tree::Record;
use crate::type_name::TypeName;

fn parsed(sql: &str) -> Expr {
    Expr::parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn identity(expr: &Expr) -> String {
    expr.to_sql(&quote_ident, &|number| format!("${number}"))
        .unwrap()
}

/// Expressions that a fold must support, in each syntax that the deparser has to handle.
const EXPRESSIONS: &[&str] = &[
    "a",
    "1",
    "-1",
    "- a",
    "-(-1)",
    "- (- a)",
    "1 - -1",
    "'x'",
    "'it''s'",
    "'a\\b'",
    "E'a\\nb'",
    "NULL",
    "true",
    "$1",
    "1.5",
    "1e10",
    "3000000000",
    "a + b * 2",
    "(a + b) * 2",
    "a - (b - 2)",
    "a - b - 2",
    "a ^ b ^ 2",
    "a || 'x' || $1",
    "a % 2 = 0",
    "a = 1 OR b = 2 AND c = 3",
    "(a = 1 OR b = 2) AND NOT c",
    "NOT (a AND b)",
    "(a = b) = c",
    "(a < b) IS TRUE",
    "a IS NULL",
    "(a + 1) IS NOT NULL",
    "(a IS NULL) IS NOT FALSE",
    "a IS UNKNOWN",
    "a IS DISTINCT FROM b",
    "a IS NOT DISTINCT FROM $1",
    "(a IS NULL) = (b IS NULL)",
    "a IN (1, 2, $1)",
    "a NOT IN (1)",
    "(a IN (1)) = b",
    "(a, b) IN ((1, 2), (3, $1))",
    "a BETWEEN 1 AND 2",
    "a NOT BETWEEN b AND c + 1",
    "a BETWEEN SYMMETRIC 2 AND 1",
    "(a BETWEEN 1 AND 2) = b",
    "a LIKE 'x%'",
    "a NOT LIKE b ESCAPE '!'",
    "a ILIKE $1",
    "a SIMILAR TO 'x'",
    "a ~ '^x'",
    "a !~* 'x'",
    "a AT TIME ZONE 'UTC'",
    "(a AT TIME ZONE $1)::date",
    "a::int",
    "a::int::text",
    "(a + 1)::int",
    "-(1::int)",
    "(-1)::int",
    "-1::int",
    "a::numeric(10,2)",
    "a::varchar(5)",
    "a::int[]",
    "a::timestamp(3) with time zone",
    "a::interval day to second(3)",
    "a::bit(3)",
    "a::s.t",
    "CAST($1 AS double precision)",
    "'1'::int",
    "date '2024-01-01'",
    "interval '1 day' + a",
    "a::\"T x\"",
    "coalesce(a, b, 0)",
    "nullif(a, 0)",
    "greatest(a, 1)",
    "least(a, $2)",
    "CASE WHEN a > 1 THEN b ELSE c END",
    "CASE a WHEN 1 THEN 'x' WHEN $1 THEN 'y' END",
    "(CASE WHEN a THEN 1 END) + 1",
    "ARRAY[a, 1]",
    "ARRAY[]::int[]",
    "ARRAY[[1, a], [2, b]]",
    "array_append(a, $1)",
    "a[1]",
    "a[1:2]",
    "a[:$1]",
    "a[b][2]",
    "a -> 'x' ->> 'y'",
    "a ->> $1",
    "(a -> 'x') = b",
    "a @> '{\"x\": 1}'",
    "a ? 'x'",
    "a ?| ARRAY['x']",
    "a #>> '{x,y}'",
    "a || jsonb_build_object('x', b)",
    "jsonb_set(a, '{x}', $1)",
    "a = ANY (ARRAY[1, 2])",
    "a <> ALL ($1)",
    "a = ANY (b)",
    "a OPERATOR(pg_catalog.+) b",
    "OPERATOR(s.@@) a",
    "@ a",
    "|/ a",
    "a COLLATE \"C\" < b",
    "(a || b) COLLATE \"C\"",
    "f()",
    "f(a, b => 2)",
    "s.f(VARIADIC a)",
    "\"F\"(a)",
    "now()",
    "CURRENT_TIMESTAMP",
    "CURRENT_TIMESTAMP(3)",
    "LOCALTIME",
    "CURRENT_USER",
    "extract(epoch FROM a)",
    "date_part('year', a)",
    "substring(a FROM 1 FOR 2)",
    "substring(a, 1)",
    "substring(a SIMILAR 'x' ESCAPE '!')",
    "position('x' IN a)",
    "overlay(a PLACING 'x' FROM 2)",
    "trim(both 'x' FROM a)",
    "trim(leading FROM a)",
    "trim(trailing $1 FROM a)",
    "normalize(a, NFC)",
    "a IS NORMALIZED",
    "(a, b) OVERLAPS ($1, $2)",
    "collation for (a)",
    "ROW(a, 1)",
    "(a, 1) = (b, $1)",
    "ROW(a) IS NULL",
    "(a, b) IS NOT DISTINCT FROM (1, 2)",
    "\"A b\" + \"select\"",
    "\"a\"\"b\"",
    "q0v0z + 'q1v'",
    "a >= 0 AND a <= 100 AND b IS NOT NULL",
    "a << 1 | 2 & 3 # 4",
    "~ a",
    "a <-> b < 5",
    "xmin1",
    "pg_catalog.upper(a)",
    "a::pg_catalog.int4",
    "B'101'",
    "X'1F'",
    "U&'\\0061'",
    "a -- comment",
    "left(a, 1)",
    "\"left\"(a, 1)",
    "a IS JSON IS TRUE",
];

fn is_supported(sql: &str) -> bool {
    // A kind of node that is not listed as supported.
    sql != "a IS JSON IS TRUE"
}

#[test]
fn an_expression_is_the_same_after_deparsing() {
    for sql in EXPRESSIONS.iter().filter(|sql| is_supported(sql)) {
        let expr = parsed(sql);
        let text = identity(&expr);
        let again = parsed(&text);
        assert_eq!(again.tree(), expr.tree(), "{sql} became {text}");
        assert_eq!(
            (again.columns(), again.parameters()),
            (expr.columns(), expr.parameters()),
            "{sql}"
        );
    }
}

/// The node of any expression, supported or not.
fn node_of(sql: &str) -> NodeEnum {
    single_target(parser::parse(&format!("SELECT {sql}")).unwrap()).unwrap()
}

fn replaces_in_text_as_in_tree(sql: &str) -> (Record, Record) {
    let column = |name: &str| format!("x < s.{}", quote_ident(name));
    let parameter = |number: u32| format!("{number} - 'q0v0z'");
    let expr = parsed(sql);
    let mut expected = expr.node.as_ref().clone();
    for_each_leaf(&mut expected, &mut |leaf| {
        *leaf = match leaf {
            NodeEnum::ColumnRef(reference) => node_of(&column(&column_name(reference, None)?)),
            NodeEnum::ParamRef(reference) => node_of(&parameter(reference.number.unsigned_abs())),
            _ => return Ok(()),
        };
        Ok(())
    })
    .unwrap();
    (
        Record::of_node(&node_of(&expr.to_sql(&column, &parameter).unwrap())),
        Record::of_node(&expected),
    )
}

#[test]
fn replacing_in_the_text_equals_replacing_in_the_tree() {
    for sql in EXPRESSIONS.iter().filter(|sql| is_supported(sql)) {
        let (found, expected) = replaces_in_text_as_in_tree(sql);
        assert_eq!(found, expected, "{sql}");
    }
}

#[test]
fn replacements_are_parenthesized() {
    let expr = parsed("a * $1 - a[$2] + $11");
    let text = expr
        .to_sql(&|name| format!("s.{name} + 1"), &|number| {
            format!("p{number} - q0v0z")
        })
        .unwrap();
    assert_eq!(
        text,
        "((s.a + 1) * (p1 - q0v0z) - (s.a + 1)[(p2 - q0v0z)] + (p11 - q0v0z))"
    );
}

#[test]
fn columns_and_parameters_are_listed_in_order() {
    let expr = parsed("b + a * $3 + b - \"A\" + $1 * $3");
    assert_eq!(expr.columns(), ["b", "a", "A"]);
    assert_eq!(expr.parameters(), [3, 1]);
    assert_eq!(expr.as_column(), None);
    assert_eq!(parsed("\"A\"").as_column(), Some("A"));
    assert_eq!(parsed("f(a) + g(1)").functions().len(), 2);
    assert_eq!(parsed("a + 1 < 2").operators().len(), 2);
    assert_eq!(parsed("a::int").casts_to().len(), 1);
}

#[test]
fn expressions_over_more_than_one_row_are_rejected() {
    let texts = [
        "",
        "1, 2",
        "1 AS a",
        "a FROM t",
        "*",
        "t.*",
        "t.a",
        "(SELECT 1)",
        "EXISTS (SELECT 1)",
        "a IN (SELECT 1)",
        "count(*)",
        "count(DISTINCT a)",
        "sum(a) OVER ()",
        "sum(a) FILTER (WHERE b)",
        "string_agg(a, ',' ORDER BY b)",
        "ctid",
        "xmin = 1",
        "tableoid",
        "GROUPING(a)",
        "(a).*",
        "(a).f",
        "(a[1]).f",
        "(f(a)).g",
        "(ARRAY[1])[1]",
        "DEFAULT",
        "1; SELECT 2",
        "1) FROM (t",
        "1 LIMIT 1",
        "$0",
        "a::numeric($1)",
        "1) AS (a",
        "ARRAY(SELECT 1)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)",
        "t.a.b",
        "row(t.*)",
        "a IS JSON",
    ];
    for sql in texts {
        assert!(Expr::parse(sql).is_err(), "{sql}");
    }
}

fn operand() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a", "b", "$1", "1", "-1", "'x'", "1.5", "NULL", "f(a)", "a[1]", "true",
    ])
    .prop_map(str::to_owned)
}

/// Random expressions with all parentheses, so that the text determines the tree.
fn expression() -> impl Strategy<Value = String> {
    operand().prop_recursive(5, 24, 3, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "^", "%", "||", "=", "<", ">=", "<>", "AND", "OR", "LIKE", "NOT ILIKE", "IS DISTINCT FROM",
            "->>", "@>", "?", "AT TIME ZONE", "OPERATOR(s.+)", "<->", "~",
        ]);
        let unary = prop::sample::select(vec!["-", "NOT", "~", "@", "+"]);
        let after = prop::sample::select(vec![
            "IS NULL", "IS NOT TRUE", "::int", "::numeric(5,2)", "COLLATE \"C\"", "BETWEEN a AND 3", "NOT IN (1, b)",
            "= ANY (b)", "SIMILAR TO 'x'", "NOT BETWEEN SYMMETRIC 1 AND 2",
        ]);
        prop_oneof![
            4 => (inner.clone(), binary, inner.clone()).prop_map(|(left, op, right)| format!("({left}) {op} ({right})")),
            1 => (unary, inner.clone()).prop_map(|(op, arg)| format!("{op} ({arg})")),
            2 => (inner.clone(), after).prop_map(|(arg, op)| format!("({arg}) {op}")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("CASE WHEN {a} THEN {b} ELSE {c} END")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("coalesce({a}, {b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) BETWEEN ({b}) AND ({a})")),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("({a}) IN ({b}, {a})")),
        ]
    })
}

proptest! {
    #![proptest_config(paceline_testing::cases(4_000))]

    #[test]
    fn a_random_expression_is_the_same_after_deparsing(sql in expression()) {
        let expr = parsed(&sql);
        let again = parsed(&identity(&expr));
        prop_assert_eq!(again.tree(), expr.tree(), "{} became {}", sql, identity(&expr));
        let (found, expected) = replaces_in_text_as_in_tree(&sql);
        prop_assert_eq!(found, expected, "{}", sql);
    }
}

#[test]
fn parts_that_depend_on_no_column_are_found() {
    let named = |sql: &str| TypeName {
        sql: sql.to_owned(),
        array: false,
        builtin: true,
        collatable: false,
    };
    let types = ["integer", "text", "numeric"].map(named);
    let parts = |sql: &str| -> Vec<String> {
        let parts = Expr::parse(sql).unwrap().parts_without_columns(Terms {
            parameters: &types,
            is_column: &|n| n > 8,
            floats: true,
        });
        parts
            .iter()
            .map(|part| {
                part.to_sql(&|c| c.to_owned(), &|n| format!("${n}"))
                    .unwrap()
            })
            .collect()
    };
    for none in [
        "a + 1",
        "$1",
        "$1::int",
        "a + $1::int",
        "$9 + 1",
        "coalesce(a, $1)",
        "a IN (1, $2)",
        "CASE WHEN a THEN 1 END",
    ] {
        assert!(parts(none).is_empty(), "{none}: {:?}", parts(none));
    }
    assert_eq!(parts("a + $1::smallint").len(), 1, "a cast that may fail");
    assert_eq!(parts("a + $2::int").len(), 1, "this cast, too");
    assert_eq!(
        parts("a + coalesce($1, 0)::smallint").len(),
        1,
        "so may this"
    );
    assert_eq!(parts("a + ARRAY[$1]::smallint[]").len(), 1, "and this");
    assert!(parts("a + '7'::int").is_empty(), "it fails for all alike");
    assert_eq!(parts("a + (CASE WHEN true THEN $1 END)::smallint").len(), 1);
    assert_eq!(parts("a + $3"), ["(($3)::double precision)"]);
    assert_eq!(parts("a > $1 * 1e300").len(), 2, "also as numeric");
    assert!(parts("a + 1e300").is_empty() && parts("$3").is_empty());
    assert_eq!(parts("a + 60 / ($1 - 4)"), ["(60 / (($1) - 4))"]);
    assert_eq!(parts("1 / $1 > $2 + 1"), ["(1 / ($1) > ($2) + 1)"]);
    assert_eq!(
        parts("a IN (1, $2 * 2) AND now() > b"),
        ["(($2) * 2)", "(now())"]
    );
    assert_eq!(
        parts("CASE WHEN a = 1 THEN 1 / 0 ELSE $9 + upper($1) END"),
        ["(1 / 0)", "(upper(($1)))"]
    );
    assert_eq!(parts("a[$1 + 1]"), ["(($1) + 1)"]);
}

#[test]
fn only_comparisons_cannot_fail() {
    for (sql, may_fail) in [
        ("a", false),
        ("NOT a AND b IS NOT NULL", false),
        (
            "a >= $1 OR b <> 'x' OR c = 3 OR d = 1.5 OR e IS TRUE",
            false,
        ),
        ("a IN (1, 2, $3)", false),
        ("a < b", false),
        ("a / b > 1", true),
        ("a - $1 >= 0", true),
        ("a ~ 'x'", true),
        ("a LIKE 'x'", true),
        ("lower(a) = 'x'", true),
        ("a::int = 1", true),
        ("coalesce(a, 1) = 1", true),
    ] {
        assert_eq!(Expr::parse(sql).unwrap().may_fail(), may_fail, "{sql}");
    }
}
