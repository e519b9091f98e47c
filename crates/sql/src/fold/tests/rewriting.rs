//! The statements of folds.

use super::{column, folded, stock, stock_with};
use crate::fold::{Carried, KeyClass};
use crate::{Column, Effect, KeyValue, TableFacts, parse};

/// A parameter that is sent in its own type.
fn carried(parameter: u32) -> Carried {
    Carried {
        parameter,
        as_text: false,
    }
}

#[test]
fn parameters_follow_the_key_the_positions_and_the_time_of_the_analysis() {
    let sql = "UPDATE stock SET qty = qty - $1 WHERE id = $2 AND qty >= $1 RETURNING qty, id";
    let fold = folded(
        sql,
        &stock(),
        &["integer", "bigint"],
        &["integer", "bigint"],
    );
    assert_eq!(fold.carried, [carried(1)]);
    assert_eq!(fold.returning, 2);
    let [key] = fold.key.as_slice() else {
        panic!("{:?}", fold.key)
    };
    assert_eq!(
        (&key.value, key.class),
        (&KeyValue::Parameter(2), KeyClass::Integer)
    );
    let text = &fold.one_row;
    assert!(text.contains("unnest($1::bigint[])"), "{text}");
    assert!(
        text.contains("unnest($2::pg_catalog.int4[])")
            && text.contains("unnest($3::pg_catalog.int4[])")
    );
    assert!(
        text.contains(
            "$4::pg_catalog.timestamptz THEN true ELSE true END AND pg_catalog.set_config('lock_timeout', '20ms', true)"
        ),
        "{text}"
    );
    assert!(
        text.contains("($5::integer[])[f.pos OPERATOR(pg_catalog.+) 1]"),
        "{text}"
    );
    assert!(
        text.contains("UPDATE ONLY \"shop\".\"stock\" AS t SET \"qty\" ="),
        "{text}"
    );
}

#[test]
fn only_parameters_that_members_need_are_sent() {
    let sql = "UPDATE stock SET note = $3 WHERE id = $2 AND $1 > price";
    let fold = folded(sql, &stock(), &["numeric", "bigint", "text"], &[]);
    assert_eq!(fold.carried, [carried(1), carried(3)]);
    assert!(
        fold.one_row
            .contains("($5::numeric[])[f.pos OPERATOR(pg_catalog.+) 1]"),
        "{}",
        fold.one_row
    );
    assert!(
        fold.one_row
            .contains("($6::text[])[f.pos OPERATOR(pg_catalog.+) 1]"),
        "{}",
        fold.one_row
    );
}

#[test]
fn a_composite_key_has_the_order_of_its_index() {
    let mut table = stock();
    table.keys = vec![vec!["note".to_owned(), "id".to_owned()]];
    let sql = "UPDATE stock SET qty = $1 WHERE id = $2 AND note = $3";
    let fold = folded(sql, &table, &["integer", "bigint", "text"], &[]);
    let key: Vec<_> = fold
        .key
        .iter()
        .map(|k| (k.value.clone(), k.class))
        .collect();
    let expected = [
        (KeyValue::Parameter(3), KeyClass::Text),
        (KeyValue::Parameter(2), KeyClass::Integer),
    ];
    assert_eq!(key, expected);
    let text = &fold.one_row;
    assert!(
        text.contains(
            "t.\"note\" OPERATOR(pg_catalog.=) k.k1 AND t.\"id\" OPERATOR(pg_catalog.=) k.k2"
        ),
        "{text}"
    );
    assert!(
        text.contains("$5::pg_catalog.timestamptz THEN true") && text.contains("($6::integer[])"),
        "{text}"
    );
}

#[test]
fn the_shortest_key_is_used_and_other_equalities_are_guards() {
    let mut table = stock();
    table.keys = vec![
        vec!["note".to_owned(), "price".to_owned()],
        vec!["id".to_owned()],
    ];
    let sql = "UPDATE stock SET qty = 1 WHERE note = $1 AND price = $2 AND id = $3";
    let fold = folded(sql, &table, &["text", "numeric", "bigint"], &[]);
    assert_eq!(fold.key.len(), 1);
    assert_eq!(fold.carried, [carried(1), carried(2)]);
    assert!(fold.one_row.contains("IS TRUE AS hit"), "{}", fold.one_row);
}

#[test]
fn constants_stay_constants() {
    let sql = "UPDATE stock SET qty = qty + 1 WHERE id = 7 AND note = 'it''s' AND price = 1.5";
    let fold = folded(sql, &stock(), &[], &[]);
    assert!(matches!(&fold.key[0].value, KeyValue::Constant { text, .. } if text == "7"));
    assert!(fold.carried.is_empty());
    assert!(
        fold.one_row.contains("= 'it''s'") && fold.one_row.contains("= 1.5"),
        "{}",
        fold.one_row
    );
}

#[test]
fn an_array_is_sent_as_text() {
    let table = stock_with("note", |note| *note = column("note", "text[]", 1009));
    let fold = folded(
        "UPDATE stock SET note = $1 WHERE id = $2",
        &table,
        &["text[]", "bigint"],
        &[],
    );
    let as_text = Carried {
        parameter: 1,
        as_text: true,
    };
    assert_eq!(fold.carried, [as_text]);
    assert!(
        fold.one_row
            .contains("($5::pg_catalog.text[])[f.pos OPERATOR(pg_catalog.+) 1]::text[]"),
        "{}",
        fold.one_row
    );
    // An error in the conversion to an array occurs only for a member with a row.
    assert!(fold.may_fail_unseen);
}

#[test]
fn keys_of_each_class_are_folded() {
    for (type_name, oid, class) in [
        ("smallint", 21, KeyClass::Integer),
        ("integer", 23, KeyClass::Integer),
        ("uuid", 2950, KeyClass::Uuid),
        ("text", 25, KeyClass::Text),
        ("character varying", 1043, KeyClass::Text),
        ("numeric", 1700, KeyClass::Opaque),
        ("timestamp with time zone", 1184, KeyClass::Opaque),
    ] {
        let table = stock_with("id", |id| *id = column("id", type_name, oid));
        let fold = folded(
            "UPDATE stock SET qty = 1 WHERE id = $1",
            &table,
            &[type_name],
            &[],
        );
        assert_eq!(
            (fold.key[0].class, fold.key[0].type_oid),
            (class, oid),
            "{type_name}"
        );
    }
}

#[test]
fn a_text_key_that_is_converted_between_encodings_is_compared_if_it_is_ascii() {
    for (type_name, oid) in [("text", 25), ("character varying", 1043)] {
        let converted = |id: &mut Column| {
            *id = column("id", type_name, oid);
            id.converted = true;
        };
        let fold = folded(
            "UPDATE stock SET qty = 1 WHERE id = $1",
            &stock_with("id", converted),
            &["text"],
            &[],
        );
        assert_eq!(fold.key[0].class, KeyClass::Ascii, "{type_name}");
    }
}

#[test]
fn an_integer_key_may_be_compared_in_any_integer_type() {
    let table = stock_with("id", |id| *id = column("id", "smallint", 21));
    for parameter in ["smallint", "integer", "bigint"] {
        folded(
            "UPDATE stock SET qty = 1 WHERE id = $1",
            &table,
            &[parameter],
            &[],
        );
    }
}

#[test]
fn without_guards_and_constraints_each_member_updates() {
    let fold = folded(
        "UPDATE stock SET qty = $1 WHERE id = $2",
        &stock(),
        &["integer", "bigint"],
        &[],
    );
    assert!(
        fold.one_row.contains("f.touched OR true, true, true"),
        "{}",
        fold.one_row
    );
}

#[test]
fn checks_that_read_an_assigned_column_hold_after_each_member() {
    let mut table = stock();
    table.checks = vec!["(qty >= 0)".to_owned(), "(price > (0)::numeric)".to_owned()];
    let fold = folded(
        "UPDATE stock SET qty = $1 WHERE id = $2",
        &table,
        &["integer", "bigint"],
        &[],
    );
    let text = &fold.one_row;
    assert_eq!(
        text.matches("IS NOT FALSE").count(),
        1,
        "the price does not change: {text}"
    );
    assert!(
        text.contains("(n.c2) >= "),
        "the new value is checked: {text}"
    );
}

#[test]
fn a_check_may_read_columns_that_do_not_change() {
    let mut table = stock();
    table.checks = vec!["(qty >= price)".to_owned()];
    let fold = folded(
        "UPDATE stock SET qty = $1 WHERE id = $2",
        &table,
        &["integer", "bigint"],
        &[],
    );
    let text = &fold.one_row;
    assert!(
        text.contains("n.c2") && text.contains("f.c3") && text.contains("t.\"price\" AS c3"),
        "{text}"
    );
}

#[test]
fn not_null_holds_after_each_member() {
    let table = stock_with("qty", |qty| qty.not_null = true);
    let fold = folded(
        "UPDATE stock SET qty = $1 WHERE id = $2",
        &table,
        &["integer", "bigint"],
        &[],
    );
    assert!(
        fold.one_row.contains("n.c2 IS NOT NULL"),
        "{}",
        fold.one_row
    );
    let fold = folded(
        "UPDATE stock SET note = $1 WHERE id = $2",
        &table,
        &["text", "bigint"],
        &[],
    );
    assert!(
        !fold.one_row.contains("n.c2 IS NOT NULL"),
        "{}",
        fold.one_row
    );
}

#[test]
fn a_limit_of_characters_is_checked_and_never_truncates() {
    let table = stock_with("note", |note| {
        *note = column("note", "character varying", 1043);
        note.type_name = "character varying(10)".to_owned();
        note.type_modifier = 14;
    });
    let fold = folded(
        "UPDATE stock SET note = $1 WHERE id = $2",
        &table,
        &["text", "bigint"],
        &[],
    );
    let text = &fold.one_row;
    assert!(
        text.contains("char_length(n.c2) OPERATOR(pg_catalog.<=) 10"),
        "{text}"
    );
    assert!(!text.contains("varying(10)"), "{text}");
}

#[test]
fn a_domain_checks_its_own_values() {
    let table = stock_with("qty", |qty| {
        qty.type_name = "shop.count".to_owned();
        qty.bare_type_name = "shop.count".to_owned();
        qty.type_oid = 16_500;
    });
    let fold = folded(
        "UPDATE stock SET qty = qty - $1 WHERE id = $2",
        &table,
        &["integer", "bigint"],
        &[],
    );
    assert!(fold.one_row.contains(")::shop.count"), "{}", fold.one_row);
}

#[test]
fn returning_shows_the_row_after_the_member() {
    let sql = "UPDATE stock SET qty = qty + 1 WHERE id = $1 RETURNING qty * 2 AS twice, note";
    let fold = folded(sql, &stock(), &["bigint"], &["integer", "text"]);
    let text = &fold.one_row;
    assert_eq!(fold.returning, 2);
    assert!(text.contains("NULL::integer, NULL::text"), "{text}");
    assert!(
        text.ends_with("FROM facts LEFT JOIN fold AS f ON f.pos OPERATOR(pg_catalog.>) f.first"),
        "{text}"
    );
    assert!(text.contains("f.fine, f.hit, f.r1, f.r2 FROM"), "{text}");
}

#[test]
fn returning_star_is_every_column_in_order() {
    let sql = "UPDATE stock SET qty = qty + 1 WHERE id = $1 RETURNING *, qty";
    let returning = ["bigint", "integer", "text", "numeric", "integer"];
    let fold = folded(sql, &stock(), &["bigint"], &returning);
    assert_eq!(fold.returning, 5);
    let text = &fold.one_row;
    let values = "(f.c1)::bigint, (n.c2)::integer, (f.c3)::text, (f.c4)::numeric, (";
    assert!(text.contains(values), "{text}");
}

#[test]
fn names_are_quoted() {
    let mut table = stock();
    (table.schema, table.name) = ("a\"b".to_owned(), "select".to_owned());
    table.columns[1].name = "q\"; DROP TABLE x --".to_owned();
    let sql = "UPDATE \"select\" SET \"q\"\"; DROP TABLE x --\" = $1 WHERE id = $2";
    let fold = folded(sql, &table, &["integer", "bigint"], &[]);
    assert!(
        fold.one_row.contains("\"a\"\"b\".\"select\""),
        "{}",
        fold.one_row
    );
}

#[test]
fn columns_may_have_the_names_of_the_folds_own() {
    for name in [
        "pos", "first", "last", "hit", "fine", "touched", "c1", "r1", "k1", "same",
    ] {
        let mut table = stock();
        table.columns[1].name = name.to_owned();
        let sql = format!(
            "UPDATE stock SET {name} = {name} + $1 WHERE id = $2 AND {name} > 0 RETURNING {name}"
        );
        let fold = folded(&sql, &table, &["integer", "bigint"], &["integer"]);
        assert!(
            fold.one_row.contains(&format!("t.\"{name}\" AS c2")),
            "{}",
            fold.one_row
        );
    }
}

#[test]
fn a_partitioned_table_is_recognized() {
    let fold = |table: &TableFacts| {
        let sql = "UPDATE stock SET qty = 1 WHERE id = $1";
        folded(sql, table, &["bigint"], &[])
    };
    let (mut with_children, mut without_partitions) = (stock(), stock());
    with_children.extent.tree = vec![16_400, 16_401, 16_402];
    without_partitions.extent.partitioned = true;
    assert!(fold(&with_children).partitioned);
    assert!(!fold(&stock()).partitioned);
    for (table, only) in [
        (stock(), true),
        (with_children, false),
        (without_partitions, false),
    ] {
        let fold = fold(&table);
        for text in [&fold.many_rows, &fold.one_row] {
            for reads in ["JOIN", "UPDATE"] {
                let part = format!("{reads} ONLY \"shop\".\"stock\"");
                assert_eq!(text.contains(&part), only, "{part}: {text}");
            }
        }
    }
}

#[test]
fn updates_that_may_fail_without_a_row_are_marked() {
    let may_fail = |sql: &str| folded(sql, &stock(), &["integer", "bigint"], &[]).may_fail_unseen;
    assert!(may_fail("UPDATE stock SET qty = 1 / $1 WHERE id = $2"));
    assert!(may_fail(
        "UPDATE stock SET qty = qty + abs($1) WHERE id = $2"
    ));
    assert!(may_fail(
        "UPDATE stock SET qty = 1 WHERE id = $2 AND qty > 7 % $1"
    ));
    assert!(!may_fail(
        "UPDATE stock SET qty = qty - $1 WHERE id = $2 AND qty >= $1"
    ));
    assert!(!may_fail("UPDATE stock SET qty = $1 WHERE id = $2"));
    assert!(may_fail(
        "UPDATE stock SET qty = 1 WHERE id = $2 AND qty > $1 AND 100 / qty > 3"
    ));
    assert!(!may_fail(
        "UPDATE stock SET qty = 1 WHERE id = $2 AND 100 / qty > 3"
    ));
}

/// A varchar(8).
fn limit(column: &mut Column) {
    column.type_oid = 1043;
    column.type_name = "character varying(8)".to_owned();
    column.bare_type_name = "character varying".to_owned();
    column.type_modifier = 12;
}

#[test]
fn a_value_that_may_not_fit_is_converted_for_each_member() {
    let assign = |value: &str, parameter: &str| {
        let sql = format!("UPDATE stock SET qty = {value} WHERE id = $2 AND price > 5");
        folded(&sql, &stock(), &[parameter, "bigint"], &[])
    };
    for (value, parameter) in [
        ("$1", "bigint"),
        ("$1 + 100000", "integer"),
        ("$1::integer", "integer"),
    ] {
        let fold = assign(value, parameter);
        let converted = fold
            .many_rows
            .contains("::integer) OPERATOR(pg_catalog.>=) 0");
        assert!(
            fold.may_fail_unseen && converted,
            "{value}: {}",
            fold.many_rows
        );
    }
    for (value, parameter) in [
        ("$1", "integer"),
        ("$1", "smallint"),
        ("100000", "integer"),
        ("NULL", "integer"),
    ] {
        let fold = assign(value, parameter);
        let converted = fold.many_rows.contains("num_nulls");
        assert!(
            !fold.may_fail_unseen && !converted,
            "{value}: {}",
            fold.many_rows
        );
    }
    // Without a guard PostgreSQL converts the value of each member.
    let sql = "UPDATE stock SET qty = $1 WHERE id = $2";
    let fold = folded(sql, &stock(), &["bigint", "bigint"], &[]);
    assert!(fold.may_fail_unseen && !fold.many_rows.contains("num_nulls"));
}

#[test]
fn too_many_characters_are_detected_without_an_error() {
    let assign = |value: &str, guard: &str| {
        let sql = format!("UPDATE stock SET note = {value} WHERE id = $2{guard}");
        folded(&sql, &stock_with("note", limit), &["text", "bigint"], &[])
    };
    let short = "[f.pos OPERATOR(pg_catalog.+) 1])))::pg_catalog.varchar) OPERATOR(pg_catalog.<=) 8, true) AND (NOT g.hit OR (coalesce(";
    let fold = assign("$1", " AND qty > 5");
    assert!(
        fold.may_fail_unseen && fold.many_rows.contains(short),
        "{}",
        fold.many_rows
    );
    let fold = assign("$1", "");
    assert!(
        fold.may_fail_unseen && !fold.many_rows.contains(short),
        "{}",
        fold.many_rows
    );
    assert!(assign("'123456789'", "").may_fail_unseen);
    // The value of a row fits already, or its conversion fails with the row.
    for value in ["note || 'x'", "NULL", "'12345678'"] {
        assert!(!assign(value, "").may_fail_unseen, "{value}");
    }
}

#[test]
fn a_limit_that_only_rounds_never_fails() {
    let may_fail = |column_type: &str, oid, parameter: &str| {
        let table = stock_with("note", |note| {
            *note = column("note", column_type, oid);
            note.type_modifier = 3;
        });
        let sql = "UPDATE stock SET note = $1 WHERE id = $2";
        folded(sql, &table, &[parameter, "bigint"], &[]).may_fail_unseen
    };
    let (zoned, plain) = ("timestamp with time zone", "timestamp without time zone");
    assert!(!may_fail(zoned, 1184, zoned));
    assert!(!may_fail(plain, 1114, plain));
    assert!(may_fail(plain, 1114, zoned));
    assert!(may_fail("numeric", 1700, "numeric"));
}

#[test]
fn guards_and_assignments_read_the_row_before_the_member() {
    let sql = "UPDATE stock SET qty = qty - $1, price = qty WHERE id = $2 AND qty >= $1";
    let text = folded(sql, &stock(), &["integer", "bigint"], &[]).one_row;
    assert!(
        text.contains("(f.c2) - ") && text.contains("(f.c2) >= "),
        "{text}"
    );
    assert!(!text.contains("(n.c2)"), "{text}");
}

#[test]
fn members_on_rows_of_their_own_are_joined_to_the_table() {
    let sql = "UPDATE stock SET qty = qty - $1, note = 'x' WHERE id = $2 AND qty >= $1 AND price = $3 RETURNING qty, $4";
    let parameters = ["integer", "bigint", "numeric", "integer[]"];
    let text = folded(sql, &stock(), &parameters, &["integer", "integer[]"])
        .one_each
        .expect("an UPDATE");
    for part in [
        r#"SET "qty" = ((t."qty") - (k.p1)), "note" = ('x') FROM facts, "#,
        "unnest($1::bigint[]), pg_catalog.unnest($3::integer[]), pg_catalog.unnest($4::numeric[]), pg_catalog.unnest($5::pg_catalog.text[])",
        "WITH ORDINALITY AS k(k1, p1, p2, p3, pos)",
        r#"WHERE facts.same AND t."id" OPERATOR(pg_catalog.=) k.k1 AND t."price" = k.p2 AND ((t."qty") >= (k.p1)) RETURNING"#,
        r#", (((t."qty")))::integer AS r1, (((k.p3::integer[])))::integer[] AS r2)"#,
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn a_probe_returns_the_members_that_would_lock_their_row() {
    let sql = "UPDATE stock SET qty = qty - $1 WHERE id = $2 AND qty >= $1 RETURNING qty";
    let fold = folded(sql, &stock(), &["integer", "bigint"], &["integer"]);
    let probe = fold.probe.unwrap();
    for part in [
        "OPERATOR(pg_catalog.=) $2::pg_catalog.timestamptz THEN true ELSE true END AS same",
        "pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($3::integer[])) WITH ORDINALITY AS k(k1, p1, pos)",
        "JOIN ONLY \"shop\".\"stock\" AS t ON t.\"id\" OPERATOR(pg_catalog.=) k.k1 AND ",
        "(t.\"qty\")",
    ] {
        assert!(probe.contains(part), "{part} is missing: {probe}");
    }
    let statement = parse(&probe).unwrap();
    assert_eq!(statement.effect, Effect::Read);
    let lock = "SELECT FROM ONLY \"shop\".\"stock\" AS t WHERE t.\"id\" OPERATOR(pg_catalog.=) $1::bigint FOR NO KEY UPDATE";
    assert_eq!(fold.lock.as_deref(), Some(lock));
}

/// The transaction that waits for the lock has begun before some of the members arrived.
#[test]
fn updates_that_read_the_time_do_not_wait_for_the_lock_separately() {
    for sql in [
        "UPDATE stock SET qty = 1 WHERE id = $1 AND now() < '2100-01-01'::timestamptz",
        "UPDATE stock SET note = CURRENT_DATE::text WHERE id = $1",
        "UPDATE stock SET qty = 1 WHERE id = $1 RETURNING now()",
    ] {
        let returning = match sql.contains("RETURNING") {
            true => &["timestamp with time zone"][..],
            false => &[],
        };
        let fold = folded(sql, &stock(), &["bigint"], returning);
        assert_eq!(fold.lock, None, "{sql}");
    }
}
