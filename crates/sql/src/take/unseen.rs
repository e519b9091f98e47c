//! Errors that a consumer is told although there is no row for it: what depends on no column PostgreSQL may compute, and fit
//! into its column, when it plans the statement.

use super::Take;
use crate::Expr;
use crate::dealing::TypeName;
use crate::facts::{Column, TableFacts};
use crate::fold::column;

/// May a consumer's own values fail before there is a row?
pub(super) fn may_fail(
    take: &Take,
    queue: &TableFacts,
    onto: Option<&TableFacts>,
    parameters: &[TypeName],
) -> bool {
    let computes = |expr: &Expr| expr.computes_without_columns() && !expr.parameters().is_empty();
    // What is the same for all fails for all, in the statement that is theirs.
    let safe = |(expr, column): (&Expr, Option<&Column>)| {
        expr.parameters().is_empty()
            || !expr.columns().is_empty()
            || column.is_none_or(|column| column::fits(expr, column, parameters))
    };
    let assigned = take.assignments.iter().flatten();
    let assigned = assigned.map(|(name, expr)| (expr, queue.column(name)));
    take.changing().into_iter().any(computes) || !assigned.chain(moved(take, onto)).all(safe)
}

/// What moves on, and the columns that it goes to.
fn moved<'a>(
    take: &'a Take,
    onto: Option<&'a TableFacts>,
) -> impl Iterator<Item = (&'a Expr, Option<&'a Column>)> {
    let onward = take.onward.iter().zip(onto);
    onward.flat_map(|(onward, table)| {
        let values = onward.values.iter().enumerate();
        values.map(|(place, expr)| match onward.columns.get(place) {
            Some(name) => (expr, table.column(name)),
            None => (expr, table.columns.get(place)),
        })
    })
}
