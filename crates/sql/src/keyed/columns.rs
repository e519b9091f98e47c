//! The columns in a text: each must be one of the table, not the table as a row.

use super::refusal::KeyedRefusal;
use crate::tree::Record;

/// The columns in a text, without those that it only assigns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedColumns {
    /// The names. One that is no column of the table is an alias, or PostgreSQL rejects the text.
    pub names: Vec<String>,
    /// Names behind the name of the table (`accounts.x`), which are among the others. One that is no column may be a function.
    pub qualified: Vec<String>,
    /// Whether the text has all columns (`*`).
    pub all: bool,
}

impl UsedColumns {
    /// Reads all references to columns of a table that is called `qualifier`.
    pub(super) fn read(tree: &Record, qualifier: &str) -> Result<Self, KeyedRefusal> {
        let mut used = Self::default();
        used.add(tree, None, qualifier)?;
        Ok(used)
    }

    fn add(
        &mut self,
        node: &Record,
        parent: Option<&Record>,
        qualifier: &str,
    ) -> Result<(), KeyedRefusal> {
        match node.kind {
            "ColumnRef" => self.add_reference(node, parent, qualifier),
            _ => node
                .children()
                .try_for_each(|(_, child)| self.add(child, Some(node), qualifier)),
        }
    }

    fn add_reference(
        &mut self,
        reference: &Record,
        parent: Option<&Record>,
        qualifier: &str,
    ) -> Result<(), KeyedRefusal> {
        let names = reference.names("fields");
        let stars = reference.list("fields").count() - names.len();
        // Only as an item of its own, `*` means columns; elsewhere it is a row.
        let is_item = parent.is_some_and(|parent| parent.kind == "ResTarget");
        match (stars, names.as_slice()) {
            (0, [column]) if column == qualifier => return Err(KeyedRefusal::WholeRow),
            (0, [column]) => self.names.push(column.clone()),
            (0, [table, column]) if table == qualifier || table == "excluded" => {
                self.names.push(column.clone());
                self.qualified.push(column.clone());
            }
            (1, []) if is_item => self.all = true,
            (1, [table]) if is_item && table == qualifier => self.all = true,
            (1, [] | [_]) => return Err(KeyedRefusal::WholeRow),
            _ => return Err(KeyedRefusal::Alias),
        }
        Ok(())
    }
}
