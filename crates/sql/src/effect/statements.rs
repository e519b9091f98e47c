//! Determines the effect of the statements of a text.

#[cfg(test)]
mod tests;

use super::change::{Effect, SessionChange};
use super::listening;
use super::pin_reason::PinReason;
use super::set_config::{self, changes_of_plain_calls};
use super::setting::changes_of_set;
use crate::name::{Name, is_temporary_schema};
use crate::parser;
use crate::references::{self, ROW_CHANGES};
use crate::tree::Record;
use pg_query::NodeEnum;
use pg_query::protobuf::{DefElem, DiscardMode, TransactionStmt, TransactionStmtKind};

/// DECLARE's option bit for WITH HOLD (`CURSOR_OPT_HOLD`).
const CURSOR_OPT_HOLD: i32 = 0x0020;

/// The combined effect of the statements of a text.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Effect {
    let mut changes = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        changes.extend((index > 0).then_some(SessionChange::Next));
        changes.extend(each_once(session_changes(statement)));
    }
    if statements.len() > 1 && changes.iter().any(SessionChange::hides_path) {
        changes.push(SessionChange::Anything);
    }
    while changes.last() == Some(&SessionChange::Next) {
        changes.pop();
    }
    if !changes.is_empty() {
        return Effect::Session(changes);
    }
    match statements {
        [single] => of_neutral(single),
        _ => Effect::Other,
    }
}

/// Removes duplicates of changes that have no effect the second time. A statement can call a function very often, and
/// each execution has to apply all changes.
fn each_once(mut changes: Vec<SessionChange>) -> Vec<SessionChange> {
    use SessionChange::{Anything, FunctionsCalled, LocalSettings, Pin, PinMayEnd};
    let mut seen = Vec::new();
    changes.retain(|change| {
        let once = matches!(
            change,
            Pin(_) | PinMayEnd | Anything | FunctionsCalled | LocalSettings
        );
        let repeated = once && seen.contains(change);
        if once && !repeated {
            seen.push(change.clone());
        }
        !repeated
    });
    changes
}

/// Whether one of the statements starts a transaction block.
pub(crate) fn begin(statements: &[NodeEnum]) -> bool {
    use TransactionStmtKind::{TransStmtBegin, TransStmtStart};
    statements.iter().any(|statement| {
        matches!(statement, NodeEnum::TransactionStmt(control)
            if matches!(control.kind(), TransStmtBegin | TransStmtStart))
    })
}

/// The effect of a statement that does not change the session.
fn of_neutral(statement: &NodeEnum) -> Effect {
    match statement {
        NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::MergeStmt(_) => Effect::Write,
        NodeEnum::SelectStmt(select) => {
            let tree = Record::of(select);
            if tree.contains(&["IntoClause"]) {
                Effect::Other
            } else if tree.contains(&["LockingClause"]) || tree.contains(&ROW_CHANGES) {
                Effect::Write
            } else {
                Effect::Read
            }
        }
        _ => Effect::Other,
    }
}

/// The changes of one statement, by its kind and the functions it calls.
fn session_changes(statement: &NodeEnum) -> Vec<SessionChange> {
    if let NodeEnum::ExplainStmt(explain) = statement {
        let inner = explain.query.as_ref().and_then(|query| query.node.as_ref());
        return match inner {
            Some(inner) if explain.options.iter().any(is_analyze) => session_changes(inner),
            Some(inner) => changes_of_values(&Record::of_node(inner)),
            None => Vec::new(),
        };
    }
    let tree = Record::of_node(statement);
    if let Some(mut changes) = changes_of_plain_calls(statement) {
        set_config::distrust(&mut changes, &tree);
        return changes;
    }
    let mut changes = changes_of_nodes(&tree);
    set_config::distrust(&mut changes, &tree);
    changes.extend(change_of_statement(statement));
    changes
}

/// Whether one of the statements is a `FETCH` or `MOVE`. PostgreSQL knows portals by the names of cursors, so it may execute a portal to
/// which the client has bound a statement.
pub(crate) fn fetches(statements: &[NodeEnum]) -> bool {
    let mut statements = statements.iter();
    statements.any(|statement| matches!(statement, NodeEnum::FetchStmt(_)))
}

/// The changes by the values of an `EXECUTE`, which PostgreSQL evaluates even if it only explains the statement.
fn changes_of_values(explained: &Record) -> Vec<SessionChange> {
    let mut changes = Vec::new();
    explained.walk(&mut |node| {
        if node.kind == "ExecuteStmt" {
            changes.extend(changes_of_nodes(node));
        }
    });
    changes
}

/// Whether the option is ANALYZE and may be on.
pub(crate) fn is_analyze(option: &pg_query::Node) -> bool {
    let Some(NodeEnum::DefElem(option)) = &option.node else {
        return false;
    };
    option.defname.eq_ignore_ascii_case("analyze") && !is_off(option)
}

fn is_off(option: &DefElem) -> bool {
    match option.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::String(text)) => {
            matches!(text.sval.to_ascii_lowercase().as_str(), "false" | "off")
        }
        Some(NodeEnum::Boolean(flag)) => !flag.boolval,
        Some(NodeEnum::Integer(number)) => number.ival == 0,
        _ => false,
    }
}

/// The changes of a statement because of its kind.
fn change_of_statement(statement: &NodeEnum) -> Vec<SessionChange> {
    let change = match statement {
        NodeEnum::VariableSetStmt(set) => return changes_of_set(set),
        NodeEnum::DiscardStmt(discard) => match discard.target() {
            DiscardMode::DiscardAll => SessionChange::DiscardAll,
            DiscardMode::DiscardSequences => SessionChange::DiscardSequences,
            _ => return Vec::new(),
        },
        NodeEnum::DeallocateStmt(deallocate) if deallocate.isall => SessionChange::DeallocateAll,
        NodeEnum::DeallocateStmt(deallocate) => SessionChange::Deallocate {
            name: deallocate.name.clone(),
        },
        NodeEnum::TransactionStmt(control) => return change_of_savepoint(control),
        NodeEnum::ListenStmt(_) | NodeEnum::UnlistenStmt(_) => {
            let listening = listening::of_statement(statement);
            return Vec::from_iter(listening.map(SessionChange::Listening));
        }
        NodeEnum::PrepareStmt(_) => SessionChange::Pin(PinReason::Prepared),
        NodeEnum::LoadStmt(_) => SessionChange::Pin(PinReason::Library),
        NodeEnum::DeclareCursorStmt(cursor) if cursor.options & CURSOR_OPT_HOLD != 0 => {
            SessionChange::Pin(PinReason::Cursor)
        }
        NodeEnum::DoStmt(_) | NodeEnum::CallStmt(_) => SessionChange::Anything,
        _ => return Vec::new(),
    };
    vec![change]
}

/// The changes of savepoint commands. The start and the end of a transaction are visible in the server's reply.
fn change_of_savepoint(control: &TransactionStmt) -> Vec<SessionChange> {
    let name = control.savepoint_name.clone();
    match control.kind() {
        TransactionStmtKind::TransStmtSavepoint => vec![SessionChange::Savepoint { name }],
        TransactionStmtKind::TransStmtRelease => vec![SessionChange::Release { name }],
        TransactionStmtKind::TransStmtRollbackTo => vec![SessionChange::RollbackTo { name }],
        _ => Vec::new(),
    }
}

/// The changes of all nodes.
fn changes_of_nodes(tree: &Record) -> Vec<SessionChange> {
    let has_function_in_from = references::has_function_in_from(tree);
    let mut changes = Vec::new();
    tree.walk(&mut |node| match node.kind {
        "FuncCall" => changes.extend(changes_of_call(node)),
        _ => changes.extend(change_of_node(node, has_function_in_from)),
    });
    changes
}

/// The change of a node anywhere in a statement, unless it is a call.
fn change_of_node(node: &Record, has_function_in_from: bool) -> Option<SessionChange> {
    match node.kind {
        "RangeVar" if node.text("relpersistence") == "t" => {
            Some(SessionChange::Pin(PinReason::Temporary))
        }
        "RangeVar" if is_temporary_schema(node.text("schemaname")) => {
            Some(SessionChange::Pin(PinReason::Temporary))
        }
        // A rule of this view calls `set_config`.
        "UpdateStmt" => {
            let target = node.record("relation").map(|target| target.text("relname"));
            (target == Some("pg_settings")).then_some(SessionChange::Anything)
        }
        "ImportForeignSchemaStmt" if is_temporary_schema(node.text("local_schema")) => {
            Some(SessionChange::Pin(PinReason::Temporary))
        }
        "AIndirection" => change_of_fields(node),
        // Those functions take no row.
        "ColumnRef" => has_function_in_from
            .then(|| change_of_fields(node))
            .flatten(),
        "DefElem" if node.text("defname") == "schema" && names_temporary_schema(node) => {
            Some(SessionChange::Pin(PinReason::Temporary))
        }
        // Other nodes with qualified names: neither a table, a constant nor a column.
        "AConst" => None,
        _ => has_temporary_name(node).then_some(SessionChange::Pin(PinReason::Temporary)),
    }
}

/// Whether the value of an option is the name of a temporary schema (`CREATE EXTENSION … SCHEMA`).
fn names_temporary_schema(option: &Record) -> bool {
    let value = option.record("arg").map(|value| value.text("sval"));
    value.is_some_and(is_temporary_schema)
}

/// The change of names in positions of a field of a row: PostgreSQL calls a function of one argument by such a name, too.
fn change_of_fields(node: &Record) -> Option<SessionChange> {
    let fields = references::fields_of(node);
    fields.iter().find_map(change_of_function)
}

/// The fields of nodes that contain dotted names.
#[rustfmt::skip]
const NAME_FIELDS: [&str; 10] = [
    "defnames", "funcname", "objname", "type_name", "names", "domainname", "items", "opclassname", "opfamilyname", "conversion_name",
];

/// Whether a dotted name in one of the node's fields has a temporary schema. The name of the database may precede that of the schema,
/// and that of a column may follow the object.
fn has_temporary_name(node: &Record) -> bool {
    NAME_FIELDS.iter().any(|field| {
        let parts = node.names(field);
        let before = parts.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().any(|schema| is_temporary_schema(schema))
    })
}

/// The changes of a function call, by the names of functions of PostgreSQL and of some extensions.
fn changes_of_call(call: &Record) -> Vec<SessionChange> {
    let Some(name) = Name::from_parts(call.names("funcname")) else {
        return Vec::new();
    };
    if name.schema.as_deref().is_some_and(is_temporary_schema) {
        return vec![SessionChange::Pin(PinReason::Temporary)];
    }
    match name.name.as_str() {
        "set_config" if name.may_be_system() => set_config::changes_of_call(call),
        // As in the reset of another Paceline.
        "setseed" if has_random_argument(call) => Vec::new(),
        // As in a group's statement of another Paceline.
        "ts_rewrite" if executes_harmless_text(call) => Vec::new(),
        _ => Vec::from_iter(change_of_function(&name)),
    }
}

/// Whether the argument is random: then nothing depends on the seed.
fn has_random_argument(call: &Record) -> bool {
    call.any(&|node| {
        let name = node.names("funcname");
        name.last().is_some_and(|name| name == "gen_random_uuid")
    })
}

/// Whether the last argument is a text that only reads and calls no functions but PostgreSQL's own. (A text with a backslash may mean
/// something else to PostgreSQL.)
fn executes_harmless_text(call: &Record) -> bool {
    let text = call.list("args").last();
    let text = text.and_then(|argument| argument.record("val"));
    let text = text.map_or("", |value| value.text("sval"));
    let Ok(parsed) = parser::parse(text) else {
        return false;
    };
    let statements = parsed.stmts.into_iter();
    let statements: Vec<NodeEnum> = statements.filter_map(|raw| raw.stmt?.node).collect();
    let [statement] = statements.as_slice() else {
        return false;
    };
    let tree = Record::of_node(statement);
    let is_own = |name: &Name| name.schema.as_deref() == Some("pg_catalog");
    !text.contains('\\')
        && of_statements(&statements) == Effect::Read
        && references::functions(&tree).iter().all(is_own)
        && references::value_fields(&tree).is_empty()
}

/// The change by a function whose arguments do not matter.
fn change_of_function(name: &Name) -> Option<SessionChange> {
    match name.name.as_str() {
        // Extensions may be installed in any schema.
        "dblink_connect" | "dblink_connect_u" => {
            return Some(SessionChange::Pin(PinReason::Dblink));
        }
        "set_limit" => return Some(SessionChange::Pin(PinReason::Limit)),
        _ if !name.may_be_system() => return None,
        _ => {}
    }
    match name.name.as_str() {
        "pg_advisory_lock"
        | "pg_advisory_lock_shared"
        | "pg_try_advisory_lock"
        | "pg_try_advisory_lock_shared" => Some(SessionChange::Pin(PinReason::AdvisoryLock)),
        "pg_advisory_unlock" | "pg_advisory_unlock_shared" | "pg_advisory_unlock_all" => {
            Some(SessionChange::PinMayEnd)
        }
        "setseed" => Some(SessionChange::Pin(PinReason::Seed)),
        // These functions execute a text.
        "query_to_xml"
        | "query_to_xmlschema"
        | "query_to_xml_and_xmlschema"
        | "cursor_to_xml"
        | "ts_stat"
        | "ts_rewrite" => Some(SessionChange::Anything),
        "pg_create_logical_replication_slot"
        | "pg_create_physical_replication_slot"
        | "pg_copy_logical_replication_slot"
        | "pg_copy_physical_replication_slot" => {
            Some(SessionChange::Pin(PinReason::ReplicationSlot))
        }
        "pg_replication_origin_session_setup" => {
            Some(SessionChange::Pin(PinReason::ReplicationOrigin))
        }
        // Names up to PostgreSQL 14 and from PostgreSQL 15 on.
        "pg_start_backup" | "pg_backup_start" => Some(SessionChange::Pin(PinReason::Backup)),
        _ => None,
    }
}
