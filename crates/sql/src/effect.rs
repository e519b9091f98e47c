//! What a text does: reads, writes, something else, or a change of the session.
//!
//! Judged by the text alone. A user-defined function may do anything inside; whoever needs to be sure about functions
//! asks the catalog about [`Statement::functions`](crate::Statement::functions).

mod kept;
mod listening;
mod set_config;
mod setting;
mod shown;
#[cfg(test)]
mod tests;

use pg_query::NodeEnum;
use pg_query::protobuf::{DefElem, DiscardMode, TransactionStmt, TransactionStmtKind};

use crate::name::Name;
use crate::tree::Record;
pub use kept::Kept;
pub use listening::{Listening, listening_changes, replace_listening};
use set_config::changes_of_plain_calls;
pub use set_config::{Bound, SetConfig};
use setting::changes_of_set;
pub use setting::{is_of_a_user, known_sql, set_config_sql, set_to};
pub use shown::IDLE_SESSION_TIMEOUT;
pub(crate) use shown::shows;

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
        /// `SET SESSION CHARACTERISTICS` the defaults of what it names.
        name: String,
        /// A text that sets it again.
        sql: String,
    },
    /// A call whose parameters tell what it sets.
    SetTo(SetConfig),
    /// A setting may have another value, which the server must be asked for when the transaction is over.
    SetUnknown {
        /// The setting, in lower case.
        name: String,
    },
    /// A setting goes back to its default.
    Reset {
        /// The setting, in lower case.
        name: String,
    },
    /// The session knows this name of a user's own from now on, though its value ends with the transaction.
    Known {
        /// The name, in lower case.
        name: String,
    },
    /// `RESET ALL`
    ResetAll,
    /// `DISCARD ALL`
    DiscardAll,
    /// `DISCARD SEQUENCES`
    DiscardSequences,
    /// `DEALLOCATE ALL`
    DeallocateAll,
    /// `DEALLOCATE name`
    Deallocate {
        /// The SQL-level name of the prepared statement.
        name: String,
    },
    /// Only the server that carries it out has this from now on.
    Pin(Kept),
    /// The session listens on other channels when its transaction commits.
    Listening(Listening),
    /// Something that only its server has may be gone afterwards.
    LetGo,
    /// It may change the session in a way the text does not tell.
    Taint,
    /// It calls functions that may. (The catalog tells, not the text.)
    Called,
    /// `SAVEPOINT name`
    Savepoint {
        /// The savepoint.
        name: String,
    },
    /// `RELEASE name`
    Release {
        /// The savepoint.
        name: String,
    },
    /// `ROLLBACK TO name`
    RollbackTo {
        /// The savepoint.
        name: String,
    },
    /// What follows is what the next statement of the text changes.
    Next,
}

impl SessionChange {
    /// The session forgets the numbers of sequences after it.
    pub fn discards_sequences(&self) -> bool {
        matches!(self, Self::DiscardSequences | Self::DiscardAll)
    }

    /// All prepared statements are gone after it.
    pub fn drops_statements(&self) -> bool {
        matches!(self, Self::DeallocateAll | Self::DiscardAll)
    }
}

/// DECLARE's option bit for WITH HOLD (`CURSOR_OPT_HOLD`).
const CURSOR_OPT_HOLD: i32 = 0x0020;

/// The effect of a text's statements together.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Effect {
    let mut changes = Vec::new();
    for (place, statement) in statements.iter().enumerate() {
        changes.extend((place > 0).then_some(SessionChange::Next));
        changes.extend(each_once(session_changes(statement)));
    }
    while changes.last() == Some(&SessionChange::Next) {
        changes.pop();
    }
    if !changes.is_empty() {
        return Effect::Session(changes);
    }
    match statements {
        [single] => of_undisturbing(single),
        _ => Effect::Other,
    }
}

/// A statement can name a function very often, and each execution of it is owed all that it changes.
fn each_once(mut changes: Vec<SessionChange>) -> Vec<SessionChange> {
    use SessionChange::{Called, LetGo, Pin, Taint};
    let mut seen = Vec::new();
    changes.retain(|change| {
        let once = matches!(change, Pin(_) | LetGo | Taint | Called);
        let known = once && seen.contains(change);
        if once && !known {
            seen.push(change.clone());
        }
        !known
    });
    changes
}

/// Does one of them begin a transaction block?
pub(crate) fn begin(statements: &[NodeEnum]) -> bool {
    use TransactionStmtKind::{TransStmtBegin, TransStmtStart};
    let begins = |statement: &NodeEnum| match statement {
        NodeEnum::TransactionStmt(control) => {
            matches!(control.kind(), TransStmtBegin | TransStmtStart)
        }
        _ => false,
    };
    statements.iter().any(begins)
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
    if let Some(changes) = changes_of_plain_calls(statement) {
        return changes;
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

/// What a statement changes by being what it is.
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
            return listening
                .map(SessionChange::Listening)
                .into_iter()
                .collect();
        }
        NodeEnum::PrepareStmt(_) => SessionChange::Pin(Kept::Prepared),
        NodeEnum::LoadStmt(_) => SessionChange::Pin(Kept::Library),
        NodeEnum::DeclareCursorStmt(cursor) if cursor.options & CURSOR_OPT_HOLD != 0 => {
            SessionChange::Pin(Kept::Cursor)
        }
        NodeEnum::DoStmt(_) | NodeEnum::CallStmt(_) => SessionChange::Taint,
        _ => return Vec::new(),
    };
    vec![change]
}

/// Savepoints; what begins and ends a transaction, its answer tells.
fn change_of_savepoint(control: &TransactionStmt) -> Vec<SessionChange> {
    let name = control.savepoint_name.clone();
    match control.kind() {
        TransactionStmtKind::TransStmtSavepoint => vec![SessionChange::Savepoint { name }],
        TransactionStmtKind::TransStmtRelease => vec![SessionChange::Release { name }],
        TransactionStmtKind::TransStmtRollbackTo => vec![SessionChange::RollbackTo { name }],
        _ => Vec::new(),
    }
}

/// What a node anywhere in a statement changes.
fn change_of_node(node: &Record) -> Option<SessionChange> {
    match node.kind {
        "FuncCall" => change_of_call(node),
        "RangeVar" if node.text("relpersistence") == "t" => {
            Some(SessionChange::Pin(Kept::Temporary))
        }
        "RangeVar" if is_temporary(node.text("schemaname")) => {
            Some(SessionChange::Pin(Kept::Temporary))
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
        _ => has_temporary_name(node).then_some(SessionChange::Pin(Kept::Temporary)),
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
        return Some(SessionChange::Pin(Kept::Temporary));
    }
    match name.name.as_str() {
        // Extensions live in any schema.
        "dblink_connect" | "dblink_connect_u" => {
            return Some(SessionChange::Pin(Kept::Dblink));
        }
        "set_limit" => return Some(SessionChange::Pin(Kept::Limit)),
        _ if !name.may_be_system() => return None,
        _ => {}
    }
    match name.name.as_str() {
        "pg_advisory_lock"
        | "pg_advisory_lock_shared"
        | "pg_try_advisory_lock"
        | "pg_try_advisory_lock_shared" => Some(SessionChange::Pin(Kept::AdvisoryLock)),
        "pg_advisory_unlock" | "pg_advisory_unlock_shared" | "pg_advisory_unlock_all" => {
            Some(SessionChange::LetGo)
        }
        "set_config" => set_config::change_of_call(call),
        "setseed" => Some(SessionChange::Pin(Kept::Seed)),
        // They carry out a text.
        "query_to_xml"
        | "query_to_xmlschema"
        | "query_to_xml_and_xmlschema"
        | "ts_stat"
        | "ts_rewrite" => Some(SessionChange::Taint),
        "pg_create_logical_replication_slot" | "pg_create_physical_replication_slot" => {
            Some(SessionChange::Pin(Kept::ReplicationSlot))
        }
        "pg_replication_origin_session_setup" => Some(SessionChange::Pin(Kept::ReplicationOrigin)),
        // Its name up to PostgreSQL 14, and from 15 on.
        "pg_start_backup" | "pg_backup_start" => Some(SessionChange::Pin(Kept::Backup)),
        _ => None,
    }
}
