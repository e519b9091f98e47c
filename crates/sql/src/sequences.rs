//! Use of the sequence numbers that a session remembers: a statement may draw a number (`nextval`, `setval`) or read
//! the last one (`lastval`, `currval`). The text alone decides. Triggers, defaults, views, policies and functions may
//! do either, so that only a statement that uses none of them does neither.

use crate::name::Name;
use crate::references;
use crate::tree::Record;
use pg_query::NodeEnum;
use pg_query::protobuf::{TransactionStmt, TransactionStmtKind};

/// The possible use, by a statement, of the sequence numbers that its session remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceUse {
    /// The statement may draw a number.
    pub draws: bool,
    /// The statement may read the last number, or starts a transaction in which others may.
    pub reads: bool,
}

impl SequenceUse {
    /// Neither draws nor reads.
    pub const NONE: Self = Self {
        draws: false,
        reads: false,
    };
    /// May draw and read.
    pub const ANY: Self = Self {
        draws: true,
        reads: true,
    };
    /// At most a draw.
    pub const DRAWS: Self = Self {
        draws: true,
        reads: false,
    };

    fn and(self, other: Self) -> Self {
        Self {
            draws: self.draws || other.draws,
            reads: self.reads || other.reads,
        }
    }
}

/// The combined use of all statements of a text.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> SequenceUse {
    let each = statements.iter().map(of_statement);
    each.fold(SequenceUse::NONE, SequenceUse::and)
}

/// Whether the tree calls a function that reads the last number.
pub(crate) fn reads_by_name(tree: &Record) -> bool {
    let (functions, fields) = (references::functions(tree), references::fields(tree));
    let reads = |name: &Name| matches!(name.name.as_str(), "lastval" | "currval");
    functions.iter().chain(&fields).any(reads)
}

fn of_statement(statement: &NodeEnum) -> SequenceUse {
    match statement {
        NodeEnum::TransactionStmt(control) => of_transaction(control),
        NodeEnum::SelectStmt(select) if has_only_builtin_constants(&Record::of(select)) => {
            SequenceUse::NONE
        }
        // These statements evaluate no expression. (The statement of a cursor counts at its DECLARE.)
        NodeEnum::VariableSetStmt(_)
        | NodeEnum::VariableShowStmt(_)
        | NodeEnum::DiscardStmt(_)
        | NodeEnum::PrepareStmt(_)
        | NodeEnum::DeallocateStmt(_)
        | NodeEnum::ListenStmt(_)
        | NodeEnum::UnlistenStmt(_)
        | NodeEnum::NotifyStmt(_)
        | NodeEnum::FetchStmt(_)
        | NodeEnum::ClosePortalStmt(_)
        | NodeEnum::LockStmt(_)
        | NodeEnum::ConstraintsSetStmt(_)
        | NodeEnum::CheckPointStmt(_) => SequenceUse::NONE,
        _ => SequenceUse::ANY,
    }
}

/// Deferred triggers that a COMMIT executes belong to earlier statements, which were counted.
fn of_transaction(control: &TransactionStmt) -> SequenceUse {
    match control.kind() {
        TransactionStmtKind::TransStmtBegin | TransactionStmtKind::TransStmtStart => SequenceUse {
            draws: false,
            reads: true,
        },
        _ => SequenceUse::NONE,
    }
}

/// Whether a SELECT contains only constants and parameters: no relation, no function, no cast to a user-defined type.
fn has_only_builtin_constants(select: &Record) -> bool {
    let own = |name: &Name| name.schema.as_deref() != Some("pg_catalog");
    references::relations(select).is_empty()
        && references::functions(select).is_empty()
        && references::fields(select).is_empty()
        && !references::casts_to(select).iter().any(own)
}

#[cfg(test)]
mod tests {
    use super::SequenceUse;
    use crate::statement::parse;

    fn uses(sql: &str) -> SequenceUse {
        parse(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
            .sequences
    }

    #[test]
    fn a_statement_without_references_does_neither() {
        for sql in [
            "",
            "SELECT 1",
            "SELECT $1::int, 'a'",
            "SET work_mem = '1MB'",
            "COMMIT; SET x.y = 1",
            "ROLLBACK TO s",
            "SHOW work_mem",
            "PREPARE p AS SELECT lastval()",
            "FETCH 1 FROM c",
            "DISCARD SEQUENCES",
        ] {
            assert_eq!(uses(sql), SequenceUse::NONE, "{sql}");
        }
    }

    #[test]
    fn a_statement_that_may_use_a_trigger_a_view_or_a_function_may_do_both() {
        for sql in [
            "SELECT * FROM t",
            "SELECT f()",
            "SELECT lastval()",
            "SELECT 1::mine",
            "INSERT INTO t VALUES (1)",
            "DO 'begin end'",
            "EXECUTE p",
            "EXPLAIN SELECT f()",
            "COPY t FROM STDIN",
            "DECLARE c CURSOR FOR SELECT nextval('s')",
            "CREATE TABLE t AS SELECT 1",
            "SELECT 1; DELETE FROM t",
        ] {
            assert_eq!(uses(sql), SequenceUse::ANY, "{sql}");
        }
    }

    #[test]
    fn a_statement_that_starts_a_transaction_may_read() {
        for sql in ["BEGIN", "START TRANSACTION READ ONLY", "SELECT 1; BEGIN"] {
            let uses = uses(sql);
            assert!(uses.reads && !uses.draws, "{sql}");
        }
    }

    #[test]
    fn a_function_that_reads_the_last_number_is_found_by_name() {
        for (sql, reads) in [
            ("SELECT lastval()", true),
            ("INSERT INTO t VALUES (pg_catalog.currval('s'))", true),
            ("INSERT INTO t VALUES (nextval('s'))", false),
        ] {
            let statement = parse(sql).unwrap();
            assert_eq!(statement.reads_numbers, reads, "{sql}");
        }
    }
}
