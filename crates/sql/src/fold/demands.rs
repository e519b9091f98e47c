//! What a fold demands: of every member, with a row or without one, what its own UPDATE would have failed of; and of each
//! new version of a row, what the table's constraints ask.

use super::{Refusal, Rewriter, View, column};
use crate::Expr;
use crate::facts::Column;
use crate::operator::{GE, LE};

impl<'a> Rewriter<'a> {
    /// PostgreSQL may raise an error of a member whose row is missing.
    pub(super) fn may_fail_unseen(&self) -> bool {
        let mut exprs = self.changing_exprs();
        self.proposal.is_none()
            && (exprs.any(|expr| !self.parts(expr).is_empty())
                || self.unfitting().next().is_some()
                || self.carried.iter().any(|carried| carried.as_text))
    }

    /// A member's guard may keep it from its row, and its values from being converted.
    fn is_guarded(&self) -> bool {
        !self.other_equalities.is_empty() || !self.update.guards.is_empty()
    }

    /// Values that depend on no column, and might not fit into theirs; of an upsert they are among what is proposed.
    fn unfitting(&self) -> impl Iterator<Item = (&'a Column, &'a Expr)> {
        let assigned = self.assigned.iter().copied();
        assigned.filter(|(column, expr)| {
            self.proposal.is_none()
                && expr.columns().is_empty()
                && !column::fits(expr, column, self.parameters)
        })
    }

    fn parts(&self, expr: &Expr) -> Vec<Expr> {
        expr.parts_without_columns(self.parameters, &|_| false)
    }

    /// What PostgreSQL may compute of a member before it looks at a row; of an upsert it is among what is proposed.
    fn computed(&self) -> Result<Vec<String>, Refusal> {
        if self.proposal.is_some() {
            return Ok(Vec::new());
        }
        let parts = self.changing_exprs().flat_map(|expr| self.parts(expr));
        let mut computed = parts
            .map(|part| self.expr(&part, View::Before))
            .collect::<Result<Vec<_>, _>>()?;
        // What travels as text is read as an array.
        let texts = self.carried.iter().filter(|carried| carried.as_text);
        computed.extend(texts.map(|carried| self.parameter(carried.parameter, View::Before)));
        Ok(computed)
    }

    /// What must hold of every member, whether its guard lets it pass or not; `None` when nothing can be broken.
    pub(super) fn demands(&self) -> Result<Option<String>, Refusal> {
        let proposed = self.proposal.map_or(&[][..], |proposal| proposal.checks);
        let proposed = proposed.iter();
        let parts =
            proposed.map(|expr| Ok(format!("({}) IS NOT FALSE", self.expr(expr, View::Before)?)));
        let mut parts = parts.collect::<Result<Vec<_>, Refusal>>()?;
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

    /// What must hold of a row after a member's update; `None` when nothing can be broken.
    pub(super) fn constraints(&self) -> Result<Option<String>, Refusal> {
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
