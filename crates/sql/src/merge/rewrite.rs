//! The statement for INSERTs without ON CONFLICT, and the checks that it shares with upserts.

use super::insert::Insert;
use super::rows::Rows;
use crate::distribution::{
    Distribution, DistributionRefusal, PerMember, SET_LOCK_TIMEOUT, Shared, UNCERTAIN,
    answer_names, answers_sql, check_columns, check_intervals,
};
use crate::expr::Expr;
use crate::facts::{SAME, TableFacts};
use crate::literals::LiteralKind;
use crate::operator::{CONCAT, NE};
use crate::quote::quote_ident;
use crate::type_name::TypeName;
use crate::update::returned_values;
use crate::value::KeyValue;
use std::collections::BTreeSet;

/// Number of the first shared parameter, after the number of rows and the catalog version.
const SHARED: usize = 3;

/// Rewrites an `insert` without ON CONFLICT for many clients. `parameters` and `returning` are the types of the
/// parameters and RETURNING columns.
///
/// # Errors
/// [`DistributionRefusal`]: why the INSERT cannot be rewritten.
pub fn rewrite(
    insert: &Insert,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Distribution, DistributionRefusal> {
    check(insert, table)?;
    // RETURNING cannot read the number of the member: all members must have the same values for its parameters.
    let shared: BTreeSet<u32> = insert.returned().flat_map(Expr::parameters).collect();
    let shared: Vec<u32> = shared.into_iter().collect();
    if insert.rows.len() > 1 && !shared.is_empty() {
        return Err(DistributionRefusal::Returning);
    }
    let rows = Rows::of(&insert.rows, parameters)?;
    let per_member = PerMember::of(rows.exprs(insert), &shared, parameters)?;
    let types = Shared::of(&shared, parameters)?;
    let parameter = |number| {
        let per_member = || per_member.element(number, |place| format!("k.p{place}"));
        types.sql(number, SHARED).unwrap_or_else(per_member)
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (column, expr) in insert.valued(table)? {
        columns.push(quote_ident(&column));
        values.push(expr.to_sql(&|_| String::new(), &parameter)?);
    }
    let returned = returned(insert, table, &parameter, returning)?;
    let names = answer_names(returning.len());
    let text = format!(
        "WITH facts AS MATERIALIZED ({facts}), \
         moved AS (INSERT INTO {table} AS u ({columns}) SELECT {values} FROM facts, {members} WHERE facts.same ORDER BY k.pos \
         RETURNING true AS there{returned}) \
         SELECT CASE WHEN facts.same AND (SELECT pg_catalog.count(*) FROM moved) {NE} $1::pg_catalog.int8 \
         THEN CASE WHEN ('{UNCERTAIN}' {CONCAT} facts.same::pg_catalog.text)::pg_catalog.bool THEN facts.analyzed END ELSE {SAME} END, \
         CASE WHEN w.there THEN pg_catalog.row_number() OVER () END::pg_catalog.int4{names} FROM facts LEFT JOIN moved AS w ON true",
        facts = table.catalog_version.facts_sql(
            2,
            &format!("{} AND {SET_LOCK_TIMEOUT}", insert.rights(table))
        ),
        table = table.qualified(),
        columns = columns.join(", "),
        values = values.join(", "),
        members = per_member.rows("$1", SHARED + shared.len()),
    );
    Ok(Distribution {
        text,
        text_of_few: None,
        positioned: None,
        limit: KeyValue::Constant {
            kind: LiteralKind::Int4,
            text: insert.rows.len().to_string(),
        },
        single: insert.rows.len() == 1,
        queue: false,
        shared,
        per_member: per_member.into_list(|number| rows.numbers(number)),
        tag: "INSERT 0",
        may_fail_unseen: false,
        raises_anything: false,
        returning: returning.len(),
    })
}

/// Checks that the table permits such inserts and has the columns.
pub(super) fn check(insert: &Insert, table: &TableFacts) -> Result<(), DistributionRefusal> {
    if let Some(why) = table.refused_unless_taken() {
        return Err(DistributionRefusal::Table(
            table.name.clone(),
            why.to_owned(),
        ));
    }
    check_columns(table, insert.returned())?;
    let all = table.columns.iter().map(|column| &column.name);
    match insert.columns.is_empty() {
        true => check_intervals(table, all),
        false => check_intervals(table, &insert.columns),
    }
}

/// The RETURNING columns as `, value AS rn`.
pub(super) fn returned(
    insert: &Insert,
    table: &TableFacts,
    parameter: &dyn Fn(u32) -> String,
    returning: &[TypeName],
) -> Result<String, DistributionRefusal> {
    let column = |name: &str| format!("u.{}", quote_ident(name));
    let all = || table.columns.iter().map(|c| column(&c.name)).collect();
    let values = returned_values(&insert.returning, all, |expr| {
        expr.to_sql(&column, parameter)
    })?;
    answers_sql(&values, returning)
}
