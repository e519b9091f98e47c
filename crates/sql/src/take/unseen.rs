//! Errors that a consumer is told although there is no row for it: what depends on no column PostgreSQL may compute, and fit
//! into its column, when it plans the statement. So the statement for many computes all of that once for every consumer:
//! if one of them fails, it fails, and they go again by halves until who is at fault is alone.

use super::Take;
use crate::Expr;
use crate::dealing::Refusal;
use crate::facts::{Column, TableFacts};
use crate::fold::column;
use crate::type_name::TypeName;

/// What a consumer may be told without a row.
#[derive(Default)]
pub(super) struct Unseen<'a> {
    /// What is computed for every consumer, and the column into which it is fitted, if any.
    values: Vec<(Expr, Option<&'a Column>)>,
    /// There is more, which nothing but the consumer's own statement can find out.
    pub(super) uncertain: bool,
}

impl<'a> Unseen<'a> {
    pub(super) fn of(
        take: &Take,
        queue: &'a TableFacts,
        onto: Option<&'a TableFacts>,
        parameters: &[TypeName],
    ) -> Self {
        let mut unseen = Self::default();
        let parts = |expr: &Expr| expr.parts_without_columns(parameters, &|_| false);
        for part in take.changing().into_iter().flat_map(parts) {
            unseen.note(&part, None);
        }
        let assigned = take.assignments.iter().flatten();
        let assigned = assigned.map(|(name, expr)| (expr, queue.column(name)));
        for (expr, column) in assigned.chain(moved(take, onto)) {
            if let Some(column) = column
                && expr.columns().is_empty()
                && !column::fits(expr, column, parameters)
            {
                unseen.note(expr, Some(column));
            }
        }
        unseen
    }

    fn note(&mut self, expr: &Expr, column: Option<&'a Column>) {
        // What is the same for all fails for all, in the statement that is theirs.
        if expr.parameters().is_empty() {
            return;
        }
        // Each number of a sequence is for a row, and a cast that cuts tells nothing.
        let numbers = expr.functions().iter().any(|name| name.name == "nextval");
        let cuts = column.is_some_and(|column| column::is_cut(column) || !column.builtin);
        match numbers || cuts {
            true => self.uncertain = true,
            false => self.values.push((expr.clone(), column)),
        }
    }

    /// SQL of the values; `sql` is that of an expression.
    pub(super) fn values(
        &self,
        sql: impl Fn(&Expr) -> Result<String, Refusal>,
    ) -> Result<Vec<String>, Refusal> {
        let value = |(expr, column): &(Expr, Option<&Column>)| {
            let value = sql(expr)?;
            Ok(match column {
                Some(column) => column::converted(&value, column),
                None => value,
            })
        };
        self.values.iter().map(value).collect()
    }
}

/// What moves on, and the columns that it goes to.
fn moved<'a, 't>(
    take: &'t Take,
    onto: Option<&'a TableFacts>,
) -> impl Iterator<Item = (&'t Expr, Option<&'a Column>)> {
    let onward = take.onward.iter().zip(onto);
    onward.flat_map(|(onward, table)| {
        let values = onward.values.iter().enumerate();
        values.map(|(place, expr)| match onward.columns.get(place) {
            Some(name) => (expr, table.column(name)),
            None => (expr, table.columns.get(place)),
        })
    })
}
