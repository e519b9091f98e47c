//! Names and positions in errors.

use super::*;
use crate::policy::Permission;
use crate::strategy::shard::{ShardTable, TableNames};
use paceline_relay::template::Templates;
use paceline_sql::Compared;
use paceline_sql::keyed::KeyedStatement;
use std::sync::Arc;

fn part() -> ShardPart {
    let names = |schema: &str, table: &str| TableNames {
        schema: schema.to_owned(),
        table: table.to_owned(),
    };
    let sql = "SELECT * FROM accounts WHERE id = 'x'";
    let moved = KeyedStatement::read(sql).unwrap().on(sql, 0, "s", "a1");
    ShardPart {
        table: Arc::new(ShardTable::new(
            names("s", "a1"),
            names("public", "accounts_1"),
            Arc::default(),
            &Compared::default(),
            &Templates::default(),
        )),
        replaced: moved.unwrap().replaced,
        permission: Permission::Default,
    }
}

fn body(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (code, text) in fields {
        body.push(*code);
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    body
}

fn rewritten(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    write_error(&body(fields), &part(), &mut out);
    out.get(frame::HEADER_LEN..).unwrap_or_default().to_vec()
}

/// An error about the table and this constraint, as the client gets it.
fn about_table(sqlstate: &str, message: &str, constraint: &str) -> Vec<u8> {
    let names = [(b's', "s"), (b't', "a1"), (b'n', constraint)];
    rewritten(&[&[(b'C', sqlstate), (b'M', message)], &names[..]].concat())
}

/// The same about the partition.
fn about_partition(sqlstate: &str, message: &str, constraint: &str) -> Vec<u8> {
    let names = [(b's', "public"), (b't', "accounts_1"), (b'n', constraint)];
    body(&[&[(b'C', sqlstate), (b'M', message)], &names[..]].concat())
}

/// An error about the column `a1` of a table.
fn not_null<'a>(message: &'a str, schema: &'a str, table: &'a str) -> [(u8, &'a str); 5] {
    [
        (b'C', "23502"),
        (b'M', message),
        (b's', schema),
        (b't', table),
        (b'c', "a1"),
    ]
}

#[test]
fn an_error_about_the_table_has_the_names_of_the_partition() {
    let own = [
        (b'C', "23505"),
        (
            b'M',
            "duplicate key value violates unique constraint \"a1_pkey\"",
        ),
        (b'D', "Key (v)=(\"a1\") already exists."),
        (b's', "s"),
        (b't', "a1"),
        (b'n', "a1_pkey"),
    ];
    let wanted = [
        (b'C', "23505"),
        (
            b'M',
            "duplicate key value violates unique constraint \"accounts_1_pkey\"",
        ),
        (b'D', "Key (v)=(\"a1\") already exists."),
        (b's', "public"),
        (b't', "accounts_1"),
        (b'n', "accounts_1_pkey"),
    ];
    assert_eq!(rewritten(&own), body(&wanted));
    let own = [
        (b'C', "23502"),
        (
            b'M',
            "null value in column \"v\" of relation \"a1\" violates not-null constraint",
        ),
        (b's', "s"),
        (b't', "a1"),
        (b'c', "v"),
    ];
    let wanted = [
        (b'C', "23502"),
        (
            b'M',
            "null value in column \"v\" of relation \"accounts_1\" violates not-null constraint",
        ),
        (b's', "public"),
        (b't', "accounts_1"),
        (b'c', "v"),
    ];
    assert_eq!(rewritten(&own), body(&wanted));
}

#[test]
fn a_check_has_the_same_name_on_each_server() {
    let check = "a1_v_check";
    let message = |table: &str| {
        format!("new row for relation \"{table}\" violates check constraint \"{check}\"")
    };
    assert_eq!(
        about_table("23514", &message("a1"), check),
        about_partition("23514", &message("accounts_1"), check)
    );
}

#[test]
fn a_column_with_the_name_of_the_table_stays() {
    for (own, wanted) in [
        (
            "null value in column \"a1\" of relation \"a1\" violates not-null constraint",
            "null value in column \"a1\" of relation \"accounts_1\" violates not-null constraint",
        ),
        (
            "リレーション\"a1\"の列\"a1\"のNULL値が非NULL制約に違反しています",
            "リレーション\"accounts_1\"の列\"a1\"のNULL値が非NULL制約に違反しています",
        ),
        (
            "关系\"a1\"的\"a1\"列中的空值违反了非空约束",
            "关系\"accounts_1\"的\"a1\"列中的空值违反了非空约束",
        ),
        (
            "\"a1\" 칼럼(해당 릴레이션 \"a1\")의 null 값이 not null 제약조건을 위반했습니다.",
            "\"a1\" 칼럼(해당 릴레이션 \"accounts_1\")의 null 값이 not null 제약조건을 위반했습니다.",
        ),
    ] {
        let own = not_null(own, "s", "a1");
        let wanted = not_null(wanted, "public", "accounts_1");
        assert_eq!(rewritten(&own), body(&wanted), "{own:?}");
    }
}

#[test]
fn translations_have_other_quotes() {
    for (sqlstate, message) in [
        (
            "23505",
            "doppelter Schlüsselwert verletzt Unique-Constraint »NAME«",
        ),
        (
            "23505",
            "llave duplicada viola restricción de unicidad «NAME»",
        ),
        (
            "23505",
            "la valeur d'une clé dupliquée rompt la contrainte unique « NAME »",
        ),
        (
            "23505",
            "la valeur d'une clé rompt la contrainte «\u{a0}NAME\u{a0}»",
        ),
        ("23505", "重复键违反唯一约束\"NAME\""),
        (
            "23514",
            "neue Zeile für Relation »TABLE« verletzt Check-Constraint »NAME«",
        ),
        (
            "23514",
            "el nuevo registro para la relación «TABLE» viola la restricción «check» «NAME»",
        ),
    ] {
        let message =
            |table: &str, name: &str| message.replace("TABLE", table).replace("NAME", name);
        let name = match sqlstate {
            "23505" => "accounts_1_pkey",
            _ => "a1_pkey",
        };
        let wanted = about_partition(sqlstate, &message("accounts_1", name), name);
        assert_eq!(
            about_table(sqlstate, &message("a1", "a1_pkey"), "a1_pkey"),
            wanted
        );
    }
}

#[test]
fn a_value_that_looks_like_a_name_stays() {
    let fields = [(b'M', "invalid input syntax for type integer: \"a1\"")];
    assert_eq!(rewritten(&fields), body(&fields));
    let other = [
        (b'M', "new row for relation \"a1\""),
        (b's', "t"),
        (b't', "a1"),
    ];
    assert_eq!(rewritten(&other), body(&other));
}

/// An error in a wait, with this context.
fn waited<'a>(sqlstate: &'a str, context: &'a str) -> [(u8, &'a str); 2] {
    [(b'C', sqlstate), (b'W', context)]
}

#[test]
fn the_context_of_a_wait_names_the_partition() {
    for context in [
        "while updating tuple (0,85) in relation \"TABLE\"\nSQL statement \"x in relation \"a1\"",
        "while inserting index tuple (0,2) in relation \"TABLE_pkey\"",
        "beim Einfügen von Indextupel (0,2) in Relation »TABLE_pkey«",
        "lors de l'insertion de l'enregistrement (0, 2) de l'index dans la relation « TABLE_pkey »",
        "リレーション\"TABLE\"のタプル(0,85)の更新中",
        "0,85 튜플(해당 릴레이션 \"TABLE\")을 갱신하는 중에 발생",
        "while updating tuple (0,85) in relation \"TABLE\"\nunnamed portal with parameters: $1 = '\"a1\"'",
    ] {
        for sqlstate in ["40P01", "55P03", "57014"] {
            let own = context.replace("TABLE", "a1");
            let wanted = context.replace("TABLE", "accounts_1");
            let wanted = body(&waited(sqlstate, &wanted));
            assert_eq!(rewritten(&waited(sqlstate, &own)), wanted, "{own}");
        }
    }
}

#[test]
fn another_context_stays() {
    for (sqlstate, context) in [
        (
            "57014",
            "unnamed portal with parameters: $1 = '(0,1) \"a1\"'",
        ),
        ("22P02", "JSON data, line 1: [1,2,\"a1\""),
        ("55P03", "while updating tuple (0,85) in relation \"a12\""),
    ] {
        let error = waited(sqlstate, context);
        assert_eq!(rewritten(&error), body(&error), "{context}");
    }
}

#[test]
fn a_position_is_that_of_the_clients_text() {
    let sql = "SELECT * FROM \"s\".\"a1\" AS \"accounts\" WHERE id = 'x'";
    let there = (sql.find("'x'").unwrap() + 1).to_string();
    let here = "SELECT * FROM accounts WHERE id = 'x'";
    let here = (here.find("'x'").unwrap() + 1).to_string();
    assert_eq!(
        rewritten(&[(b'P', there.as_str())]),
        body(&[(b'P', here.as_str())])
    );
}
