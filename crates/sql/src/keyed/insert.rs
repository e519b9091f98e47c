//! The values and the ON CONFLICT clause of an INSERT.

use super::key::{KeyValues, source};
use super::refusal::KeyedRefusal;
use crate::merge::read_target;
use crate::update::as_target;
use pg_query::protobuf::{InsertStmt, OnConflictAction, OverridingKind, SetOperation};
use pg_query::{Node, NodeEnum};

/// ON CONFLICT: the action of an INSERT if the row exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedConflict {
    /// The columns of the unique key; `None` for any key.
    pub target: Option<Vec<String>>,
    /// `DO UPDATE`, not `DO NOTHING`.
    pub updates: bool,
}

/// The rows of VALUES.
pub(super) fn values(insert: &InsertStmt) -> Result<KeyValues, KeyedRefusal> {
    const OTHER: KeyedRefusal = KeyedRefusal::InsertForm;
    if insert.r#override() != OverridingKind::OverridingNotSet {
        return Err(OTHER);
    }
    let select = insert
        .select_stmt
        .as_deref()
        .and_then(|node| node.node.as_ref());
    let Some(NodeEnum::SelectStmt(select)) = select else {
        return Err(OTHER);
    };
    let is_bare = select.op() == SetOperation::SetopNone
        && select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none()
        && select.locking_clause.is_empty();
    if !is_bare || select.values_lists.is_empty() {
        return Err(OTHER);
    }
    let column = |target| {
        let target = as_target(target)?;
        target.indirection.is_empty().then(|| target.name.clone())
    };
    let columns: Option<Vec<String>> = insert.cols.iter().map(column).collect();
    let columns = columns.ok_or(KeyedRefusal::PartOfColumn)?;
    let row = |node: &Node| match node.node.as_ref()? {
        NodeEnum::List(row) => {
            let items = row.items.iter();
            Some(items.map(|item| source(item.node.as_ref()?)).collect())
        }
        _ => None,
    };
    let rows: Option<Vec<_>> = select.values_lists.iter().map(row).collect();
    Ok(KeyValues::Rows {
        columns,
        rows: rows.ok_or(OTHER)?,
    })
}

/// The ON CONFLICT clause, and the columns that SET assigns in it.
pub(super) fn conflict(
    insert: &InsertStmt,
) -> Result<(Option<KeyedConflict>, &[Node]), KeyedRefusal> {
    let Some(clause) = insert.on_conflict_clause.as_deref() else {
        return Ok((None, &[]));
    };
    let target = match clause.infer.as_deref() {
        Some(infer) => Some(read_target(infer).ok_or(KeyedRefusal::InsertForm)?),
        None => None,
    };
    let (updates, targets) = match clause.action() {
        OnConflictAction::OnconflictNothing => (false, &[][..]),
        OnConflictAction::OnconflictUpdate => (true, &*clause.target_list),
        _ => return Err(KeyedRefusal::InsertForm),
    };
    Ok((Some(KeyedConflict { target, updates }), targets))
}
