//! The parts of an INSERT of VALUES that merge supports.

use pg_query::protobuf::{
    InferClause, InsertStmt, OnConflictAction, OnConflictClause, OverridingKind, RangeVar,
};
use pg_query::{Node, NodeEnum};

use crate::distribution::DistributionRefusal;
use crate::expr::{Expr, PROPOSED};
use crate::facts::{TableFacts, regclass_literal};
use crate::name::{Name, push_distinct};
use crate::quote::quote_literal;
use crate::update::{Returning, as_target, read_assignments_by, read_returning, returned_exprs};
use std::collections::BTreeSet;

/// The parts of `INSERT INTO relation (columns) VALUES (…), (…) ON CONFLICT … RETURNING …`.
#[derive(Clone, PartialEq, Debug)]
pub struct Insert {
    /// The table.
    pub relation: Name,
    /// The column list, empty if there is none.
    pub columns: Vec<String>,
    /// For each row, the value of each column; `None` for DEFAULT. The expressions read no columns. There is at least
    /// one row.
    pub rows: Vec<Vec<Option<Expr>>>,
    /// The ON CONFLICT clause.
    pub conflict: Option<Conflict>,
    /// The items of RETURNING.
    pub returning: Vec<Returning>,
}

/// `ON CONFLICT (target) DO NOTHING` or `DO UPDATE SET …`.
#[derive(Clone, PartialEq, Debug)]
pub struct Conflict {
    /// The columns of the unique index; `None` for any index.
    pub target: Option<Vec<String>>,
    /// The update of the existing row; `None` for DO NOTHING.
    pub change: Option<Change>,
}

/// The DO UPDATE clause.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// `SET column = expression`. In these expressions and in `guard`, parameter [`PROPOSED`]` + n` is column n of
    /// `proposed`.
    pub assignments: Vec<(String, Expr)>,
    /// The WHERE condition.
    pub guard: Option<Expr>,
    /// The columns of EXCLUDED that the expressions read.
    pub proposed: Vec<String>,
}

impl Change {
    /// The columns of EXCLUDED that are read, but not assigned.
    fn proposed_only(&self) -> impl Iterator<Item = &String> {
        let is_assigned = |name: &String| self.assignments.iter().any(|(column, _)| column == name);
        self.proposed.iter().filter(move |name| !is_assigned(name))
    }
}

impl Insert {
    /// The parameters of DO UPDATE.
    pub(super) fn change_parameters(&self) -> BTreeSet<u32> {
        let change = self.conflict.as_ref().and_then(|c| c.change.as_ref());
        let assigned = change.iter().flat_map(|c| &c.assignments);
        let guard = change.and_then(|c| c.guard.as_ref());
        let exprs = assigned.map(|(_, expr)| expr).chain(guard);
        let numbers = exprs.flat_map(Expr::parameters);
        numbers.filter(|number| *number < PROPOSED).collect()
    }

    /// All expressions of VALUES and RETURNING.
    pub fn exprs(&self) -> Vec<&Expr> {
        let values = self.rows.iter().flatten().flatten();
        values.chain(self.returned()).collect()
    }

    pub(super) fn returned(&self) -> impl Iterator<Item = &Expr> {
        returned_exprs(&self.returning)
    }

    /// SQL conditions: the client has the privileges that its own statement needs, but not the generated ones: INSERT on
    /// columns with DEFAULT, which they omit, and SELECT on columns of EXCLUDED, whose values they take from the
    /// parameters. The fold of DO UPDATE reads the columns that it assigns.
    pub(super) fn rights(&self, table: &TableFacts) -> String {
        let first = self.rows.first().into_iter().flatten().enumerate();
        let defaults = first.filter(|(_, value)| value.is_none());
        let implied = |place: usize| table.columns.get(place).map(|column| &column.name);
        let defaults =
            defaults.filter_map(|(place, _)| self.columns.get(place).or_else(|| implied(place)));
        let change = self.conflict.as_ref().and_then(|c| c.change.as_ref());
        let proposed = change.into_iter().flat_map(Change::proposed_only);
        let table = regclass_literal(&self.relation);
        let right = |(column, privilege): (&String, &str)| {
            let column = quote_literal(column);
            format!(
                " AND pg_catalog.has_column_privilege(pg_catalog.to_regclass({table}), {column}, '{privilege}')"
            )
        };
        let inserted = defaults.map(|column| (column, "INSERT"));
        let read = proposed.map(|column| (column, "SELECT"));
        inserted.chain(read).map(right).collect()
    }

    /// Name and value of each column in the first row, in order, without columns with DEFAULT.
    pub(super) fn valued(
        &self,
        table: &TableFacts,
    ) -> Result<Vec<(String, &Expr)>, DistributionRefusal> {
        let mut valued = Vec::new();
        for (place, expr) in self.rows.first().into_iter().flatten().enumerate() {
            let implied = || table.columns.get(place).map(|column| column.name.clone());
            let column = self.columns.get(place).cloned().or_else(implied);
            let column = column
                .ok_or_else(|| DistributionRefusal::Column(format!("number {}", place + 1)))?;
            valued.extend(expr.as_ref().map(|expr| (column, expr)));
        }
        match valued.is_empty() {
            true => Err(DistributionRefusal::Column("without a value".to_owned())),
            false => Ok(valued),
        }
    }
}

/// The parts, if the statements are one INSERT of values.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Option<Insert> {
    match statements {
        [NodeEnum::InsertStmt(insert)] => parts_of(insert),
        _ => None,
    }
}

fn parts_of(insert: &InsertStmt) -> Option<Insert> {
    let relation = insert.relation.as_ref()?;
    let plain = insert.with_clause.is_none()
        && insert.r#override() == OverridingKind::OverridingNotSet
        && relation.catalogname.is_empty();
    let qualifier = qualifier(relation);
    if !plain || matches!(qualifier, "old" | "new" | "excluded") {
        return None;
    }
    let column = |target| {
        let target = as_target(target)?;
        target.indirection.is_empty().then(|| target.name.clone())
    };
    let columns: Vec<String> = insert.cols.iter().map(column).collect::<Option<_>>()?;
    let rows = read_values(insert.select_stmt.as_deref()?)?;
    let width = rows.first()?.len();
    let even = rows.iter().all(|row| row.len() == width);
    let named = columns.is_empty() || columns.len() == width;
    (even && named).then_some(Insert {
        relation: Name::of_relation(relation),
        columns,
        rows,
        conflict: match insert.on_conflict_clause.as_deref() {
            Some(clause) => Some(read_conflict(clause, qualifier)?),
            None => None,
        },
        returning: read_returning(insert.returning_clause.as_ref(), qualifier)?,
    })
}

fn qualifier(relation: &RangeVar) -> &str {
    match &relation.alias {
        Some(alias) => &alias.aliasname,
        None => &relation.relname,
    }
}

/// The rows of `VALUES (…), (…)` without other clauses.
fn read_values(source: &Node) -> Option<Vec<Vec<Option<Expr>>>> {
    let NodeEnum::SelectStmt(select) = source.node.as_ref()? else {
        return None;
    };
    let bare = select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none()
        && select.with_clause.is_none()
        && select.locking_clause.is_empty();
    let value = |node: &Node| match node.node.as_ref()? {
        NodeEnum::SetToDefault(_) => Some(None),
        other => {
            let expr = Expr::new(other.clone(), None).ok()?;
            expr.columns().is_empty().then_some(Some(expr))
        }
    };
    let row = |node: &Node| match node.node.as_ref()? {
        NodeEnum::List(row) => row.items.iter().map(value).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    bare.then(|| select.values_lists.iter().map(row).collect())?
}

fn read_conflict(clause: &OnConflictClause, qualifier: &str) -> Option<Conflict> {
    let target = match clause.infer.as_deref() {
        Some(infer) => Some(read_target(infer)?),
        None => None,
    };
    let change = match clause.action() {
        OnConflictAction::OnconflictNothing => None,
        OnConflictAction::OnconflictUpdate => Some(read_change(clause, qualifier)?),
        _ => return None,
    };
    Some(Conflict { target, change })
}

/// The columns of a conflict target that contains only column names.
pub(crate) fn read_target(infer: &InferClause) -> Option<Vec<String>> {
    let column = |node: &Node| match node.node.as_ref()? {
        NodeEnum::IndexElem(element) => {
            let plain = element.expr.is_none()
                && element.collation.is_empty()
                && element.opclass.is_empty();
            (plain && !element.name.is_empty()).then(|| element.name.clone())
        }
        _ => None,
    };
    let plain = infer.where_clause.is_none() && infer.conname.is_empty();
    plain.then(|| infer.index_elems.iter().map(column).collect())?
}

fn read_change(clause: &OnConflictClause, qualifier: &str) -> Option<Change> {
    let mut proposed: Vec<String> = Vec::new();
    let mut expr = |node: &NodeEnum| {
        let mut parameter_of = |name: &str| {
            push_distinct(&mut proposed, name.to_owned());
            let place = proposed.iter().position(|known| known == name)?;
            Some(PROPOSED + u32::try_from(place).ok()?)
        };
        Expr::with_excluded(node.clone(), qualifier, &mut parameter_of).ok()
    };
    let assignments = read_assignments_by(&clause.target_list, &mut expr)?;
    let guard = match clause.where_clause.as_deref() {
        Some(guard) => Some(expr(guard.node.as_ref()?)?),
        None => None,
    };
    Some(Change {
        assignments,
        guard,
        proposed,
    })
}
