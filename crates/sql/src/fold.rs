//! The fold: one SQL statement that locks each row once, applies the updates of many members in order, writes one new
//! version of each row, and returns a result for each member. PostgreSQL evaluates all expressions.
//!
//! The parameters of the statement are arrays: the distinct keys, the numbers of the first and the last member of
//! each key, the fingerprint of the facts, and one array for each parameter of the template. Members are numbered in
//! the order of (key, arrival). Each step of the recursion applies one member of each key. If each member is on a row
//! of its own, no order is necessary, and the client's UPDATE is joined to the arrays.

use crate::facts::{Column, TableFacts};
use crate::operator::ADD;
use crate::row_wait;
use crate::type_name::TypeName;
use crate::{Expr, KeyValue, LiteralKind, Returning, Update, quote_ident, quote_literal};
use std::collections::BTreeSet;
use text::Rows;

pub(crate) mod column;
mod demands;
mod one_each;
#[cfg(test)]
mod tests;
mod text;

/// Reason why an UPDATE cannot be folded. Users see it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The table does not permit it.
    #[error("table: {0}")]
    Table(String),
    /// WHERE contains no equality on all columns of a unique key.
    #[error("no equality on a unique key")]
    Key,
    /// A key column has a type or collation under which equal values may have different bytes.
    #[error("key column {0} has a type or collation that cannot be compared here")]
    KeyType(String),
    /// SET assigns a column that a key, index, foreign key or partition depends on.
    #[error("column {0} is part of a key, an index or a foreign key")]
    Assigned(String),
    /// A type that a fold does not support.
    #[error("type of {0}")]
    Type(String),
    /// The table does not have this column.
    #[error("unknown column {0}")]
    Column(String),
    /// An expression cannot be rewritten.
    #[error("an expression that cannot be rewritten")]
    Expression,
}

/// How equal values of a key column are recognized without PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyClass {
    /// int2, int4, int8: compared as numbers, sent in canonical text format.
    Integer,
    /// uuid: compared as 16 bytes, sent in canonical text format.
    Uuid,
    /// text, varchar under a deterministic collation: equal values have the same bytes.
    Text,
    /// Other types: values with different bytes may be equal, so that a group has one row only.
    Opaque,
}

/// A column of the key and the source of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Name of the column.
    pub name: String,
    /// Number of the template's parameter, from 1, or a constant of the template.
    pub value: KeyValue,
    /// How values are compared.
    pub class: KeyClass,
    /// OID of the column's data type.
    pub type_oid: u32,
}

/// The statements of a fold, and how to fill their parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// For groups on more than one row: skips rows that others have locked.
    pub many_rows: String,
    /// For groups on one row: waits for its lock, for at most [`UNCHECKED_WAIT_MS`](crate::UNCHECKED_WAIT_MS).
    pub one_row: String,
    /// For groups in which each member is on a row of its own: one execution of the client's UPDATE. It waits for
    /// locks for at most 1 ms. Its parameters have no first and last members. `None` for the updates of an upsert.
    pub one_each: Option<String>,
    /// A query for the members that would wait for a row: its result contains their numbers, from 1. The other
    /// members would change no row. Its parameters are those of `one_each`, with one key for each member. `None` for
    /// the updates of an upsert, which lock a row before they check its values.
    pub probe: Option<String>,
    /// Waits for the lock of one row. The parameters are the values of the key.
    pub lock: String,
    /// The key columns, in the order of the array parameters `$1…`.
    pub key: Vec<KeyColumn>,
    /// The parameters of the template that follow as arrays after the fingerprint.
    pub carried: Vec<Carried>,
    /// Whether PostgreSQL may raise an error for a member whose row is missing or, if each member is on a row of its
    /// own, whose row does not satisfy the other conditions of WHERE.
    pub may_fail_unseen: bool,
    /// Whether the table has partitions. A fold locks all partitions.
    pub partitioned: bool,
    /// Whether the fold performs the updates of an upsert, after the INSERT of the same group.
    pub upsert: bool,
    /// Number of RETURNING columns, which follow the columns of [`RESULT_COLUMNS`].
    pub returning: usize,
}

/// A parameter of the template with one value for each member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Number in the template, from 1.
    pub parameter: u32,
    /// Whether the parameter is an array, whose values are sent in text format in a `text[]`.
    pub as_text: bool,
}

/// Number of result columns before RETURNING: whether the facts are unchanged, number of the member (from 1; NULL if
/// there is none), whether the constraints are satisfied, whether the member has updated the row.
pub const RESULT_COLUMNS: usize = 4;

/// Rewrites `update` on the table that `table` describes. `parameters` and `returning` are the types of the
/// template's parameters and RETURNING columns.
///
/// # Errors
/// [`Refusal`]: why the UPDATE cannot be folded.
pub fn rewrite(
    update: &Update,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Fold, Refusal> {
    if let Some(reason) = &table.refused {
        return Err(Refusal::Table(reason.clone()));
    }
    Rewriter::new(update, table, parameters, None)?.build(returning)
}

/// Rewrites the update of an upsert for existing rows. An INSERT of the first member of each key precedes it in the
/// same transaction: if that transaction has inserted the row, its first member is complete.
pub(crate) fn rewrite_upsert(
    update: &Update,
    proposal: Proposal<'_>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Fold, Refusal> {
    Rewriter::new(update, table, parameters, Some(proposal))?.build(returning)
}

/// Conditions that an upsert requires of each member, whatever row exists.
#[derive(Clone, Copy)]
pub(crate) struct Proposal<'a> {
    /// Conditions on the proposed row.
    pub(crate) checks: &'a [Expr],
    /// Conditions on the client's privileges, as ` AND …`. If one is false, the fold changes nothing.
    pub(crate) rights: &'a str,
}

/// `box` is the only type whose arrays are not delimited by commas.
const BOX: &str = "box";

/// The version of the row that an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    /// The state before the member's step.
    Before,
    /// The state after the member's step.
    After,
    /// The row of the table.
    InPlace,
}

struct Rewriter<'a> {
    update: &'a Update,
    table: &'a TableFacts,
    parameters: &'a [TypeName],
    /// Equalities on the key columns, in key order.
    key: Vec<(&'a Column, &'a KeyValue)>,
    /// Equalities on other columns. They are guards.
    other_equalities: Vec<(&'a Column, &'a KeyValue)>,
    assigned: Vec<(&'a Column, &'a Expr)>,
    checks: Vec<Expr>,
    /// Columns whose values the recursion passes from step to step.
    state: Vec<&'a Column>,
    carried: Vec<Carried>,
    /// The conditions of an upsert.
    proposal: Option<Proposal<'a>>,
}

impl<'a> Rewriter<'a> {
    fn new(
        update: &'a Update,
        table: &'a TableFacts,
        parameters: &'a [TypeName],
        proposal: Option<Proposal<'a>>,
    ) -> Result<Self, Refusal> {
        let (key, other_equalities) = column::split_equalities(update, table)?;
        let assigned = update
            .assignments
            .iter()
            .map(|(name, expr)| column::assignable(table, name).map(|column| (column, expr)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut this = Self {
            update,
            table,
            parameters,
            key,
            other_equalities,
            assigned,
            checks: Vec::new(),
            state: Vec::new(),
            carried: Vec::new(),
            proposal,
        };
        if this
            .member_exprs()
            .any(|e| e.casts_to().iter().any(|name| name.name == "interval"))
        {
            return Err(Refusal::Type("a cast to interval".to_owned()));
        }
        this.checks = this.relevant_checks()?;
        this.state = this.state_columns()?;
        this.carried = this.carried_parameters()?;
        Ok(this)
    }

    /// The constraints that read an assigned column. Others cannot be violated.
    fn relevant_checks(&self) -> Result<Vec<Expr>, Refusal> {
        let mut relevant = Vec::new();
        for text in &self.table.checks {
            let check = Expr::parse(text).map_err(|_| Refusal::Expression)?;
            let reads = check.columns();
            if self.assigned.iter().any(|(c, _)| reads.contains(&c.name)) {
                relevant.push(check);
            }
        }
        Ok(relevant)
    }

    fn returning_exprs(&self) -> impl Iterator<Item = &'a Expr> {
        self.update.returning.iter().filter_map(|r| match r {
            Returning::Expr { expr, .. } => Some(expr),
            Returning::All => None,
        })
    }

    fn member_exprs(&self) -> impl Iterator<Item = &'a Expr> {
        let checks = self.proposal.map_or(&[][..], |proposal| proposal.checks);
        self.changing_exprs().chain(checks)
    }

    fn changing_exprs(&self) -> impl Iterator<Item = &'a Expr> {
        let assigned: Vec<&'a Expr> = self.assigned.iter().map(|(_, e)| *e).collect();
        assigned
            .into_iter()
            .chain(self.update.guards.iter())
            .chain(self.returning_exprs())
    }

    fn state_columns(&self) -> Result<Vec<&'a Column>, Refusal> {
        let mut names: BTreeSet<String> =
            self.assigned.iter().map(|(c, _)| c.name.clone()).collect();
        names.extend(
            self.key
                .iter()
                .chain(&self.other_equalities)
                .map(|(c, _)| c.name.clone()),
        );
        self.member_exprs()
            .chain(&self.checks)
            .for_each(|e| names.extend(e.columns()));
        if self
            .update
            .returning
            .iter()
            .any(|r| matches!(r, Returning::All))
        {
            names.extend(self.table.columns.iter().map(|c| c.name.clone()));
        }
        if let Some(unknown) = names.iter().find(|n| self.table.column(n).is_none()) {
            return Err(Refusal::Column(unknown.clone()));
        }
        let state: Vec<_> = self
            .table
            .columns
            .iter()
            .filter(|c| names.contains(&c.name))
            .collect();
        match state.iter().find(|c| !c.builtin) {
            Some(column) => Err(Refusal::Type(column.name.clone())),
            None => Ok(state),
        }
    }

    fn carried_parameters(&self) -> Result<Vec<Carried>, Refusal> {
        let mut numbers: BTreeSet<u32> = self.member_exprs().flat_map(Expr::parameters).collect();
        numbers.extend(
            self.other_equalities
                .iter()
                .filter_map(|(_, value)| match value {
                    KeyValue::Parameter(n) => Some(*n),
                    KeyValue::Constant { .. } => None,
                }),
        );
        numbers
            .into_iter()
            .map(|parameter| {
                let name = column::parameter_type(self.parameters, parameter)?;
                if !name.builtin || name.sql == BOX {
                    return Err(Refusal::Type(format!("parameter ${parameter}")));
                }
                Ok(Carried {
                    parameter,
                    as_text: name.array,
                })
            })
            .collect()
    }

    fn build(&self, returning: &[TypeName]) -> Result<Fold, Refusal> {
        let key = self
            .key
            .iter()
            .map(|(column, value)| column::key_column(column, value, self.parameters))
            .collect::<Result<Vec<_>, _>>()?;
        let answers = self.answers(returning, View::After)?;
        Ok(Fold {
            many_rows: self.sql(&answers, Rows::Many)?,
            one_row: self.sql(&answers, Rows::One)?,
            one_each: match self.proposal {
                None => Some(self.one_each(returning)?),
                Some(_) => None,
            },
            probe: match self.proposal {
                None => Some(self.probe()?),
                Some(_) => None,
            },
            lock: row_wait::lock_sql(self.table, &self.key_columns()),
            key,
            carried: self.carried.clone(),
            may_fail_unseen: self.may_fail_unseen(),
            partitioned: self.table.extent.tree.len() > 1,
            upsert: self.proposal.is_some(),
            returning: answers.len(),
        })
    }

    /// SQL for the value of a member's parameter.
    fn parameter(&self, number: u32, view: View) -> String {
        let place = self.carried.iter().position(|c| c.parameter == number);
        let (Some(place), Ok(name)) = (place, column::parameter_type(self.parameters, number))
        else {
            return "NULL".to_owned();
        };
        let element = if name.array {
            "pg_catalog.text"
        } else {
            &name.sql
        };
        let value = match view {
            View::InPlace => format!("k.p{}", place + 1),
            // The keys, first and last members, and the fingerprint precede.
            View::Before | View::After => {
                let array = self.key.len() + 3 + place + 1;
                format!("(${array}::{element}[])[f.pos {ADD} 1]")
            }
        };
        match name.array {
            true => format!("{value}::{}", name.sql),
            false => value,
        }
    }

    /// SQL for the value of a column.
    fn column(&self, name: &str, view: View) -> String {
        let assigned = || self.assigned.iter().any(|(c, _)| c.name == name);
        match view {
            View::InPlace => format!("t.{}", quote_ident(name)),
            View::After if assigned() => format!("n.{}", self.state_name(name)),
            View::Before | View::After => format!("f.{}", self.state_name(name)),
        }
    }

    fn expr(&self, expr: &Expr, view: View) -> Result<String, Refusal> {
        expr.to_sql(&|name| self.column(name, view), &|n| {
            self.parameter(n, view)
        })
        .map_err(|_| Refusal::Expression)
    }

    /// Columns are renamed so that they cannot have the same name as one of the fold's own.
    fn state_name(&self, column: &str) -> String {
        let place = self.state.iter().position(|c| c.name == column);
        format!("c{}", place.map_or(0, |p| p + 1))
    }

    /// The RETURNING columns: value after the update, and type.
    fn answers(
        &self,
        returning: &[TypeName],
        view: View,
    ) -> Result<Vec<(String, String)>, Refusal> {
        let mut values = Vec::new();
        for item in &self.update.returning {
            match item {
                Returning::Expr { expr, .. } => values.push(self.expr(expr, view)?),
                Returning::All => {
                    let columns = self.table.columns.iter();
                    values.extend(columns.map(|c| self.column(&c.name, view)));
                }
            }
        }
        if values.len() != returning.len() {
            return Err(Refusal::Expression);
        }
        let names = returning.iter().map(|t| t.sql.clone());
        Ok(values.into_iter().zip(names).collect())
    }

    fn key_columns(&self) -> Vec<&'a Column> {
        self.key.iter().map(|(column, _)| *column).collect()
    }

    /// The conditions of WHERE other than the equalities of the key.
    fn guard(&self, view: View) -> Result<Option<String>, Refusal> {
        let mut parts = Vec::new();
        for (column, value) in &self.other_equalities {
            let value = match value {
                KeyValue::Parameter(n) => self.parameter(*n, view),
                KeyValue::Constant { kind, text } if *kind == LiteralKind::Unknown => {
                    quote_literal(text)
                }
                KeyValue::Constant { text, .. } => text.clone(),
            };
            parts.push(format!("{} = {value}", self.column(&column.name, view)));
        }
        for guard in &self.update.guards {
            parts.push(self.expr(guard, view)?);
        }
        Ok((!parts.is_empty()).then(|| parts.join(" AND ")))
    }
}
