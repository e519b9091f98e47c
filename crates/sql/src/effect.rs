//! What a text does: reads, writes, something else, or a change of the session.
//!
//! Judged by the text alone. A user-defined function may do anything inside; whoever needs to be sure about functions
//! asks the catalog about [`Statement::functions`](crate::Statement::functions).

#[cfg(test)]
mod tests;

use pg_query::NodeEnum;
use pg_query::protobuf::{DefElem, DiscardMode, VariableSetKind, VariableSetStmt};

use crate::name::Name;
use crate::parser;
use crate::tree::Record;

/// What a text does to data and session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// One SELECT, VALUES or TABLE without locking clause, INTO, or a CTE that changes data.
    Read,
    /// One INSERT, UPDATE, DELETE or MERGE, or a SELECT with a locking clause or a CTE that changes data.
    Write,
    /// Anything else that leaves the session as it was: an empty text, DDL, transaction control, COPY, SHOW, several
    /// statements, …
    Other,
    /// The text changes the session: every change in order. What else it does is not told.
    Session(Vec<SessionChange>),
}

/// One change of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionChange {
    /// A setting takes a value that lasts.
    Set {
        /// The setting, in lower case. `SET NAMES` sets `client_encoding`, `SET TIME ZONE` sets `timezone`, and
        /// `SET SESSION CHARACTERISTICS` goes by the name `session characteristics`.
        name: String,
        /// A text that sets it again.
        sql: String,
    },
    /// A setting goes back to its default.
    Reset {
        /// The setting, in lower case.
        name: String,
    },
    /// `RESET ALL`
    ResetAll,
    /// `DISCARD ALL`
    DiscardAll,
    /// `DEALLOCATE ALL`
    DeallocateAll,
    /// `DEALLOCATE name`
    Deallocate {
        /// The SQL-level name of the prepared statement.
        name: String,
    },
    /// The client must keep its server from now on; the text says for what.
    Pin(&'static str),
    /// It may change settings in a way the text does not tell.
    Taint,
}

/// DECLARE's option bit for WITH HOLD (`CURSOR_OPT_HOLD`).
const CURSOR_OPT_HOLD: i32 = 0x0020;

/// The effect of a text's statements together.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Effect {
    let changes: Vec<SessionChange> = statements.iter().flat_map(session_changes).collect();
    if !changes.is_empty() {
        return Effect::Session(changes);
    }
    match statements {
        [single] => of_undisturbing(single),
        _ => Effect::Other,
    }
}

/// The effect of a statement that leaves the session alone.
fn of_undisturbing(statement: &NodeEnum) -> Effect {
    match statement {
        NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::MergeStmt(_) => Effect::Write,
        NodeEnum::SelectStmt(select) => {
            let tree = Record::of(select);
            if tree.contains(&["IntoClause"]) {
                Effect::Other
            } else if tree.contains(&[
                "LockingClause",
                "InsertStmt",
                "UpdateStmt",
                "DeleteStmt",
                "MergeStmt",
            ]) {
                Effect::Write
            } else {
                Effect::Read
            }
        }
        _ => Effect::Other,
    }
}

/// What one statement changes in the session, by what it is and by what it calls.
fn session_changes(statement: &NodeEnum) -> Vec<SessionChange> {
    if let NodeEnum::ExplainStmt(explain) = statement {
        let inner = explain.query.as_ref().and_then(|query| query.node.as_ref());
        return match inner {
            Some(inner) if explain.options.iter().any(is_analyze) => session_changes(inner),
            _ => Vec::new(),
        };
    }
    let mut changes = Vec::new();
    let tree = Record::of(&pg_query::Node {
        node: Some(statement.clone()),
    });
    tree.walk(&mut |node| changes.extend(change_of_node(node)));
    changes.extend(change_of_statement(statement));
    changes
}

/// ANALYZE in any spelling that may mean yes.
fn is_analyze(option: &pg_query::Node) -> bool {
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

/// What a statement changes by being what it is.
fn change_of_statement(statement: &NodeEnum) -> Option<SessionChange> {
    match statement {
        NodeEnum::VariableSetStmt(set) => change_of_set(set),
        NodeEnum::DiscardStmt(discard) if discard.target() == DiscardMode::DiscardAll => {
            Some(SessionChange::DiscardAll)
        }
        NodeEnum::DeallocateStmt(deallocate) if deallocate.isall => {
            Some(SessionChange::DeallocateAll)
        }
        NodeEnum::DeallocateStmt(deallocate) => Some(SessionChange::Deallocate {
            name: deallocate.name.clone(),
        }),
        NodeEnum::ListenStmt(_) => Some(SessionChange::Pin("LISTEN")),
        NodeEnum::PrepareStmt(_) => Some(SessionChange::Pin("PREPARE")),
        NodeEnum::LoadStmt(_) => Some(SessionChange::Pin("LOAD")),
        NodeEnum::DeclareCursorStmt(cursor) if cursor.options & CURSOR_OPT_HOLD != 0 => {
            Some(SessionChange::Pin("DECLARE WITH HOLD"))
        }
        NodeEnum::DoStmt(_) | NodeEnum::CallStmt(_) => Some(SessionChange::Taint),
        _ => None,
    }
}

/// SET and RESET in all their forms.
fn change_of_set(set: &VariableSetStmt) -> Option<SessionChange> {
    if set.is_local {
        return None;
    }
    let name = set.name.to_ascii_lowercase();
    match set.kind() {
        VariableSetKind::VarResetAll => Some(SessionChange::ResetAll),
        VariableSetKind::VarSetMulti if name == "session characteristics" => {
            Some(SessionChange::Set {
                sql: text_of_set(set)?,
                name,
            })
        }
        // SET TRANSACTION, and what only ever lasts as long as a transaction.
        VariableSetKind::VarSetMulti => None,
        _ if matches!(
            name.as_str(),
            "transaction_isolation" | "transaction_read_only" | "transaction_deferrable"
        ) =>
        {
            None
        }
        VariableSetKind::VarReset | VariableSetKind::VarSetDefault => {
            Some(SessionChange::Reset { name })
        }
        VariableSetKind::VarSetValue => Some(change_of_value(set, name)),
        _ => Some(SessionChange::Taint),
    }
}

/// `SET name TO value`.
fn change_of_value(set: &VariableSetStmt, name: String) -> SessionChange {
    let values: Vec<String> = set
        .args
        .iter()
        .filter_map(|arg| match &arg.node {
            Some(NodeEnum::AConst(_)) => {
                Some(Record::of(arg).record("val")?.text("sval").to_owned())
            }
            _ => None,
        })
        .collect();
    let is_temporary_schema = |value: &String| {
        value
            .split(',')
            .any(|part| is_temporary(part.trim().trim_matches('"')))
    };
    match name.as_str() {
        "role" if values.iter().any(|value| value == "none") => SessionChange::Reset { name },
        "search_path" if values.iter().any(is_temporary_schema) => {
            SessionChange::Pin("temporary schema")
        }
        // A seed starts a sequence that only this session's server goes on with.
        "seed" => SessionChange::Pin("SET seed"),
        _ => match text_of_set(set) {
            Some(sql) => SessionChange::Set { name, sql },
            None => SessionChange::Taint,
        },
    }
}

/// A text that sets it again, if the deparser's text provably means the same.
fn text_of_set(set: &VariableSetStmt) -> Option<String> {
    let sql = parser::deparse(NodeEnum::VariableSetStmt(set.clone())).ok()?;
    let again = parser::parse(&sql).ok()?;
    match again
        .stmts
        .into_iter()
        .filter_map(|raw| raw.stmt?.node)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [NodeEnum::VariableSetStmt(same)] if Record::of(same) == Record::of(set) => Some(sql),
        _ => None,
    }
}

/// What a node anywhere in a statement changes.
fn change_of_node(node: &Record) -> Option<SessionChange> {
    match node.kind {
        "FuncCall" => change_of_call(node),
        "RangeVar" if node.text("relpersistence") == "t" => {
            Some(SessionChange::Pin("temporary table"))
        }
        "RangeVar" if is_temporary(node.text("schemaname")) => {
            Some(SessionChange::Pin("temporary schema"))
        }
        // A rule on this view calls set_config.
        "UpdateStmt"
            if node
                .record("relation")
                .is_some_and(|target| target.text("relname") == "pg_settings") =>
        {
            Some(SessionChange::Taint)
        }
        // Qualified names of everything that is neither a table, a constant nor a column.
        "AConst" | "ColumnRef" => None,
        _ => has_temporary_name(node).then_some(SessionChange::Pin("temporary schema")),
    }
}

/// Whether a dotted name in one of the node's fields starts with a temporary schema.
fn has_temporary_name(node: &Record) -> bool {
    [
        "defnames",
        "funcname",
        "objname",
        "type_name",
        "names",
        "domainname",
        "items",
        "opclassname",
        "conversion_name",
    ]
    .iter()
    .any(|field| {
        let parts = node.names(field);
        parts.len() > 1 && parts.first().is_some_and(|schema| is_temporary(schema))
    })
}

fn is_temporary(schema: &str) -> bool {
    let schema = schema.to_ascii_lowercase();
    schema == "pg_temp" || schema.starts_with("pg_temp_")
}

/// What a call changes, going by the names of PostgreSQL's own functions and of a few extensions'.
fn change_of_call(call: &Record) -> Option<SessionChange> {
    let name = Name::from_parts(call.names("funcname"))?;
    if name.schema.as_deref().is_some_and(is_temporary) {
        return Some(SessionChange::Pin("temporary schema"));
    }
    match name.name.as_str() {
        // Extensions live in any schema.
        "dblink_connect" | "dblink_connect_u" => {
            return Some(SessionChange::Pin("dblink connection"));
        }
        "set_limit" => return Some(SessionChange::Pin("set_limit")),
        _ if !name.may_be_system() => return None,
        _ => {}
    }
    match name.name.as_str() {
        "pg_advisory_lock"
        | "pg_advisory_lock_shared"
        | "pg_try_advisory_lock"
        | "pg_try_advisory_lock_shared" => Some(SessionChange::Pin("advisory lock")),
        "set_config" if is_true(call.list("args").nth(2)) => None,
        "set_config" => Some(SessionChange::Pin("set_config")),
        "setseed" => Some(SessionChange::Pin("setseed")),
        "currval" | "lastval" => Some(SessionChange::Pin("sequence value")),
        "pg_create_logical_replication_slot" | "pg_create_physical_replication_slot" => {
            Some(SessionChange::Pin("replication slot"))
        }
        _ => None,
    }
}

/// Whether an argument is the constant `true`, given by position.
fn is_true(argument: Option<&Record>) -> bool {
    let Some(value) = argument
        .filter(|node| node.kind == "AConst")
        .and_then(|node| node.record("val"))
    else {
        return false;
    };
    value.kind == "Boolean" && value.number("boolval") != 0
}
