//! The parts of an UPDATE that a fold supports: one table, a key by equality, and other expressions over the same
//! row.

#[cfg(test)]
mod tests;

use pg_query::protobuf::{AExprKind, BoolExprType, ResTarget, ReturningClause, UpdateStmt};
use pg_query::{Node, NodeEnum};

use crate::expr::Expr;
use crate::name::Name;
use crate::parser::is_equality;
use crate::tree::Record;
use crate::value::{KeyValue, key_value};
use serde::Serialize;

/// The parts of one UPDATE.
#[derive(Clone, PartialEq, Debug)]
pub struct Update {
    /// The table.
    pub relation: Name,
    /// The alias of the table; if there is one, the table's name does not qualify columns.
    pub alias: Option<String>,
    /// `column = value` among the conjuncts of WHERE, where the value is a parameter or constant. At least one. A
    /// second equality on the same column is among the guards.
    pub equalities: Vec<KeyEquality>,
    /// The other conjuncts of WHERE.
    pub guards: Vec<Expr>,
    /// `SET column = expression`, in order; `(a, b) = (x, y)` becomes two assignments. Columns are distinct.
    pub assignments: Vec<(String, Expr)>,
    /// The items of RETURNING, in order.
    pub returning: Vec<Returning>,
    /// The highest parameter number in the text.
    pub parameters: usize,
}

/// `column = value`, in either order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyEquality {
    /// The column.
    pub column: String,
    /// The value of the column.
    pub value: KeyValue,
}

/// One item of RETURNING.
#[derive(Clone, PartialEq, Debug)]
pub enum Returning {
    /// `*` or `t.*`
    All,
    /// An expression over the new row.
    Expr {
        /// The expression.
        expr: Expr,
        /// The name after AS; without one, PostgreSQL names the column.
        name: Option<String>,
    },
}

/// The parts, if the statements are one UPDATE that a fold supports.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Option<Update> {
    match statements {
        [NodeEnum::UpdateStmt(update)] => parts_of(update),
        _ => None,
    }
}

fn parts_of(update: &UpdateStmt) -> Option<Update> {
    let target = update.relation.as_ref()?;
    let is_simple = update.from_clause.is_empty()
        && update.with_clause.is_none()
        && target.inh
        && target.catalogname.is_empty();
    if !is_simple {
        return None;
    }
    let alias = match &target.alias {
        Some(alias) if alias.colnames.is_empty() => Some(alias.aliasname.clone()),
        Some(_) => return None,
        None => None,
    };
    let qualifier = alias.as_deref().unwrap_or(&target.relname);
    // In RETURNING, these names refer to versions of the row.
    if matches!(qualifier, "old" | "new") {
        return None;
    }
    let (equalities, guards) = read_where(update.where_clause.as_deref()?, qualifier)?;
    Some(Update {
        relation: Name::of_relation(target),
        equalities,
        guards,
        assignments: read_assignments(&update.target_list, qualifier)?,
        returning: read_returning(update.returning_clause.as_ref(), qualifier)?,
        parameters: highest_parameter(update)?,
        alias,
    })
}

/// The highest parameter number in a statement; `None` if PostgreSQL would reject a number.
pub(crate) fn highest_parameter(statement: &impl Serialize) -> Option<usize> {
    let mut highest = Some(0);
    Record::of(statement).walk(&mut |node| {
        if node.kind == "ParamRef" {
            let number = usize::try_from(node.number("number")).ok();
            let number = number.filter(|number| *number > 0);
            highest = highest.zip(number).map(|(one, other)| one.max(other));
        }
    });
    highest
}

/// The conjuncts of a WHERE clause: equalities on distinct columns, and the others. `None` without an equality.
/// `qualifier` is the name by which expressions refer to the table.
pub(crate) fn read_where(
    condition: &Node,
    qualifier: &str,
) -> Option<(Vec<KeyEquality>, Vec<Expr>)> {
    let mut conjuncts = Vec::new();
    flatten(condition, &mut conjuncts)?;
    let mut equalities: Vec<KeyEquality> = Vec::new();
    let mut guards = Vec::new();
    for conjunct in conjuncts {
        let is_new =
            |found: &KeyEquality| equalities.iter().all(|known| known.column != found.column);
        match equality(conjunct, qualifier).filter(is_new) {
            Some(equality) => equalities.push(equality),
            None => guards.push(Expr::new(conjunct.clone(), Some(qualifier)).ok()?),
        }
    }
    (!equalities.is_empty()).then_some((equalities, guards))
}

/// The conjuncts of an AND, including those of nested ANDs.
pub(crate) fn flatten<'a>(condition: &'a Node, conjuncts: &mut Vec<&'a NodeEnum>) -> Option<()> {
    match condition.node.as_ref()? {
        NodeEnum::BoolExpr(and) if and.boolop() == BoolExprType::AndExpr => and
            .args
            .iter()
            .try_for_each(|part| flatten(part, conjuncts)),
        other => {
            conjuncts.push(other);
            Some(())
        }
    }
}

/// `column = value`, if the conjunct has this form.
pub(crate) fn equality(conjunct: &NodeEnum, qualifier: &str) -> Option<KeyEquality> {
    let NodeEnum::AExpr(comparison) = conjunct else {
        return None;
    };
    if comparison.kind() != AExprKind::AexprOp || !is_equality(&comparison.name) {
        return None;
    }
    let left = comparison.lexpr.as_ref()?.node.as_ref()?;
    let right = comparison.rexpr.as_ref()?.node.as_ref()?;
    let (column, value) = match (key_value(left), key_value(right)) {
        (None, Some(value)) => (left, value),
        (Some(value), None) => (right, value),
        _ => return None,
    };
    let column = Expr::new(column.clone(), Some(qualifier)).ok()?;
    let column = column.as_column()?.to_owned();
    Some(KeyEquality { column, value })
}

pub(crate) fn read_assignments(targets: &[Node], qualifier: &str) -> Option<Vec<(String, Expr)>> {
    read_assignments_by(targets, &mut |value| {
        Expr::new(value.clone(), Some(qualifier)).ok()
    })
}

/// The same; `read` converts the values.
pub(crate) fn read_assignments_by(
    targets: &[Node],
    read: &mut dyn FnMut(&NodeEnum) -> Option<Expr>,
) -> Option<Vec<(String, Expr)>> {
    let mut assignments: Vec<(String, Expr)> = Vec::new();
    for target in targets {
        let target = as_target(target)?;
        if !target.indirection.is_empty()
            || assignments.iter().any(|(column, _)| *column == target.name)
        {
            return None;
        }
        let value = assigned_value(target.val.as_ref()?)?;
        assignments.push((target.name.clone(), read(value)?));
    }
    Some(assignments)
}

/// The value that is assigned: the expression itself, or its item in the row of a multiple assignment.
fn assigned_value(value: &Node) -> Option<&NodeEnum> {
    let NodeEnum::MultiAssignRef(part) = value.node.as_ref()? else {
        return value.node.as_ref();
    };
    let NodeEnum::RowExpr(row) = part.source.as_ref()?.node.as_ref()? else {
        return None;
    };
    if usize::try_from(part.ncolumns).ok()? != row.args.len() {
        return None;
    }
    let place = usize::try_from(part.colno.checked_sub(1)?).ok()?;
    row.args.get(place)?.node.as_ref()
}

pub(crate) fn as_target(node: &Node) -> Option<&ResTarget> {
    match node.node.as_ref()? {
        NodeEnum::ResTarget(target) => Some(target),
        _ => None,
    }
}

pub(crate) fn read_returning(
    clause: Option<&ReturningClause>,
    qualifier: &str,
) -> Option<Vec<Returning>> {
    let Some(clause) = clause else {
        return Some(Vec::new());
    };
    if !clause.options.is_empty() {
        return None;
    }
    let items = clause.exprs.iter();
    let read = |item| returning_item(as_target(item)?, qualifier);
    items.map(read).collect()
}

pub(crate) fn returning_item(target: &ResTarget, qualifier: &str) -> Option<Returning> {
    let value = target.val.as_ref()?.node.as_ref()?;
    if is_all(value, qualifier) {
        return target.name.is_empty().then_some(Returning::All);
    }
    let name = Some(target.name.clone()).filter(|name| !name.is_empty());
    Some(Returning::Expr {
        expr: Expr::new(value.clone(), Some(qualifier)).ok()?,
        name,
    })
}

/// The expressions among the items of RETURNING.
pub(crate) fn returned_exprs(items: &[Returning]) -> impl Iterator<Item = &Expr> {
    items.iter().filter_map(|item| match item {
        Returning::Expr { expr, .. } => Some(expr),
        Returning::All => None,
    })
}

/// SQL for the values of RETURNING: `all` returns that of all columns, `sql` that of an expression.
pub(crate) fn returned_values<E>(
    items: &[Returning],
    all: impl Fn() -> Vec<String>,
    sql: impl Fn(&Expr) -> Result<String, E>,
) -> Result<Vec<String>, E> {
    let mut values = Vec::new();
    for item in items {
        match item {
            Returning::All => values.extend(all()),
            Returning::Expr { expr, .. } => values.push(sql(expr)?),
        }
    }
    Ok(values)
}

/// `*` or `qualifier.*`
fn is_all(value: &NodeEnum, qualifier: &str) -> bool {
    let NodeEnum::ColumnRef(reference) = value else {
        return false;
    };
    let fields = reference.fields.iter().map(|field| field.node.as_ref());
    match Vec::from_iter(fields.flatten()).as_slice() {
        [NodeEnum::AStar(_)] => true,
        [NodeEnum::String(table), NodeEnum::AStar(_)] => table.sval == qualifier,
        _ => false,
    }
}
