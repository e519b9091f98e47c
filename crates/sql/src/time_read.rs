//! Whether an expression reads the time at which its statement or transaction began. The members of a group share it.

use crate::tree::Record;

/// PostgreSQL's own functions that return this time.
const MOMENTS: [&str; 3] = ["now", "statement_timestamp", "transaction_timestamp"];

/// The same, and the function that computes with its day.
const TIMES: [&str; 4] = ["age", "now", "statement_timestamp", "transaction_timestamp"];

/// The keyword of `SQLValueFunction` for a day (`SVFOP_CURRENT_DATE`).
const CURRENT_DATE: i64 = 1;

/// The last of the keywords of `SQLValueFunction` that are times (`SVFOP_LOCALTIMESTAMP_N`). Behind it are the names of roles, of the
/// database and of the schema.
pub(crate) const LAST_TIME: i64 = 9;

/// Whether the expression reads the time, or its day.
pub(crate) fn reads_time(tree: &Record) -> bool {
    reads(tree, &TIMES, CURRENT_DATE)
}

/// Whether the expression reads the time more precisely than its day: two requests alone get different values.
pub(crate) fn reads_moment(tree: &Record) -> bool {
    reads(tree, &MOMENTS, CURRENT_DATE + 1)
}

fn reads(tree: &Record, functions: &[&str], first_keyword: i64) -> bool {
    tree.any(&|node| match node.kind {
        "SqlValueFunction" => (first_keyword..=LAST_TIME).contains(&node.number("op")),
        "FuncCall" => {
            let name = node.names("funcname").pop();
            name.is_some_and(|name| functions.contains(&name.as_str()))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use crate::expr::Expr;

    #[test]
    fn the_time_of_the_transaction_is_found() {
        for (sql, time, moment) in [
            ("now()", true, true),
            ("a < pg_catalog.now() - '1 day'::interval", true, true),
            ("date_trunc('minute', transaction_timestamp())", true, true),
            ("statement_timestamp()", true, true),
            ("CURRENT_TIMESTAMP", true, true),
            ("CURRENT_TIMESTAMP(3)", true, true),
            ("LOCALTIMESTAMP(0)", true, true),
            ("localtime", true, true),
            ("CURRENT_DATE", true, false),
            ("age(b)", true, false),
            ("clock_timestamp()", false, false),
            ("CURRENT_USER", false, false),
            ("a + 1", false, false),
        ] {
            let expr = Expr::parse(sql).unwrap();
            let found = (expr.reads_time(), expr.reads_moment());
            assert_eq!(found, (time, moment), "{sql}");
        }
    }
}
