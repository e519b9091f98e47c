//! UPDATEs that a fold supports, and others.

use super::{KeyEquality, Returning, Update};
use crate::KeyValue;
use crate::expr::Expr;
use crate::literals::LiteralKind;
use crate::statement::parse;

fn update(sql: &str) -> Option<Update> {
    parse(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
        .update
}

fn parts(sql: &str) -> Update {
    update(sql).unwrap_or_else(|| panic!("no parts: {sql}"))
}

fn text(expr: &Expr) -> String {
    expr.to_sql(&|name| format!("@{name}"), &|number| format!("${number}"))
        .unwrap()
}

fn parameter(column: &str, number: u32) -> KeyEquality {
    KeyEquality {
        column: column.to_owned(),
        value: KeyValue::Parameter(number),
    }
}

fn constant(column: &str, kind: LiteralKind, text: &str) -> KeyEquality {
    KeyEquality {
        column: column.to_owned(),
        value: KeyValue::Constant {
            kind,
            text: text.to_owned(),
        },
    }
}

#[test]
fn a_guarded_counter_has_its_parts_found() {
    let found = parts(
        "UPDATE s.stock SET qty = qty - $1, sold = sold + $1 WHERE id = $2 AND qty >= $1 RETURNING qty, id AS key, *",
    );
    assert_eq!(found.relation.schema.as_deref(), Some("s"));
    assert_eq!((found.relation.name.as_str(), found.alias), ("stock", None));
    assert_eq!(found.equalities, [parameter("id", 2)]);
    assert_eq!(
        found.guards.iter().map(text).collect::<Vec<_>>(),
        ["((@qty) >= ($1))"]
    );
    let assigned: Vec<_> = found
        .assignments
        .iter()
        .map(|(name, expr)| (name.as_str(), text(expr)))
        .collect();
    assert_eq!(
        assigned,
        [
            ("qty", "((@qty) - ($1))".to_owned()),
            ("sold", "((@sold) + ($1))".to_owned())
        ]
    );
    assert_eq!(found.parameters, 2);
    let [
        Returning::Expr { expr, name: None },
        Returning::Expr {
            name: Some(key), ..
        },
        Returning::All,
    ] = found.returning.as_slice()
    else {
        panic!("{:?}", found.returning)
    };
    assert_eq!((expr.as_column(), key.as_str()), (Some("qty"), "key"));
}

#[test]
fn keys_may_be_written_in_many_ways() {
    use LiteralKind::{Int4, Int8, Numeric, Unknown};
    let cases = [
        ("id = 5", constant("id", Int4, "5")),
        ("id = -5", constant("id", Int4, "-5")),
        ("5 = id", constant("id", Int4, "5")),
        ("id = 3000000000", constant("id", Int8, "3000000000")),
        ("id = -2147483648", constant("id", Int4, "-2147483648")),
        (
            "id = -9223372036854775808",
            constant("id", Int8, "-9223372036854775808"),
        ),
        (
            "id = 9223372036854775808",
            constant("id", Numeric, "9223372036854775808"),
        ),
        ("id = 1.5", constant("id", Numeric, "1.5")),
        ("id = 'it''s'", constant("id", Unknown, "it's")),
        ("\"Id\" = $3", parameter("Id", 3)),
        ("($3 = t.id)", parameter("id", 3)),
    ];
    for (condition, key) in cases {
        let found = parts(&format!("UPDATE t SET a = 1 WHERE {condition}"));
        assert_eq!(
            (found.equalities, found.guards),
            (vec![key], vec![]),
            "{condition}"
        );
    }
}

#[test]
fn conjuncts_are_flattened_and_sorted_into_keys_and_guards() {
    let found = parts(
        "UPDATE t AS x SET a = 1 WHERE (x.p = $1 AND (q = 2 AND r > 3)) AND p = $2 AND s = $3::int AND u = NULL
         AND v = true AND w = a AND 1 = 1 AND (y = 1 OR z = 2) AND k OPERATOR(pg_catalog.=) 1",
    );
    assert_eq!(found.alias.as_deref(), Some("x"));
    assert_eq!(
        found.equalities,
        [parameter("p", 1), constant("q", LiteralKind::Int4, "2")]
    );
    let guards: Vec<String> = found.guards.iter().map(text).collect();
    assert_eq!(
        guards[..3],
        ["((@r) > 3)", "((@p) = ($2))", "((@s) = ($3)::int)"]
    );
    assert_eq!(guards.len(), 9);
}

#[test]
fn a_multiple_assignment_becomes_single_ones() {
    for sql in [
        "UPDATE t SET (a, b) = (b, $1 + 1), c = 2 WHERE id = 1",
        "UPDATE t SET (a, b) = ROW(b, $1 + 1), c = 2 WHERE id = 1",
    ] {
        let found = parts(sql);
        let assigned: Vec<_> = found
            .assignments
            .iter()
            .map(|(name, expr)| (name.as_str(), text(expr)))
            .collect();
        let expected = [("a", "((@b))"), ("b", "(($1) + 1)"), ("c", "(2)")];
        assert_eq!(
            assigned,
            expected.map(|(name, text)| (name, text.to_owned())),
            "{sql}"
        );
    }
}

#[test]
fn the_highest_parameter_is_found() {
    assert_eq!(parts("UPDATE t SET a = $7 WHERE id = $2").parameters, 7);
    assert_eq!(parts("UPDATE t SET a = 1 WHERE id = 2").parameters, 0);
    assert_eq!(
        parts("UPDATE t SET a = 1 WHERE id = 2 RETURNING $4::int").parameters,
        4
    );
}

#[test]
fn all_columns_of_the_row_are_found_in_each_notation() {
    assert_eq!(
        parts("UPDATE t SET a = 1 WHERE id = 1 RETURNING t.*").returning,
        [Returning::All]
    );
    assert_eq!(
        parts("UPDATE t x SET a = 1 WHERE id = 1 RETURNING x.*").returning,
        [Returning::All]
    );
    assert_eq!(
        parts("UPDATE t SET a = c[2] + d[1] WHERE id = 1").assignments[0]
            .1
            .columns(),
        ["c", "d"]
    );
    assert_eq!(
        parts("UPDATE t SET t = t + 1 WHERE id = 1").assignments[0]
            .1
            .columns(),
        ["t"]
    );
}

#[test]
fn updates_of_other_forms_are_not_supported() {
    let texts = [
        "UPDATE t SET a = 1",
        "UPDATE t SET a = 1 WHERE b > 2",
        "UPDATE t SET a = 1 WHERE id = 1 OR id = 2",
        "UPDATE t SET a = 1 WHERE id IN (1)",
        "UPDATE t SET a = 1 FROM s WHERE id = 1",
        "WITH c AS (SELECT 1) UPDATE t SET a = 1 WHERE id = 1",
        "UPDATE t SET a = 1 WHERE CURRENT OF c",
        "UPDATE ONLY t SET a = 1 WHERE id = 1",
        "UPDATE d.s.t SET a = 1 WHERE id = 1",
        "UPDATE t SET a = (SELECT 1) WHERE id = 1",
        "UPDATE t SET a = 1 WHERE id = (SELECT 1) AND b = 2",
        "UPDATE t SET a = 1 WHERE id = 1 AND EXISTS (SELECT 1)",
        "UPDATE t SET a = 1 WHERE id = 1 RETURNING (SELECT 1)",
        "UPDATE t SET a = sum(b) OVER () WHERE id = 1",
        "UPDATE t SET a = count(*) WHERE id = 1",
        "UPDATE t SET a = DEFAULT WHERE id = 1",
        "UPDATE t SET (a, b) = (1, DEFAULT) WHERE id = 1",
        "UPDATE t SET (a, b) = (SELECT 1, 2) WHERE id = 1",
        "UPDATE t SET (a, b) = (1, 2, 3) WHERE id = 1",
        "UPDATE t SET a[1] = 1 WHERE id = 1",
        "UPDATE t SET a.f = 1 WHERE id = 1",
        "UPDATE t SET a = 1, a = 2 WHERE id = 1",
        "UPDATE t SET a = 1 WHERE id = 1 AND ctid = '(0,1)'",
        "UPDATE t SET a = 1 WHERE id = 1 RETURNING xmin",
        "UPDATE t SET a = 1 WHERE id = 1 RETURNING t.tableoid",
        "UPDATE t SET a = 1 WHERE id = 1 RETURNING old.a",
        "UPDATE t SET a = 1 WHERE id = 1 RETURNING new.*",
        "UPDATE t AS old SET a = 1 WHERE id = 1 RETURNING old.a",
        "UPDATE t SET a = 1 WHERE id = 1 RETURNING WITH (OLD AS o) o.a",
        "UPDATE t SET a = 1 WHERE id = 1 RETURNING row(t.*)",
        "UPDATE t AS x SET a = 1 WHERE t.id = 1",
        "UPDATE t AS x SET a = 1 WHERE id = 1 RETURNING t.*",
        "UPDATE s.t SET a = 1 WHERE s.t.id = 1",
        "UPDATE t SET a = u.b WHERE id = 1",
        "UPDATE t SET a = (c).* WHERE id = 1",
        "UPDATE t SET a = (f(c)).g WHERE id = 1",
        "UPDATE t SET a = $0 WHERE id = 1",
        "UPDATE t SET a = 1 WHERE id = $0",
        "UPDATE t SET a = 1 WHERE id = 1; SELECT 1",
        "INSERT INTO t VALUES (1)",
        "SELECT 1",
    ];
    for sql in texts {
        assert_eq!(update(sql), None, "{sql}");
    }
}
