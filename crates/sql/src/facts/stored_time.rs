//! Whether an expression that PostgreSQL stores, such as a default, reads the time.

use super::catalog::{calls_sql, text_array};

/// The keywords of `SQLValueFunction` that are times and not days, as PostgreSQL stores them: those of the parser's tree
/// ([`crate::time_read`]), less 1.
const STORED_MOMENTS: &str = "[1-8]";

/// PostgreSQL's functions that return a time.
const CLOCKS: [&str; 5] = [
    "clock_timestamp",
    "now",
    "statement_timestamp",
    "timeofday",
    "transaction_timestamp",
];

/// The OIDs of `time`, `timestamp`, their versions with time zones, their ranges and multiranges.
const TIME_OIDS: &str = "1083|1114|1184|1266|3908|3910|4533|4534";

/// SQL condition: the stored expression may read the time, more precisely than its day; also by the cast of a text
/// (`'now'::text::timestamp`).
pub(crate) fn reads_moment_sql(expression: &str) -> String {
    format!(
        "({expression}::pg_catalog.text ~ 'SQLVALUEFUNCTION :op {STORED_MOMENTS} ' OR {expression}::pg_catalog.text ~ ' :resulttype ({TIME_OIDS}) ' \
           OR {calls})",
        calls = calls_sql(
            expression,
            &format!("p.proname = ANY ({})", text_array(CLOCKS)),
        ),
    )
}
