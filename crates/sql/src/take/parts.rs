//! The parts of a statement that takes rows from a queue.

use pg_query::protobuf::{
    AExprKind, InsertStmt, LimitOption, LockClauseStrength, LockWaitPolicy, OverridingKind,
    RangeVar, SelectStmt, SetOperation, SortBy, SortByDir, SortByNulls, SubLink, SubLinkType,
    WithClause,
};
use pg_query::{Node, NodeEnum};

use crate::expr::{Expr, referenced};
use crate::name::Name;
use crate::parser::is_equality;
use crate::update::{
    Returning, as_target, flatten, read_assignments, read_returning, returned_exprs,
};
use crate::value::{KeyValue, key_value};

/// The system column with the physical position of a row.
pub const CTID: &str = "ctid";

/// The function with which some consumers test in the sub-select whether a row is free. Its only side effect is the
/// lock, which ends with the transaction.
pub const TRY_LOCK: &str = "pg_try_advisory_xact_lock";

/// The parts of one statement that takes rows from a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Take {
    /// The queue table.
    pub relation: Name,
    /// The column by which rows are picked; may be [`CTID`].
    pub key: String,
    /// Whether the condition is `key = (SELECT …)`, for at most one row.
    pub single: bool,
    /// The sub-select that picks the rows.
    pub pick: Pick,
    /// The assignments of an UPDATE; `None` for DELETE.
    pub assignments: Option<Vec<(String, Expr)>>,
    /// The items of the RETURNING clause of the DELETE or UPDATE.
    pub returning: Vec<Returning>,
    /// The INSERT that moves the rows to another table.
    pub onward: Option<Onward>,
}

/// The sub-select that picks rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Pick {
    /// The conjuncts of WHERE.
    pub conditions: Vec<Expr>,
    /// The ORDER BY items: expression, and direction and position of NULLs.
    pub order: Vec<(Expr, String)>,
    /// The locking clause without OF; empty if there is none.
    pub locking: String,
    /// The LIMIT.
    pub limit: KeyValue,
}

/// `INSERT INTO relation (columns) SELECT values FROM cte RETURNING …`
#[derive(Clone, PartialEq, Debug)]
pub struct Onward {
    /// The target table.
    pub relation: Name,
    /// The column list, empty if there is none.
    pub columns: Vec<String>,
    /// Expressions over the columns of the inner RETURNING clause.
    pub values: Vec<Expr>,
    /// The items of the outer RETURNING clause.
    pub returning: Vec<Returning>,
}

impl Take {
    /// The expressions that determine which rows are picked.
    pub fn picking(&self) -> Vec<&Expr> {
        let order = self.pick.order.iter().map(|(expr, _)| expr);
        self.pick.conditions.iter().chain(order).collect()
    }

    /// The expressions over a taken row of the queue.
    pub fn taking(&self) -> Vec<&Expr> {
        let assigned = self.assignments.iter().flatten().map(|(_, expr)| expr);
        assigned.chain(returned_exprs(&self.returning)).collect()
    }

    /// The expressions over a row that is moved, in the order of evaluation.
    pub fn moving(&self) -> Vec<&Expr> {
        let onward = self.onward.iter();
        onward.flat_map(|onward| &onward.values).collect()
    }

    /// The expressions that PostgreSQL evaluates for a taken row.
    pub fn changing(&self) -> Vec<&Expr> {
        let outer = self.onward.iter();
        let outer = outer.flat_map(|onward| returned_exprs(&onward.returning));
        let inner = self.taking().into_iter().chain(self.moving());
        inner.chain(outer).collect()
    }
}

/// The parts, if the statements are one consumer's statement.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Option<Take> {
    match statements {
        [NodeEnum::InsertStmt(insert)] => moving(insert),
        [single] => taking(single),
        _ => None,
    }
}

fn taking(statement: &NodeEnum) -> Option<Take> {
    let (relation, condition, returning, assignments) = match statement {
        NodeEnum::DeleteStmt(delete)
            if delete.using_clause.is_empty() && delete.with_clause.is_none() =>
        {
            let relation = delete.relation.as_ref()?;
            let condition = delete.where_clause.as_deref()?;
            (relation, condition, delete.returning_clause.as_ref(), None)
        }
        NodeEnum::UpdateStmt(update)
            if update.from_clause.is_empty() && update.with_clause.is_none() =>
        {
            let relation = update.relation.as_ref()?;
            let condition = update.where_clause.as_deref()?;
            let assignments = read_assignments(&update.target_list, qualifier(relation)?)?;
            let returning = update.returning_clause.as_ref();
            (relation, condition, returning, Some(assignments))
        }
        _ => return None,
    };
    let outer = qualifier(relation)?;
    let (key, single, select) = picking(condition.node.as_ref()?, outer)?;
    let from = single_table(select)?;
    if Name::of_relation(from) != Name::of_relation(relation) {
        return None;
    }
    Some(Take {
        relation: Name::of_relation(relation),
        single,
        pick: read_pick(select, qualifier(from)?, &key)?,
        key,
        assignments,
        returning: read_returning(returning, outer)?,
        onward: None,
    })
}

/// The table, if FROM contains one table only.
fn single_table(select: &SelectStmt) -> Option<&RangeVar> {
    match select.from_clause.as_slice() {
        [
            Node {
                node: Some(NodeEnum::RangeVar(table)),
            },
        ] => Some(table),
        _ => None,
    }
}

/// The alias of a plain table, or its name.
fn qualifier(relation: &RangeVar) -> Option<&str> {
    let name = match &relation.alias {
        Some(alias) if alias.colnames.is_empty() => &alias.aliasname,
        Some(_) => return None,
        None => &relation.relname,
    };
    let plain = relation.inh && relation.catalogname.is_empty();
    (plain && !matches!(name.as_str(), "old" | "new")).then_some(name)
}

/// `key = (SELECT …)`, `key IN (SELECT …)`, `key = ANY (SELECT …)`, `key = ANY (ARRAY(SELECT …))`.
fn picking<'a>(condition: &'a NodeEnum, outer: &str) -> Option<(String, bool, &'a SelectStmt)> {
    match condition {
        NodeEnum::AExpr(comparison) if is_equality(&comparison.name) => {
            let key = column(comparison.lexpr.as_deref()?, outer)?;
            let (link, select) = sub_select(comparison.rexpr.as_deref()?)?;
            let single = match (comparison.kind(), link.sub_link_type()) {
                (AExprKind::AexprOp, SubLinkType::ExprSublink) => true,
                (AExprKind::AexprOpAny, SubLinkType::ArraySublink) => false,
                _ => return None,
            };
            Some((key, single, select))
        }
        NodeEnum::SubLink(link) if link.sub_link_type() == SubLinkType::AnySublink => {
            let equal = link.oper_name.is_empty() || is_equality(&link.oper_name);
            let key = column(link.testexpr.as_deref()?, outer)?;
            let select = select_of(link.subselect.as_deref()?)?;
            equal.then_some((key, false, select))
        }
        _ => None,
    }
}

fn sub_select(node: &Node) -> Option<(&SubLink, &SelectStmt)> {
    match node.node.as_ref()? {
        NodeEnum::SubLink(link) => Some((link, select_of(link.subselect.as_deref()?)?)),
        _ => None,
    }
}

fn select_of(node: &Node) -> Option<&SelectStmt> {
    match node.node.as_ref()? {
        NodeEnum::SelectStmt(select) => Some(select),
        _ => None,
    }
}

/// The name of a column reference, including [`CTID`].
fn column(node: &Node, qualifier: &str) -> Option<String> {
    let NodeEnum::ColumnRef(reference) = node.node.as_ref()? else {
        return None;
    };
    referenced(reference, Some(qualifier))
}

fn read_pick(select: &SelectStmt, inner: &str, key: &str) -> Option<Pick> {
    let [target] = select.target_list.as_slice() else {
        return None;
    };
    let target = as_target(target)?;
    let picks_key = column(target.val.as_deref()?, inner)? == key;
    if !picks_key || !is_plain(select) || select.limit_option() != LimitOption::Count {
        return None;
    }
    let mut conjuncts = Vec::new();
    if let Some(condition) = select.where_clause.as_deref() {
        flatten(condition, &mut conjuncts)?;
    }
    let condition = |node: &NodeEnum| Expr::new(node.clone(), Some(inner)).ok();
    let order = |item| read_order(item, inner);
    let order = select.sort_clause.iter().map(order);
    let order = order.collect::<Option<Vec<_>>>()?;
    // A name alone in ORDER BY is that of the target before it is that of a column.
    let is_target = |expr: &Expr| expr.as_column() == Some(target.name.as_str());
    if target.name != key && order.iter().any(|(expr, _)| is_target(expr)) {
        return None;
    }
    Some(Pick {
        conditions: (conjuncts.into_iter().map(condition)).collect::<Option<_>>()?,
        order,
        locking: read_locking(&select.locking_clause, inner)?,
        limit: key_value(select.limit_count.as_deref()?.node.as_ref()?)?,
    })
}

/// Whether the SELECT has no clauses other than targets, FROM, WHERE, ORDER BY, LIMIT and locking.
fn is_plain(select: &SelectStmt) -> bool {
    select.distinct_clause.is_empty()
        && select.into_clause.is_none()
        && select.group_clause.is_empty()
        && select.having_clause.is_none()
        && select.window_clause.is_empty()
        && select.values_lists.is_empty()
        && select.limit_offset.is_none()
        && select.with_clause.is_none()
        && select.op() == SetOperation::SetopNone
}

fn read_order(item: &Node, inner: &str) -> Option<(Expr, String)> {
    let NodeEnum::SortBy(sort) = item.node.as_ref()? else {
        return None;
    };
    let expr = Expr::new(sort.node.as_deref()?.node.clone()?, Some(inner)).ok()?;
    // A number would refer to a target.
    (!expr.columns().is_empty()).then_some((expr, direction(sort)?))
}

fn direction(sort: &SortBy) -> Option<String> {
    let order = match sort.sortby_dir() {
        SortByDir::SortbyDefault | SortByDir::SortbyAsc => "",
        SortByDir::SortbyDesc => " DESC",
        _ => return None,
    };
    let nulls = match sort.sortby_nulls() {
        SortByNulls::SortbyNullsDefault => "",
        SortByNulls::SortbyNullsFirst => " NULLS FIRST",
        SortByNulls::SortbyNullsLast => " NULLS LAST",
        SortByNulls::Undefined => return None,
    };
    Some(format!("{order}{nulls}"))
}

fn read_locking(clauses: &[Node], inner: &str) -> Option<String> {
    let clause = match clauses {
        [] => return Some(String::new()),
        [clause] => clause,
        _ => return None,
    };
    let NodeEnum::LockingClause(clause) = clause.node.as_ref()? else {
        return None;
    };
    let this =
        |node: &Node| matches!(&node.node, Some(NodeEnum::RangeVar(of)) if of.relname == inner);
    if !clause.locked_rels.iter().all(this) {
        return None;
    }
    let strength = match clause.strength() {
        LockClauseStrength::LcsForupdate => "FOR UPDATE",
        LockClauseStrength::LcsFornokeyupdate => "FOR NO KEY UPDATE",
        _ => return None,
    };
    match clause.wait_policy() {
        LockWaitPolicy::LockWaitBlock => Some(strength.to_owned()),
        LockWaitPolicy::LockWaitSkip => Some(format!("{strength} SKIP LOCKED")),
        _ => None,
    }
}

/// `WITH cte AS (DELETE …) INSERT INTO … SELECT … FROM cte`
fn moving(insert: &InsertStmt) -> Option<Take> {
    let relation = insert.relation.as_ref()?;
    let outer = qualifier(relation)?;
    let (name, statement) = single_cte(insert.with_clause.as_ref()?)?;
    let select = select_of(insert.select_stmt.as_deref()?)?;
    let from = single_table(select)?;
    let whole = is_plain(select)
        && select.where_clause.is_none()
        && select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.locking_clause.is_empty();
    let plain = insert.on_conflict_clause.is_none()
        && insert.r#override() == OverridingKind::OverridingNotSet
        && from.schemaname.is_empty()
        && from.relname == name;
    if !whole || !plain {
        return None;
    }
    let mut take = taking(statement)?;
    let inner = qualifier(from)?;
    let value = |target: &Node| {
        let value = as_target(target)?.val.as_ref()?.node.clone()?;
        Expr::new(value, Some(inner)).ok()
    };
    let named = |target: &Node| {
        let target = as_target(target)?;
        target.indirection.is_empty().then(|| target.name.clone())
    };
    take.onward = Some(Onward {
        relation: Name::of_relation(relation),
        columns: insert.cols.iter().map(named).collect::<Option<_>>()?,
        values: (select.target_list.iter().map(value)).collect::<Option<_>>()?,
        returning: read_returning(insert.returning_clause.as_ref(), outer)?,
    });
    Some(take)
}

fn single_cte(with: &WithClause) -> Option<(&str, &NodeEnum)> {
    let [cte] = with.ctes.as_slice() else {
        return None;
    };
    let NodeEnum::CommonTableExpr(cte) = cte.node.as_ref()? else {
        return None;
    };
    let plain = !with.recursive && cte.aliascolnames.is_empty();
    let statement = cte.ctequery.as_deref()?.node.as_ref()?;
    plain.then_some((&cte.ctename, statement))
}
