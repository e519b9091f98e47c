//! UPDATEs that are not folded, and the reasons.

use super::{column, rewritten, stock, stock_with, types, update};
use crate::facts::{Collation, Column, TableFacts};
use crate::fold::{FoldRefusal, rewrite};
use crate::type_name::TypeName;

/// A function that changes a column.
type Change = fn(&mut Column);

const COUNT: &str = "UPDATE stock SET qty = qty - $1 WHERE id = $2";

fn refused(sql: &str, table: &TableFacts, parameters: &[&str]) -> FoldRefusal {
    match rewritten(sql, table, parameters, &[]) {
        Err(refusal) => refusal,
        Ok(fold) => panic!("{sql} folds: {}", fold.one_row),
    }
}

fn named(name: &str) -> String {
    name.to_owned()
}

#[test]
fn a_table_that_the_catalog_excludes_is_refused() {
    let mut table = stock();
    table.refused = Some("triggers".to_owned());
    let refusal = refused(COUNT, &table, &["integer", "bigint"]);
    assert_eq!(refusal, FoldRefusal::Table(named("triggers")));
    assert_eq!(refusal.to_string(), "table: triggers");
    let mut partition = stock();
    partition.is_partition = true;
    let refusal = refused(COUNT, &partition, &["integer", "bigint"]);
    assert_eq!(refusal, FoldRefusal::Table(named("a partition")));
}

#[test]
fn where_must_name_all_columns_of_a_unique_key() {
    let refusal = refused(
        "UPDATE stock SET qty = 1 WHERE note = $1",
        &stock(),
        &["text"],
    );
    assert_eq!(refusal, FoldRefusal::Key);
    let mut table = stock();
    table.keys = vec![vec![named("id"), named("note")]];
    assert_eq!(
        refused(COUNT, &table, &["integer", "bigint"]),
        FoldRefusal::Key
    );
    table.keys = Vec::new();
    assert_eq!(
        refused(COUNT, &table, &["integer", "bigint"]),
        FoldRefusal::Key
    );
}

#[test]
fn a_key_must_be_comparable_without_postgresql() {
    let key = || FoldRefusal::KeyType(named("id"));
    let parameters = ["integer", "bigint"];
    let foreign = stock_with("id", |id| {
        id.type_oid = 16_500;
        id.builtin = false;
    });
    assert_eq!(
        refused(COUNT, &foreign, &parameters),
        FoldRefusal::Type(named("id"))
    );
    let loose = stock_with("id", |id| {
        id.type_oid = 25;
        id.deterministic = false;
    });
    assert_eq!(refused(COUNT, &loose, &["integer", "text"]), key());
}

#[test]
fn a_key_must_be_compared_in_its_own_type() {
    let key = || FoldRefusal::KeyType(named("id"));
    for parameter in ["numeric", "double precision", "text"] {
        assert_eq!(
            refused(COUNT, &stock(), &["integer", parameter]),
            key(),
            "{parameter}"
        );
    }
    let constant = |id: &str| format!("UPDATE stock SET qty = 1 WHERE id = {id}");
    assert_eq!(refused(&constant("7.0"), &stock(), &[]), key());
    let text = stock_with("id", |id| *id = column("id", "text", 25));
    assert_eq!(refused(&constant("7"), &text, &[]), key());
    assert_eq!(refused(COUNT, &text, &["integer", "bigint"]), key());
    let money = stock_with("id", |id| *id = column("id", "numeric", 1700));
    assert_eq!(
        refused(COUNT, &money, &["integer", "bigint"]),
        key(),
        "1 and 1.0 are other bytes"
    );
}

#[test]
fn columns_with_dependencies_are_not_assigned() {
    let table = stock_with("qty", |qty| qty.fixed = true);
    let refusal = refused(COUNT, &table, &["integer", "bigint"]);
    assert_eq!(refusal, FoldRefusal::Assigned(named("qty")));
    let other = "UPDATE stock SET price = qty + $1 WHERE id = $2";
    assert!(
        rewritten(other, &table, &["integer", "bigint"], &[]).is_ok(),
        "reading it does no harm"
    );
}

#[test]
fn types_whose_casts_truncate_silently_are_not_assigned() {
    let sql = "UPDATE stock SET note = $1 WHERE id = $2";
    let cut: [(&str, Change); 6] = [
        ("char(n)", |note| {
            (note.type_oid, note.base_type_oid) = (1042, 1042)
        }),
        ("bit(n)", |note| {
            (note.type_oid, note.base_type_oid) = (1560, 1560)
        }),
        ("a domain over varbit(n)", |note| note.base_type_oid = 1562),
        ("a domain over varchar(n)", |note| {
            (note.type_oid, note.base_type_oid, note.type_modifier) = (16_500, 1043, 14);
        }),
        ("interval day", |note| {
            (note.base_type_oid, note.type_modifier) = (1186, 589_823)
        }),
        ("varchar(n)[]", |note| {
            (note.array, note.type_modifier) = (true, 14)
        }),
    ];
    for (what, change) in cut {
        let refusal = refused(sql, &stock_with("note", change), &["text", "bigint"]);
        assert_eq!(refusal, FoldRefusal::Type(named("note")), "{what}");
    }
    let unlimited = stock_with("note", |note| {
        (note.type_oid, note.base_type_oid) = (16_500, 1043)
    });
    assert!(rewritten(sql, &unlimited, &["text", "bigint"], &[]).is_ok());
}

#[test]
fn user_defined_types_are_refused() {
    let table = stock_with("note", |note| note.builtin = false);
    let reads = "UPDATE stock SET qty = $1 WHERE id = $2 AND note IS NULL";
    let refusal = refused(reads, &table, &["integer", "bigint"]);
    assert_eq!(refusal, FoldRefusal::Type(named("note")));
    let foreign = TypeName {
        builtin: false,
        ..types(&["integer"]).remove(0)
    };
    let parameters = [foreign, types(&["bigint"]).remove(0)];
    let refusal = rewrite(&update(COUNT), &stock(), &parameters, &[]);
    assert_eq!(refusal, Err(FoldRefusal::Type(named("parameter $1"))));
    let refusal = refused(COUNT, &stock(), &["box", "bigint"]);
    assert_eq!(
        refusal,
        FoldRefusal::Type(named("parameter $1")),
        "arrays of box have semicolons"
    );
}

#[test]
fn a_new_value_is_compared_only_under_a_collation_that_can_be_named() {
    let collated = |collation: Collation| stock_with("note", |note| note.collation = collation);
    let sql = "UPDATE stock SET note = $1 WHERE id = $2 RETURNING note";
    let parameters = ["text", "bigint"];
    let compared = format!("{sql}, note < 'b'");
    let returning = ["text", "boolean"];
    let built_in = collated(Collation::BuiltIn("tr-x-icu".to_owned()));
    let fold = rewritten(&compared, &built_in, &parameters, &returning).unwrap();
    let part = r#" COLLATE pg_catalog."tr-x-icu" AS c"#;
    assert!(fold.one_row.contains(part), "{}", fold.one_row);
    let unnamed = collated(Collation::UserDefined);
    assert!(rewritten(sql, &unnamed, &parameters, &["text"]).is_ok());
    let refusal = rewritten(&compared, &unnamed, &parameters, &returning).unwrap_err();
    assert_eq!(refusal, FoldRefusal::Collation(named("note")));
}

#[test]
fn unknown_columns_and_parameters_are_refused() {
    for sql in [
        "UPDATE stock SET colour = 1 WHERE id = 7",
        "UPDATE stock SET qty = 1 WHERE id = 7 AND colour = 1",
        "UPDATE stock SET qty = 1 WHERE id = 7 AND colour > 1",
        "UPDATE stock SET qty = colour WHERE id = 7",
    ] {
        assert_eq!(
            refused(sql, &stock(), &[]),
            FoldRefusal::Column(named("colour")),
            "{sql}"
        );
    }
    assert_eq!(
        refused(COUNT, &stock(), &["integer"]),
        FoldRefusal::Type(named("parameter $2"))
    );
    assert_eq!(
        refused(COUNT, &stock(), &[]),
        FoldRefusal::Type(named("parameter $1"))
    );
}

#[test]
fn a_check_that_cannot_be_rewritten_is_refused() {
    let mut table = stock();
    table.checks = vec![named("(qty > (SELECT 1))")];
    assert_eq!(
        refused(COUNT, &table, &["integer", "bigint"]),
        FoldRefusal::Expression
    );
}

#[test]
fn returning_must_have_the_described_columns() {
    let sql = "UPDATE stock SET qty = 1 WHERE id = 7 RETURNING qty";
    assert_eq!(
        rewritten(sql, &stock(), &[], &[]),
        Err(FoldRefusal::Expression)
    );
    assert_eq!(
        rewritten(sql, &stock(), &[], &["integer", "text"]),
        Err(FoldRefusal::Expression)
    );
}

#[test]
fn a_cast_to_interval_is_refused() {
    let sql = "UPDATE stock SET qty = qty + extract(day FROM $1::interval)::int WHERE id = $2";
    let refusal = refused(sql, &stock(), &["interval", "bigint"]);
    assert_eq!(refusal, FoldRefusal::Type(named("a cast to interval")));
}
