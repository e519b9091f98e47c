//! Whether a statement reads the number of a transaction. The members of a chain share theirs: of two versions of a row that they
//! write, both have the same `xmin`, by which an application may check that a row has not changed.

use crate::tree::Record;

/// The system columns that contain the numbers of transactions, or of commands in them.
const VERSION_COLUMNS: [&str; 4] = ["cmax", "cmin", "xmax", "xmin"];

/// PostgreSQL's functions that return the number of the transaction, or show it.
const NUMBERS: [&str; 6] = [
    "pg_current_snapshot",
    "pg_current_xact_id",
    "pg_current_xact_id_if_assigned",
    "txid_current",
    "txid_current_if_assigned",
    "txid_current_snapshot",
];

/// Whether a part of the statement reads such a column or calls such a function.
pub(crate) fn sees_transaction(tree: &Record) -> bool {
    let is_one_of = |node: &Record, field, names: &[&str]| {
        let name = node.names(field).pop();
        name.is_some_and(|name| names.contains(&name.as_str()))
    };
    tree.any(&|node| match node.kind {
        "ColumnRef" => is_one_of(node, "fields", &VERSION_COLUMNS),
        "FuncCall" => is_one_of(node, "funcname", &NUMBERS),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn numbers_of_transactions_are_found() {
        for (sql, sees) in [
            ("UPDATE t SET n = n + 1 WHERE id = 1 RETURNING xmin", true),
            ("UPDATE t SET n = 1 WHERE id = 1 AND t.xmin = $1", true),
            (
                "UPDATE t SET n = pg_catalog.txid_current() WHERE id = 1",
                true,
            ),
            (
                "INSERT INTO t SELECT 1 WHERE pg_current_xact_id() > '3'",
                true,
            ),
            ("UPDATE t SET xmin_of_job = 1 WHERE ctid = '(0,1)'", false),
            ("SELECT n AS xmin FROM t", false),
        ] {
            assert_eq!(parse(sql).unwrap().sees_transaction, sees, "{sql}");
        }
    }
}
