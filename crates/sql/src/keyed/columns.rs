//! The columns in a text: each must be one of the table, not the table as a row.

use super::refusal::KeyedRefusal;
use crate::tree::Record;

/// What references to columns say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// Names behind the name of the table.
    pub(super) qualified: Vec<String>,
}

/// Reads all references to columns of a table that is called `qualifier`.
pub(super) fn used_columns(tree: &Record, qualifier: &str) -> Result<Used, KeyedRefusal> {
    let mut used = Used::default();
    read(tree, None, qualifier, &mut used)?;
    Ok(used)
}

fn read(
    node: &Record,
    parent: Option<&Record>,
    qualifier: &str,
    used: &mut Used,
) -> Result<(), KeyedRefusal> {
    if node.kind == "ColumnRef" {
        return read_reference(node, parent, qualifier, used);
    }
    node.children()
        .try_for_each(|(_, child)| read(child, Some(node), qualifier, used))
}

fn read_reference(
    reference: &Record,
    parent: Option<&Record>,
    qualifier: &str,
    used: &mut Used,
) -> Result<(), KeyedRefusal> {
    let names = reference.names("fields");
    let fields = reference.list("fields").count();
    // Only as an item of its own, `*` stands for columns; elsewhere it is a row.
    let is_item = parent.is_some_and(|parent| parent.kind == "ResTarget");
    match (fields - names.len(), names.as_slice()) {
        (0, [column]) if column == qualifier => Err(KeyedRefusal::WholeRow),
        (0, [_]) => Ok(()),
        (0, [table, column]) if table == qualifier || table == "excluded" => {
            used.qualified.push(column.clone());
            Ok(())
        }
        (1, []) if is_item => Ok(()),
        (1, [table]) if is_item && table == qualifier => Ok(()),
        (1, [] | [_]) => Err(KeyedRefusal::WholeRow),
        _ => Err(KeyedRefusal::Alias),
    }
}
