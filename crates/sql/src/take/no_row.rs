//! Errors of consumers without a row: PostgreSQL may compute expressions that depend on no column, and convert them
//! to the type of their column, when it plans the statement. The statement for many consumers therefore computes
//! these expressions once for each of them. If one raises an error, the group fails, and its halves are retried until
//! the member with the error is alone.

use super::parts::Take;
use crate::distribution::DistributionRefusal;
use crate::expr::{Expr, Terms};
use crate::facts::{Column, TableFacts};
use crate::fold::column;
use crate::type_name::TypeName;

/// The expressions that may raise an error for a consumer without a row.
#[derive(Default)]
pub(super) struct NoRowErrors<'a> {
    /// Expressions that are computed for each consumer, and the column to whose type they are converted, if any.
    values: Vec<(Expr, Option<&'a Column>)>,
    /// Whether there are errors that only the consumer's own statement can detect.
    pub(super) uncertain: bool,
}

impl<'a> NoRowErrors<'a> {
    pub(super) fn of(
        take: &Take,
        queue: &'a TableFacts,
        onto: Option<&'a TableFacts>,
        parameters: &[TypeName],
    ) -> Self {
        let mut errors = Self::default();
        let terms = Terms {
            parameters,
            is_column: &|_| false,
            floats: queue.has_floats(),
        };
        let parts = |expr: &Expr| expr.parts_without_columns(terms);
        for part in take.changing().into_iter().flat_map(parts) {
            errors.add(&part, None);
        }
        let assigned = take.assignments.iter().flatten();
        let assigned = assigned.map(|(name, expr)| (expr, queue.column(name)));
        for (expr, column) in assigned.chain(moved(take, onto)) {
            if let Some(column) = column
                && expr.columns().is_empty()
                && !column::fits(expr, column, parameters)
            {
                errors.add(expr, Some(column));
            }
        }
        errors
    }

    fn add(&mut self, expr: &Expr, column: Option<&'a Column>) {
        // An expression without parameters fails for all consumers alike, in the common statement.
        if expr.parameters().is_empty() {
            return;
        }
        // Each sequence number belongs to a row, and a cast that truncates does not detect an error.
        let numbers = expr.functions().iter().any(|name| name.name == "nextval");
        let cuts = column.is_some_and(|column| column::is_cut(column) || !column.builtin);
        match numbers || cuts {
            true => self.uncertain = true,
            false => self.values.push((expr.clone(), column)),
        }
    }

    /// SQL for the values; `sql` returns SQL for an expression.
    pub(super) fn values(
        &self,
        sql: impl Fn(&Expr) -> Result<String, DistributionRefusal>,
    ) -> Result<Vec<String>, DistributionRefusal> {
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

/// The values of rows that are moved, and the columns they are inserted into.
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
