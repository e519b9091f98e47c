//! Which statements are rewritten, and how, and which are refused. End-to-end tests check the effects of the
//! statements. These tests check that a statement is SQL, has the right parameters, and includes the checks of an
//! UPDATE.

mod refusing;
mod rewriting;

use super::{Fold, FoldRefusal, rewrite};
use crate::facts::{CatalogVersion, Column, Extent, TableFacts};
use crate::type_name::TypeName;
use crate::{Effect, Update, parse};

/// A column whose equal values have the same bytes and which can be assigned.
fn column(name: &str, type_name: &str, type_oid: u32) -> Column {
    Column {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        bare_type_name: type_name.to_owned(),
        type_oid,
        type_modifier: -1,
        base_type_oid: type_oid,
        deterministic: true,
        builtin: true,
        ..Column::default()
    }
}

/// `shop.stock (id bigint primary key, qty integer, note text, price numeric)`.
fn stock() -> TableFacts {
    TableFacts {
        schema: "shop".to_owned(),
        name: "stock".to_owned(),
        extent: Extent {
            tree: vec![16_400],
            ..Extent::default()
        },
        catalog_version: CatalogVersion::new(
            "pg_catalog.to_regclass('shop.stock')::pg_catalog.text".to_owned(),
            "now".to_owned(),
        ),
        columns: vec![
            column("id", "bigint", 20),
            column("qty", "integer", 23),
            column("note", "text", 25),
            column("price", "numeric", 1700),
        ],
        keys: vec![vec!["id".to_owned()]],
        ..TableFacts::default()
    }
}

/// The table `stock` with one column changed.
fn stock_with(name: &str, change: impl FnOnce(&mut Column)) -> TableFacts {
    let mut table = stock();
    change(
        table
            .columns
            .iter_mut()
            .find(|c| c.name == name)
            .expect("a column of the stock"),
    );
    table
}

fn types(names: &[&str]) -> Vec<TypeName> {
    let type_name = |sql: &&str| TypeName {
        sql: (*sql).to_owned(),
        array: sql.ends_with("[]"),
        builtin: true,
        collatable: false,
    };
    names.iter().map(type_name).collect()
}

fn update(sql: &str) -> Update {
    let statement = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    statement
        .update
        .unwrap_or_else(|| panic!("no parts: {sql}"))
}

fn rewritten(
    sql: &str,
    table: &TableFacts,
    parameters: &[&str],
    returning: &[&str],
) -> Result<Fold, FoldRefusal> {
    rewrite(&update(sql), table, &types(parameters), &types(returning))
}

/// A fold whose statements were checked: each writes, has the right number of parameters, and waits for locks only on
/// one row or for a short time.
fn folded(sql: &str, table: &TableFacts, parameters: &[&str], returning: &[&str]) -> Fold {
    let fold =
        rewritten(sql, table, parameters, returning).unwrap_or_else(|why| panic!("{sql}: {why}"));
    for text in [&fold.many_rows, &fold.one_row] {
        let statement = parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(
            (statement.statements, &statement.effect),
            (1, &Effect::Write),
            "{text}"
        );
        let expected: Vec<usize> = (1..=fold.key.len() + 3 + fold.carried.len()).collect();
        assert_eq!(parameters_of(text), expected, "{text}");
        assert!(text.contains("FOR NO KEY UPDATE OF t"), "{text}");
    }
    assert!(fold.many_rows.contains("SKIP LOCKED") && !fold.one_row.contains("SKIP LOCKED"));
    let text = fold.one_each.as_ref().expect("an UPDATE");
    let statement = parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(
        (statement.statements, &statement.effect),
        (1, &Effect::Write),
        "{text}"
    );
    let expected: Vec<usize> = (1..=fold.key.len() + 1 + fold.carried.len()).collect();
    assert_eq!(parameters_of(text), expected, "{text}");
    fold
}

/// The numbers of the parameters in a text, sorted, without duplicates.
fn parameters_of(sql: &str) -> Vec<usize> {
    let digits = |rest: &str| {
        rest.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())
    };
    let number = |rest: &str| rest[..digits(rest)].parse().expect("a number after $");
    let mut numbers: Vec<usize> = sql.split('$').skip(1).map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
