//! DO UPDATE as an UPDATE, in which the row that a member proposes replaces EXCLUDED. Parameters above [`PROPOSED`]
//! represent its values.

use super::key::Key;
use crate::distribution::{DistributionRefusal, check_columns};
use crate::expr::{Expr, PROPOSED, Terms};
use crate::facts::{Collation, Column, TableFacts};
use crate::fold::{self, Proposed};
use crate::merge::insert::{Change, Insert};
use crate::operator::{GE, LE};
use crate::parser::NotParsed;
use crate::quote::quote_ident;
use crate::type_name::TypeName;
use crate::update::{KeyEquality, Update};
use std::collections::BTreeSet;

/// DO UPDATE as an UPDATE, and the conditions for each member's own values: PostgreSQL checks the proposed row before
/// it looks for a conflict.
#[derive(Debug, Clone, PartialEq)]
pub struct OnConflict {
    /// The UPDATE of the existing row.
    pub update: Update,
    /// Conditions on the proposed row. None may be false.
    pub proposed: Vec<Expr>,
    /// The values of the proposed row that `update` and `proposed` read.
    pub values: Vec<Proposed>,
    /// Expressions that PostgreSQL may compute for a member, whether there is a conflict or not.
    pub computed: Vec<Expr>,
}

/// The DO UPDATE clause of `insert`; `None` for DO NOTHING.
///
/// # Errors
/// [`DistributionRefusal`]: why the clause cannot be rewritten.
pub fn on_conflict(
    insert: &Insert,
    table: &TableFacts,
    parameters: &[TypeName],
) -> Result<Option<OnConflict>, DistributionRefusal> {
    let conflict = insert.conflict.as_ref();
    let Some(change) = conflict.and_then(|conflict| conflict.change.as_ref()) else {
        return Ok(None);
    };
    let proposal = Proposal {
        valued: insert.valued(table)?,
        table,
        parameters,
    };
    let resolved = |expr: &Expr| proposal.resolved(expr, change);
    let assignments = change.assignments.iter();
    let assignments = assignments.map(|(name, expr)| Ok((name.clone(), resolved(expr)?)));
    let key = Key::of(insert, table)?.0.into_iter();
    let update = Update {
        relation: insert.relation.clone(),
        alias: None,
        equalities: key
            .map(|(column, value)| KeyEquality {
                column: column.name.clone(),
                value,
            })
            .collect(),
        guards: change
            .guard
            .iter()
            .map(resolved)
            .collect::<Result<_, _>>()?,
        assignments: assignments.collect::<Result<_, DistributionRefusal>>()?,
        returning: insert.returning.clone(),
        parameters: parameters.len(),
    };
    let changed: Vec<&Expr> = update.assignments.iter().map(|(_, expr)| expr).collect();
    check_columns(table, changed.into_iter().chain(&update.guards))?;
    let mut computed = proposal.computed(change)?;
    let mut proposed = proposal.checks()?;
    let unfitting = proposal.unfitting(change)?;
    proposed.extend(unfitting.short);
    computed.extend(unfitting.converted);
    if !computed.is_empty() {
        proposed.push(all_computed(&computed)?);
    }
    computed.extend(unfitting.truncating);
    Ok(Some(OnConflict {
        values: proposal.read_by(&update, &proposed),
        update,
        proposed,
        computed,
    }))
}

/// A condition that is always true and computes all these expressions.
fn all_computed(exprs: &[Expr]) -> Result<Expr, DistributionRefusal> {
    let parts = exprs.iter().map(plain_sql).collect::<Result<Vec<_>, _>>();
    let parts = parts?.join(", ");
    parsed(&format!("pg_catalog.num_nulls({parts}) {GE} 0"))
}

/// SQL for an expression without columns; parameters keep their numbers.
fn plain_sql(expr: &Expr) -> Result<String, NotParsed> {
    expr.to_sql(&|_| String::new(), &|n| format!("${n}"))
}

/// The number of the parameter that represents the proposed value in this place.
fn numbered(place: usize) -> Option<u32> {
    Some(PROPOSED + u32::try_from(place).ok()?)
}

fn parsed(sql: &str) -> Result<Expr, DistributionRefusal> {
    Ok(Expr::parse(sql)?)
}

/// Checks of values that may not fit their columns.
#[derive(Default)]
struct Unfitting {
    /// Conversions that raise an error.
    converted: Vec<Expr>,
    /// Conditions that replace conversions with an error for too many characters. In a fold, only the member that
    /// violates the condition is executed alone.
    short: Vec<Expr>,
    /// The conversions that `short` replaces.
    truncating: Vec<Expr>,
}

/// The row that a member proposes.
struct Proposal<'a> {
    /// The columns with values, and their values.
    valued: Vec<(String, &'a Expr)>,
    table: &'a TableFacts,
    parameters: &'a [TypeName],
}

impl Proposal<'_> {
    fn column(&self, name: &str) -> Result<&Column, DistributionRefusal> {
        let column = self.table.column(name);
        column.ok_or_else(|| DistributionRefusal::Column(name.to_owned()))
    }

    /// The parameter that represents the value of a column, as SQL.
    fn value(&self, name: &str) -> Result<String, DistributionRefusal> {
        let column = self.column(name)?;
        let place = self.valued.iter().position(|(valued, _)| valued == name);
        let number = place.and_then(numbered);
        let number = number.ok_or_else(|| DistributionRefusal::Column(name.to_owned()))?;
        if fold::column::is_cut(column) || !column.builtin {
            return Err(fold::FoldRefusal::Type(name.to_owned()).into());
        }
        Ok(format!("${number}"))
    }

    /// The same in an expression that may compare the value under the column's collation.
    fn compared(&self, name: &str) -> Result<String, DistributionRefusal> {
        match self.column(name)?.collation {
            Collation::UserDefined => Err(fold::FoldRefusal::Collation(name.to_owned()).into()),
            _ => self.value(name),
        }
    }

    /// The values that these expressions read.
    fn read_by(&self, update: &Update, conditions: &[Expr]) -> Vec<Proposed> {
        let assigned = update.assignments.iter().map(|(_, expr)| expr);
        let exprs = assigned.chain(&update.guards).chain(conditions);
        let read: BTreeSet<u32> = exprs.flat_map(Expr::parameters).collect();
        let values = self.valued.iter().enumerate();
        let proposed = values.filter_map(|(place, (column, value))| {
            let parameter = numbered(place).filter(|number| read.contains(number))?;
            Some(Proposed {
                parameter,
                column: column.clone(),
                value: (*value).clone(),
            })
        });
        proposed.collect()
    }

    /// An expression of DO UPDATE in which the numbers of the proposed values replace those of `change`.
    fn resolved(&self, expr: &Expr, change: &Change) -> Result<Expr, DistributionRefusal> {
        let is_value = expr.as_value().is_some();
        let value = |number: u32| match number.checked_sub(PROPOSED) {
            Some(place) => {
                let name = change.proposed.get(place as usize);
                let name = name.ok_or(DistributionRefusal::Expression)?;
                match is_value {
                    true => self.value(name),
                    false => self.compared(name),
                }
            }
            None => Ok(format!("${number}")),
        };
        let numbers = expr.parameters().into_iter();
        let values = numbers.map(|number| Ok((number, value(number)?)));
        let values = values.collect::<Result<Vec<_>, DistributionRefusal>>()?;
        let parameter = |number: u32| {
            let found = values.iter().find(|(known, _)| *known == number);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        parsed(&expr.to_sql(&|name| quote_ident(name), &parameter)?)
    }

    /// Expressions of DO UPDATE that PostgreSQL may compute before it looks for a conflict, and the arrays, whose
    /// text format may be invalid.
    fn computed(&self, change: &Change) -> Result<Vec<Expr>, DistributionRefusal> {
        let exprs = change.assignments.iter().map(|(_, expr)| expr);
        let exprs: Vec<&Expr> = exprs.chain(&change.guard).collect();
        let parts = exprs.iter();
        let terms = Terms {
            parameters: self.parameters,
            is_column: &|n| n >= PROPOSED,
            floats: self.table.has_floats(),
        };
        let parts = parts.flat_map(|expr| expr.parts_without_columns(terms));
        let mut computed: Vec<Expr> = parts.collect();
        for number in exprs.iter().flat_map(|expr| expr.parameters()) {
            let name = TypeName::of(self.parameters, number);
            if name.is_some_and(|name| name.array) {
                computed.push(parsed(&format!("${number}"))?);
            }
        }
        Ok(computed)
    }

    /// The values of DO UPDATE that depend on no row and may not fit their columns.
    fn unfitting(&self, change: &Change) -> Result<Unfitting, DistributionRefusal> {
        let mut unfitting = Unfitting::default();
        for (name, expr) in &change.assignments {
            let column = self.column(name)?;
            let depends =
                !expr.columns().is_empty() || expr.parameters().iter().any(|n| *n >= PROPOSED);
            if depends || fold::column::fits(expr, column, self.parameters) {
                continue;
            }
            let sql = plain_sql(expr)?;
            let converted = parsed(&fold::column::converted(&sql, column))?;
            match fold::column::is_short(&sql, column) {
                Some(short) => {
                    unfitting.short.push(parsed(&short)?);
                    unfitting.truncating.push(converted);
                }
                None => unfitting.converted.push(converted),
            }
        }
        Ok(unfitting)
    }

    /// The conditions that PostgreSQL checks before it looks for a conflict.
    fn checks(&self) -> Result<Vec<Expr>, DistributionRefusal> {
        let (mut checks, mut values) = (Vec::new(), Vec::new());
        for (name, expr) in &self.valued {
            let column = self.column(name)?;
            let value = self.value(name)?;
            if column.not_null {
                checks.push(format!("{value} IS NOT NULL"));
            }
            if let Some(chars) = fold::column::char_limit(column) {
                checks.push(format!("pg_catalog.char_length({value}) {LE} {chars}"));
            }
            // A value without parameters is the same in the INSERT.
            if !expr.parameters().is_empty() {
                values.push(value);
            }
        }
        if !values.is_empty() {
            // Reading, computing and converting a value may fail even if the value is not used.
            let values = values.join(", ");
            checks.push(format!("pg_catalog.num_nulls({values}) {GE} 0"));
        }
        for text in &self.table.checks {
            checks.extend(self.check(text)?);
        }
        checks.iter().map(|text| parsed(text)).collect()
    }

    /// A CHECK constraint for the proposed row; `None` if it reads only columns with defaults, as in the INSERT.
    fn check(&self, text: &str) -> Result<Option<String>, DistributionRefusal> {
        let check = Expr::parse(text)?;
        let columns = check.columns();
        let valued = |name: &String| self.valued.iter().any(|(valued, _)| valued == name);
        if !columns.iter().any(valued) {
            return Ok(None);
        }
        if !columns.iter().all(valued) {
            return Err(DistributionRefusal::Check);
        }
        let values = columns.iter().map(|name| Ok((name, self.compared(name)?)));
        let values = values.collect::<Result<Vec<_>, DistributionRefusal>>()?;
        let value = |name: &str| {
            let found = values.iter().find(|(known, _)| *known == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        Ok(Some(check.to_sql(&value, &|n| format!("${n}"))?))
    }
}
