//! Which statements may create an object that outlasts them, by their kind.

use crate::tree::Record;
use pg_query::NodeEnum;

/// Whether one of the statements may create an object without calling a function.
pub(crate) fn may_create(statements: &[NodeEnum]) -> bool {
    statements.iter().any(creates)
}

fn creates(statement: &NodeEnum) -> bool {
    match statement {
        NodeEnum::SelectStmt(select) => Record::of(select).contains(&["IntoClause"]),
        NodeEnum::ExplainStmt(explain) => {
            Record::of(explain).contains(&["CreateTableAsStmt", "IntoClause"])
        }
        NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::MergeStmt(_)
        | NodeEnum::CopyStmt(_)
        | NodeEnum::TruncateStmt(_)
        | NodeEnum::VacuumStmt(_)
        | NodeEnum::ClusterStmt(_)
        | NodeEnum::ReindexStmt(_)
        | NodeEnum::RefreshMatViewStmt(_)
        | NodeEnum::DropStmt(_)
        | NodeEnum::GrantStmt(_)
        | NodeEnum::CommentStmt(_)
        // The index, and what a column or constraint needs, is in the schema of the table.
        | NodeEnum::IndexStmt(_)
        | NodeEnum::AlterTableStmt(_)
        | NodeEnum::RenameStmt(_)
        | NodeEnum::LockStmt(_)
        | NodeEnum::TransactionStmt(_)
        | NodeEnum::VariableSetStmt(_)
        | NodeEnum::VariableShowStmt(_)
        | NodeEnum::ConstraintsSetStmt(_)
        | NodeEnum::DeclareCursorStmt(_)
        | NodeEnum::FetchStmt(_)
        | NodeEnum::ClosePortalStmt(_)
        | NodeEnum::PrepareStmt(_)
        | NodeEnum::ExecuteStmt(_)
        | NodeEnum::DeallocateStmt(_)
        | NodeEnum::DiscardStmt(_)
        | NodeEnum::ListenStmt(_)
        | NodeEnum::UnlistenStmt(_)
        | NodeEnum::NotifyStmt(_)
        | NodeEnum::CheckPointStmt(_) => false,
        _ => true,
    }
}
