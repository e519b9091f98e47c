//! The parts of an UPDATE that is being rewritten, and SQL for its parameters, columns and expressions.

use super::column;
use super::refusal::FoldRefusal;
use crate::expr::{Expr, PROPOSED};
use crate::facts::{Collation, Column, TableFacts};
use crate::literals::LiteralKind;
use crate::operator::ADD;
use crate::quote::{quote_ident, quote_literal};
use crate::type_name::TypeName;
use crate::update::{Returning, Update, returned_exprs, returned_values};
use crate::value::KeyValue;
use std::collections::BTreeSet;

/// A parameter of the template with one value for each member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Number in the template, from 1.
    pub parameter: u32,
    /// Whether the parameter is an array, whose values are sent in text format in a `text[]`.
    pub as_text: bool,
}

/// Conditions that an upsert requires of each member, whatever row exists.
#[derive(Clone, Copy)]
pub(crate) struct Proposal<'a> {
    /// Conditions on the proposed row.
    pub(crate) checks: &'a [Expr],
    /// The values of the proposed row that `checks` and the expressions of the UPDATE read.
    pub(crate) values: &'a [Proposed],
    /// The columns in which the INSERT may store the time.
    pub(crate) times: &'a [&'a str],
    /// Conditions on the client's privileges, as ` AND …`. If one is false, the fold changes nothing.
    pub(crate) rights: &'a str,
}

/// A value of the row that a member proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposed {
    /// The number of the parameter that represents the value in expressions, above [`PROPOSED`].
    pub parameter: u32,
    /// The column.
    pub column: String,
    /// The value.
    pub value: Expr,
}

/// `box` is the only type whose arrays are not delimited by commas.
const BOX: &str = "box";

/// The version of the row that an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The state before the member's step.
    Before,
    /// The state after the member's step.
    After,
    /// The row of the table.
    InPlace,
}

pub(super) struct Rewriter<'a> {
    pub(super) update: &'a Update,
    pub(super) table: &'a TableFacts,
    pub(super) parameters: &'a [TypeName],
    /// Equalities on the key columns, in key order.
    pub(super) key: Vec<(&'a Column, &'a KeyValue)>,
    /// Equalities on other columns. They are guards.
    pub(super) other_equalities: Vec<(&'a Column, &'a KeyValue)>,
    pub(super) assigned: Vec<(&'a Column, &'a Expr)>,
    pub(super) checks: Vec<Expr>,
    /// Columns whose values the recursion passes from step to step.
    pub(super) state: Vec<&'a Column>,
    pub(super) carried: Vec<Carried>,
    /// The conditions of an upsert.
    pub(super) proposal: Option<Proposal<'a>>,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        update: &'a Update,
        table: &'a TableFacts,
        parameters: &'a [TypeName],
        proposal: Option<Proposal<'a>>,
    ) -> Result<Self, FoldRefusal> {
        let (key, other_equalities) = column::split_equalities(&update.equalities, table)?;
        let assigned = update.assignments.iter();
        let assigned = assigned.map(|(name, expr)| Ok((column::assignable(table, name)?, expr)));
        let assigned = assigned.collect::<Result<Vec<_>, FoldRefusal>>()?;
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
        let casts = |expr: &Expr| expr.casts_to().iter().any(|name| name.name == "interval");
        if this.member_exprs().any(casts) {
            return Err(FoldRefusal::Type("a cast to interval".to_owned()));
        }
        this.checks = this.relevant_checks()?;
        this.refuse_unnamed_collations()?;
        this.refuse_shared_time()?;
        this.state = this.state_columns()?;
        this.carried = this.carried_parameters()?;
        Ok(this)
    }

    /// The constraints that read an assigned column. Others cannot be violated.
    fn relevant_checks(&self) -> Result<Vec<Expr>, FoldRefusal> {
        let mut relevant = Vec::new();
        for text in &self.table.checks {
            let check = Expr::parse(text)?;
            let reads = check.columns();
            if self.assigned.iter().any(|(c, _)| reads.contains(&c.name)) {
                relevant.push(check);
            }
        }
        Ok(relevant)
    }

    /// The new value of a column whose collation cannot be named may be returned, but not compared.
    fn refuse_unnamed_collations(&self) -> Result<(), FoldRefusal> {
        let after = returned_exprs(&self.update.returning).chain(&self.checks);
        let computed = after.filter(|expr| expr.as_column().is_none());
        let mut columns = computed.flat_map(Expr::columns);
        let is_unnamed = |name: &String| {
            let mut assigned = self.assigned.iter().map(|(column, _)| column);
            assigned.any(|c| c.name == *name && c.collation == Collation::UserDefined)
        };
        match columns.find(is_unnamed) {
            Some(column) => Err(FoldRefusal::Collation(column)),
            None => Ok(()),
        }
    }

    /// Alone, each member has a later time than the one before it: `at < now()` holds for it though the one before it has set `at` to
    /// `now()`, or inserted a row with it. In a group, both times are equal.
    fn refuse_shared_time(&self) -> Result<(), FoldRefusal> {
        let uses_time = self.deciding_exprs().any(|expr| self.uses_time(expr));
        let may_be_inserted = |name: &String| {
            let times = self.proposal.map_or(&[][..], |proposal| proposal.times);
            uses_time && times.contains(&name.as_str())
        };
        let is_set = |name: &String| {
            let mut assigned = self.assigned.iter();
            assigned.any(|(column, expr)| column.name == *name && self.uses_time(expr))
        };
        let mut read = self.deciding_exprs().flat_map(Expr::columns);
        let found = read
            .find(|name| is_set(name) || may_be_inserted(name))
            .or_else(|| self.returned_comparison(&is_set));
        match found {
            Some(column) => Err(FoldRefusal::Time(column)),
            None => Ok(()),
        }
    }

    /// A column of an upsert's INSERT that stores the time, and that RETURNING computes with together with a later one:
    /// `RETURNING created = updated` shows which member has inserted the row.
    fn returned_comparison(&self, is_set: &dyn Fn(&String) -> bool) -> Option<String> {
        let times = self.proposal?.times;
        let mut computed =
            returned_exprs(&self.update.returning).filter(|expr| expr.as_column().is_none());
        computed.find_map(|expr| {
            let columns = expr.columns();
            let is_inserted = |name: &&String| times.contains(&name.as_str()) && !is_set(name);
            let inserted = columns.iter().find(is_inserted)?;
            let compares = self.uses_time(expr) || columns.iter().any(is_set);
            compares.then(|| inserted.clone())
        })
    }

    /// Whether an expression reads the time, also as a value of the row that a member proposes.
    fn uses_time(&self, expr: &Expr) -> bool {
        let proposed = self.proposed().iter();
        let read = proposed.filter(|proposed| expr.parameters().contains(&proposed.parameter));
        let mut values = read.map(|proposed| &proposed.value).chain([expr]);
        values.any(Expr::reads_moment)
    }

    /// Whether a member reads the time.
    pub(super) fn reads_time(&self) -> bool {
        self.member_exprs()
            .chain(&self.checks)
            .any(Expr::reads_time)
    }

    fn member_exprs(&self) -> impl Iterator<Item = &'a Expr> {
        let checks = self.proposal.map_or(&[][..], |proposal| proposal.checks);
        let values = self.proposed().iter().map(|proposed| &proposed.value);
        self.changing_exprs().chain(checks).chain(values)
    }

    /// The values of the row that a member of an upsert proposes.
    pub(super) fn proposed(&self) -> &'a [Proposed] {
        self.proposal.map_or(&[][..], |proposal| proposal.values)
    }

    pub(super) fn changing_exprs(&self) -> impl Iterator<Item = &'a Expr> {
        let returned = returned_exprs(&self.update.returning);
        self.deciding_exprs().chain(returned)
    }

    /// The expressions that decide what the row becomes.
    fn deciding_exprs(&self) -> impl Iterator<Item = &'a Expr> + use<'a> {
        let assigned: Vec<&'a Expr> = self.assigned.iter().map(|(_, e)| *e).collect();
        assigned.into_iter().chain(self.update.guards.iter())
    }

    fn state_columns(&self) -> Result<Vec<&'a Column>, FoldRefusal> {
        let equal = self.key.iter().chain(&self.other_equalities);
        let used = self
            .assigned
            .iter()
            .map(|(c, _)| c)
            .chain(equal.map(|(c, _)| c));
        let mut names: BTreeSet<String> = used.map(|c| c.name.clone()).collect();
        names.extend(
            self.member_exprs()
                .chain(&self.checks)
                .flat_map(Expr::columns),
        );
        if self.update.returning.contains(&Returning::All) {
            names.extend(self.table.columns.iter().map(|c| c.name.clone()));
        }
        if let Some(unknown) = names.iter().find(|n| self.table.column(n).is_none()) {
            return Err(FoldRefusal::Column(unknown.clone()));
        }
        let columns = self.table.columns.iter();
        let state: Vec<_> = columns.filter(|c| names.contains(&c.name)).collect();
        match state.iter().find(|c| !c.builtin) {
            Some(column) => Err(FoldRefusal::Type(column.name.clone())),
            None => Ok(state),
        }
    }

    fn carried_parameters(&self) -> Result<Vec<Carried>, FoldRefusal> {
        let mut numbers: BTreeSet<u32> = self.member_exprs().flat_map(Expr::parameters).collect();
        let equal = self.other_equalities.iter();
        numbers.extend(equal.filter_map(|(_, value)| match value {
            KeyValue::Parameter(n) => Some(*n),
            KeyValue::Constant { .. } => None,
        }));
        numbers.retain(|number| *number < PROPOSED);
        let carried = |parameter| {
            let name = column::parameter_type(self.parameters, parameter)?;
            if !name.builtin || name.sql == BOX {
                return Err(FoldRefusal::Type(format!("parameter ${parameter}")));
            }
            let as_text = name.array;
            Ok(Carried { parameter, as_text })
        };
        numbers.into_iter().map(carried).collect()
    }

    /// SQL for the value of a member's parameter.
    pub(super) fn parameter(&self, number: u32, view: View) -> String {
        let mut proposed = (1..).zip(self.proposed());
        if let Some((place, _)) = proposed.find(|(_, proposed)| proposed.parameter == number) {
            return format!("e.e{place}");
        }
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
            // The keys, first and last members, and the catalog version precede.
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
    pub(super) fn column(&self, name: &str, view: View) -> String {
        let assigned = || self.assigned.iter().any(|(c, _)| c.name == name);
        match view {
            View::InPlace => format!("t.{}", quote_ident(name)),
            View::After if assigned() => format!("n.{}", self.state_name(name)),
            View::Before | View::After => format!("f.{}", self.state_name(name)),
        }
    }

    pub(super) fn expr(&self, expr: &Expr, view: View) -> Result<String, FoldRefusal> {
        let (column, parameter) = (
            |name: &str| self.column(name, view),
            |n| self.parameter(n, view),
        );
        Ok(expr.to_sql(&column, &parameter)?)
    }

    /// Columns are renamed so that they cannot have the same name as one of the fold's own.
    pub(super) fn state_name(&self, column: &str) -> String {
        let place = self.state.iter().position(|c| c.name == column);
        format!("c{}", place.map_or(0, |p| p + 1))
    }

    /// The RETURNING columns: value after the update, and type with collation.
    pub(super) fn answers(
        &self,
        returning: &[TypeName],
        view: View,
    ) -> Result<Vec<(String, String)>, FoldRefusal> {
        let columns = self.table.columns.iter();
        let all = || {
            columns
                .clone()
                .map(|c| self.column(&c.name, view))
                .collect()
        };
        let values = returned_values(&self.update.returning, all, |expr| self.expr(expr, view))?;
        if values.len() != returning.len() {
            return Err(FoldRefusal::Expression);
        }
        // PostgreSQL requires that both parts of the recursion return the same collations.
        let name = |name: &TypeName| match name.collatable {
            true => format!("{} COLLATE pg_catalog.\"default\"", name.sql),
            false => name.sql.clone(),
        };
        Ok(values.into_iter().zip(returning.iter().map(name)).collect())
    }

    pub(super) fn key_columns(&self) -> Vec<&'a Column> {
        self.key.iter().map(|(column, _)| *column).collect()
    }

    /// The conditions of WHERE other than the equalities of the key.
    pub(super) fn guard(&self, view: View) -> Result<Option<String>, FoldRefusal> {
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
