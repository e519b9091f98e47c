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
        NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::MergeStmt(_)
        | NodeEnum::CopyStmt(_)
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
