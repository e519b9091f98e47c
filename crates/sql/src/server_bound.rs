//! Whether a text may show a difference between two servers with equal tables.

#[cfg(test)]
mod tests;

use crate::time_read::LAST_TIME;
use crate::tree::Record;

/// The columns that PostgreSQL gives to every table: where a row is stored, and which transactions wrote it.
const SYSTEM_COLUMNS: [&str; 6] = ["cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"];

/// Whether the text names a system column, the database, the role or the schema of its session, or a collation.
pub(crate) fn is_server_bound(tree: &Record) -> bool {
    tree.any(&|node| match node.kind {
        "ColumnRef" => {
            let column = node.names("fields").pop();
            column.is_some_and(|name| SYSTEM_COLUMNS.contains(&name.as_str()))
        }
        "SqlValueFunction" => node.number("op") > LAST_TIME,
        "CollateClause" => true,
        _ => false,
    })
}
