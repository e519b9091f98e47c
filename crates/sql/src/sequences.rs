//! What a statement may do with what its session remembers of sequences: draw a number (`nextval`, `setval`), or read the
//! last one (`lastval`, `currval`). Judged by the text alone; triggers, defaults, views, policies and functions may do either,
//! so that only a statement that reaches none of them does neither.

use crate::name::Name;
use crate::references;
use crate::tree::Record;
use pg_query::NodeEnum;
use pg_query::protobuf::{TransactionStmt, TransactionStmtKind};

/// What a statement may do with the numbers of sequences that its session remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceUse {
    /// It may draw a number.
    pub draws: bool,
    /// It may read the last one, or begins a transaction in which others may.
    pub reads: bool,
}

impl SequenceUse {
    /// Neither.
    pub const NONE: Self = Self {
        draws: false,
        reads: false,
    };
    /// Both.
    pub const ANY: Self = Self {
        draws: true,
        reads: true,
    };
    /// It draws at most.
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

/// What the statements of a text may do, together.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> SequenceUse {
    let each = statements.iter().map(of_statement);
    each.fold(SequenceUse::NONE, SequenceUse::and)
}

/// Does the tree name a function that reads a number?
pub(crate) fn reads_by_name(tree: &Record) -> bool {
    let functions = references::functions(tree);
    let reads = |name: &Name| matches!(name.name.as_str(), "lastval" | "currval");
    functions.iter().any(reads)
}

fn of_statement(statement: &NodeEnum) -> SequenceUse {
    match statement {
        NodeEnum::TransactionStmt(control) => of_transaction(control),
        NodeEnum::SelectStmt(select) if is_about_nothing(&Record::of(select)) => SequenceUse::NONE,
        // They carry out no expression. (A cursor's statement counts where the cursor is declared.)
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

/// What a COMMIT still carries out belongs to statements that counted when they came.
fn of_transaction(control: &TransactionStmt) -> SequenceUse {
    match control.kind() {
        TransactionStmtKind::TransStmtBegin | TransactionStmtKind::TransStmtStart => SequenceUse {
            draws: false,
            reads: true,
        },
        _ => SequenceUse::NONE,
    }
}

/// Constants and parameters only: no relation, no function, no cast to a type of the user's own.
fn is_about_nothing(select: &Record) -> bool {
    let own = |name: &Name| name.schema.as_deref() != Some("pg_catalog");
    references::relations(select).is_empty()
        && references::functions(select).is_empty()
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
    fn what_reaches_nothing_does_neither() {
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
    fn what_may_reach_a_trigger_a_view_or_a_function_may_do_both() {
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
    fn who_begins_a_transaction_may_read_in_it() {
        for sql in ["BEGIN", "START TRANSACTION READ ONLY", "SELECT 1; BEGIN"] {
            let uses = uses(sql);
            assert!(uses.reads && !uses.draws, "{sql}");
        }
    }

    #[test]
    fn a_text_that_reads_a_number_is_known_by_the_name() {
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
