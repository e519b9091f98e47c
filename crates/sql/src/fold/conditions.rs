//! Checks of a fold: for each member, whether its row exists or not, the errors that its own UPDATE would have
//! raised; for each new version of a row, the table's constraints.

use super::column;
use super::refusal::FoldRefusal;
use super::rewriter::{Rewriter, View};
use crate::expr::{Expr, Terms};
use crate::facts::Column;
use crate::operator::{GE, LE};
use crate::value::KeyValue;

impl<'a> Rewriter<'a> {
    /// Whether PostgreSQL may raise an error for a member whose row is missing.
    pub(super) fn may_fail_unseen(&self) -> bool {
        let mut exprs = self.changing_exprs();
        self.proposal.is_none()
            && (exprs.any(|expr| !self.parts(expr).is_empty())
                || self.unfitting().next().is_some()
                || self.narrower().next().is_some()
                || self.failing_guards().next().is_some()
                || self.carried.iter().any(|carried| carried.as_text))
    }

    /// Conditions of WHERE with which a row may raise an error, if there are others. PostgreSQL chooses the order in which it checks them
    /// by their cost, and does not check the rest after one that is false. That of DO UPDATE is in the order of the text.
    fn failing_guards(&self) -> impl Iterator<Item = &'a Expr> {
        let guards = self.update.guards.iter();
        let ordered =
            self.proposal.is_none() && self.other_equalities.len() + self.update.guards.len() > 1;
        guards.filter(move |guard| ordered && guard.may_fail())
    }

    /// Whether a condition may exclude a member's row, so that PostgreSQL does not convert the member's values.
    fn is_guarded(&self) -> bool {
        !self.other_equalities.is_empty() || !self.update.guards.is_empty()
    }

    /// Assigned values that depend on no column, and may not fit their column. An upsert has none, because its
    /// conditions include them.
    fn unfitting(&self) -> impl Iterator<Item = (&'a Column, &'a Expr)> {
        let assigned = self.assigned.iter().copied();
        assigned.filter(|(column, expr)| {
            self.proposal.is_none()
                && expr.columns().is_empty()
                && !column::fits(expr, column, self.parameters)
        })
    }

    fn parts(&self, expr: &Expr) -> Vec<Expr> {
        expr.parts_without_columns(Terms {
            parameters: self.parameters,
            is_column: &|_| false,
            floats: self.table.has_floats(),
        })
    }

    /// Columns whose type may not have the value that they are compared with.
    fn narrower(&self) -> impl Iterator<Item = (&'a Column, u32)> {
        let equalities = self.other_equalities.iter();
        equalities.filter_map(|(column, value)| match value {
            KeyValue::Parameter(number) if column.is_float() => {
                let name = column::parameter_type(self.parameters, *number).ok()?;
                (name.sql == "numeric").then_some((*column, *number))
            }
            _ => None,
        })
    }

    /// Expressions that PostgreSQL may compute for a member before it reads a row. An upsert has none, because its
    /// conditions include them.
    fn computed(&self) -> Result<Vec<String>, FoldRefusal> {
        if self.proposal.is_some() {
            return Ok(Vec::new());
        }
        let parts = self.changing_exprs().flat_map(|expr| self.parts(expr));
        let mut computed = parts
            .map(|part| self.expr(&part, View::Before))
            .collect::<Result<Vec<_>, _>>()?;
        let narrower = self.narrower().map(|(column, number)| {
            let value = self.parameter(number, View::Before);
            column::converted(&value, column)
        });
        computed.extend(narrower);
        for guard in self.failing_guards() {
            computed.push(format!("({})", self.expr(guard, View::Before)?));
        }
        // Text is converted to an array.
        let texts = self.carried.iter().filter(|carried| carried.as_text);
        computed.extend(texts.map(|carried| self.parameter(carried.parameter, View::Before)));
        Ok(computed)
    }

    /// The conditions for each member, whether its row satisfies the guards or not; `None` if they cannot be
    /// violated.
    pub(super) fn member_conditions(&self) -> Result<Option<String>, FoldRefusal> {
        let proposed = self.proposal.map_or(&[][..], |proposal| proposal.checks);
        let proposed = proposed.iter();
        let parts =
            proposed.map(|expr| Ok(format!("({}) IS NOT FALSE", self.expr(expr, View::Before)?)));
        let mut parts = parts.collect::<Result<Vec<_>, FoldRefusal>>()?;
        let mut computed = self.computed()?;
        for (column, expr) in self.unfitting().filter(|_| self.is_guarded()) {
            let value = self.expr(expr, View::Before)?;
            match column::is_short(&value, column) {
                Some(short) => parts.push(short),
                None => computed.push(column::converted(&value, column)),
            }
        }
        if !computed.is_empty() {
            let computed = computed.join(", ");
            parts.push(format!("pg_catalog.num_nulls({computed}) {GE} 0"));
        }
        Ok((!parts.is_empty()).then(|| parts.join(" AND ")))
    }

    /// The conditions for a row after a member's update; `None` if they cannot be violated.
    pub(super) fn constraints(&self) -> Result<Option<String>, FoldRefusal> {
        let mut parts = Vec::new();
        for check in &self.checks {
            parts.push(format!("({}) IS NOT FALSE", self.expr(check, View::After)?));
        }
        for (column, _) in &self.assigned {
            let name = self.state_name(&column.name);
            if column.not_null {
                parts.push(format!("n.{name} IS NOT NULL"));
            }
            if let Some(chars) = column::char_limit(column) {
                parts.push(format!(
                    "coalesce(pg_catalog.char_length(n.{name}) {LE} {chars}, true)"
                ));
            }
        }
        Ok((!parts.is_empty()).then(|| parts.join(" AND ")))
    }
}
