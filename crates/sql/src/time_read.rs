//! Whether an expression reads the time at which its statement or transaction began. The members of a group share it.

use crate::tree::Record;

/// PostgreSQL's own functions that return this time.
pub(crate) const MOMENTS: [&str; 3] = ["now", "statement_timestamp", "transaction_timestamp"];

/// Those of them whose result is constant in a transaction.
const CONSTANT_IN_TRANSACTION: [&str; 2] = ["now", "transaction_timestamp"];

/// [`MOMENTS`], and the function that computes with its day.
const TIMES: [&str; 4] = ["age", "now", "statement_timestamp", "transaction_timestamp"];

/// The keyword of `SQLValueFunction` for a day (`SVFOP_CURRENT_DATE`).
const CURRENT_DATE: i64 = 1;

/// The first of its keywords that are more precise than a day.
pub(crate) const FIRST_MOMENT: i64 = CURRENT_DATE + 1;

/// The last of the keywords of `SQLValueFunction` that are times (`SVFOP_LOCALTIMESTAMP_N`). Behind it are the names of roles, of the
/// database and of the schema.
pub(crate) const LAST_TIME: i64 = 9;

/// Whether a statement may return another value in a transaction of its own: it calls a function that is constant in a transaction, or
/// uses a keyword such as `CURRENT_TIMESTAMP`.
pub(crate) fn depends_on_transaction(tree: &Record) -> bool {
    tree.any(&|node| node.kind == "SqlValueFunction" || is_read(node, &CONSTANT_IN_TRANSACTION, 0))
}

/// Whether the expression reads the time, or its day.
pub(crate) fn reads_time(tree: &Record) -> bool {
    reads(tree, &TIMES, CURRENT_DATE)
}

/// Whether the expression reads the time more precisely than its day: two requests alone get different values.
pub(crate) fn reads_moment(tree: &Record) -> bool {
    reads(tree, &MOMENTS, FIRST_MOMENT)
}

/// Parts of a statement whose values the rest of it may compare.
const SOURCES: [&str; 4] = ["CommonTableExpr", "MergeStmt", "RangeSubselect", "SubLink"];

/// Whether the effect of a statement may depend on the order of its time and those that others have stored: it reads the time, and not
/// only to store or to return it, or it does nothing if it meets a value that may be the time (ON CONFLICT without a target). A time that
/// an INSERT with ON CONFLICT proposes may be the conflict, and EXCLUDED may compare it.
pub(crate) fn decides_by_moment(tree: &Record) -> bool {
    // A value that is stored or returned, and compared with nothing.
    let is_plain = |value: &Record| !value.contains(&["ColumnRef", "SubLink"]);
    match tree.kind {
        kind if SOURCES.contains(&kind) && reads_moment(tree) => true,
        "ResTarget" if is_plain(tree) => false,
        "OnConflictClause" if tree.record("infer").is_none() => true,
        "InsertStmt" if tree.record("on_conflict_clause").is_some() && reads_moment(tree) => true,
        _ => {
            let is_value = |field: &str, part: &Record| field == "values_lists" && is_plain(part);
            let mut parts = tree
                .children()
                .filter(|(field, part)| !is_value(field, part));
            is_read(tree, &MOMENTS, FIRST_MOMENT) || parts.any(|(_, part)| decides_by_moment(part))
        }
    }
}

/// Whether this node itself is a function or a keyword that returns the time more precisely than its day.
pub(crate) fn is_moment(node: &Record) -> bool {
    is_read(node, &MOMENTS, FIRST_MOMENT)
}

fn reads(tree: &Record, functions: &[&str], first_keyword: i64) -> bool {
    tree.any(&|node| is_read(node, functions, first_keyword))
}

/// Whether this node itself is one of the functions, or a keyword from `first_keyword` on.
fn is_read(node: &Record, functions: &[&str], first_keyword: i64) -> bool {
    match node.kind {
        "SqlValueFunction" => (first_keyword..=LAST_TIME).contains(&node.number("op")),
        "FuncCall" => {
            let name = node.names("funcname").pop();
            name.is_some_and(|name| functions.contains(&name.as_str()))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::Expr;
    use crate::parse;

    #[test]
    fn statements_that_decide_by_the_time_are_found() {
        for (sql, decides) in [
            ("INSERT INTO t VALUES (1, now())", false),
            ("INSERT INTO t SELECT 1, now() FROM s", false),
            ("UPDATE t SET a = now(), b = b + 1 WHERE id = 1", false),
            (
                "UPDATE t SET a = now() - '1 day'::interval RETURNING now()",
                false,
            ),
            ("DELETE FROM t WHERE day < CURRENT_DATE", false),
            ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING", false),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT a DO NOTHING",
                false,
            ),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", true),
            (
                "INSERT INTO t VALUES (1, now()) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b WHERE t.b < EXCLUDED.b",
                true,
            ),
            (
                "INSERT INTO t SELECT now() ON CONFLICT (a) DO UPDATE SET n = t.n + 1",
                true,
            ),
            (
                "INSERT INTO t VALUES (1, (SELECT max(m) FROM s WHERE a < now()))",
                true,
            ),
            ("UPDATE t SET a = now() WHERE a < (SELECT now())", true),
            (
                "UPDATE t SET a = s.m FROM (SELECT now() AS m) s WHERE t.a < s.m",
                true,
            ),
            (
                "UPDATE t SET a = s.m FROM (VALUES (1, now())) s(i, m) WHERE t.a < s.m",
                true,
            ),
            (
                "WITH s AS (SELECT now() AS m) UPDATE t SET a = s.m FROM s WHERE t.a < s.m",
                true,
            ),
            (
                "MERGE INTO t USING (VALUES (1, now())) s(i, m) ON t.i = s.i WHEN MATCHED AND t.a < s.m THEN UPDATE SET a = s.m",
                true,
            ),
            ("UPDATE t SET a = now() WHERE a < now()", true),
            ("UPDATE t SET n = CASE WHEN a < now() THEN 1 END", true),
            (
                "UPDATE t SET n = (SELECT max(m) FROM s WHERE a < now())",
                true,
            ),
            ("DELETE FROM t WHERE a < CURRENT_TIMESTAMP", true),
            (
                "INSERT INTO t VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = 1 WHERE t.c < now()",
                true,
            ),
            (
                "WITH s AS (DELETE FROM t WHERE a < now() RETURNING *) INSERT INTO u SELECT * FROM s",
                true,
            ),
        ] {
            assert_eq!(parse(sql).unwrap().decides_by_moment, decides, "{sql}");
        }
    }

    #[test]
    fn statements_that_show_when_their_transaction_began_are_found() {
        for sql in [
            "SELECT now()",
            "SELECT id FROM t WHERE at > pg_catalog.now() - interval '1 h'",
            "SELECT TRANSACTION_TIMESTAMP()",
            "SELECT current_timestamp(3)",
            "SELECT id FROM t WHERE day = CURRENT_DATE",
            "SELECT id FROM t ORDER BY at - localtime LIMIT 1",
        ] {
            assert!(parse(sql).unwrap().depends_on_transaction, "{sql}");
        }
        for sql in [
            "SELECT now FROM t",
            "SELECT 'now()'",
            "SELECT upper(name) FROM t",
        ] {
            assert!(!parse(sql).unwrap().depends_on_transaction, "{sql}");
        }
    }

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
