//! The effect of a text: reads, writes, changes of the session, or others.
//!
//! The text alone decides. A user-defined function may have any effect; callers that depend on functions look up
//! [`Statement::functions`](crate::Statement::functions) in the catalog.

mod listening;
mod pin_reason;
mod set_config;
mod setting;
mod shown;
#[cfg(test)]
mod tests;

use pg_query::NodeEnum;
use pg_query::protobuf::{DefElem, DiscardMode, TransactionStmt, TransactionStmtKind};

use crate::name::Name;
use crate::tree::Record;
pub use listening::{Listening, listening_changes, replace_listening};
pub use pin_reason::PinReason;
use set_config::changes_of_plain_calls;
pub use set_config::{Bound, SetConfig};
use setting::changes_of_set;
pub use setting::{define_option_sql, is_custom_option, set_config_sql, set_to};
pub use shown::IDLE_SESSION_TIMEOUT;
pub(crate) use shown::shows;

/// The effect of a text on data and session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// One SELECT, VALUES or TABLE without locking clause, INTO, or a CTE that changes data.
    Read,
    /// One INSERT, UPDATE, DELETE or MERGE, or a SELECT with a locking clause or a CTE that changes data.
    Write,
    /// Another text that does not change the session: an empty text, DDL, transaction control, COPY, SHOW, more than
    /// one statement, …
    Other,
    /// The text changes the session: all changes in order. Other effects of the text are not listed.
    Session(Vec<SessionChange>),
}

/// One change of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionChange {
    /// A setting receives a value that outlasts the transaction.
    Set {
        /// The setting, in lower case. `SET NAMES` sets `client_encoding`, `SET TIME ZONE` sets `timezone`, `SET
        /// SESSION CHARACTERISTICS` sets the defaults of the characteristics.
        name: String,
        /// SQL that sets the same value again.
        sql: String,
    },
    /// A call of `set_config` whose parameters determine the change.
    SetTo(SetConfig),
    /// A setting may have another value, which must be read from the server after the transaction.
    SetUnknown {
        /// The setting, in lower case.
        name: String,
    },
    /// A setting returns to its default.
    Reset {
        /// The setting, in lower case.
        name: String,
    },
    /// The session knows this customized option from now on, although its value ends with the transaction.
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
    /// Session state that exists only on this server connection from now on.
    Pin(PinReason),
    /// The channels of the session change when its transaction commits.
    Listening(Listening),
    /// Session state that exists only on this server connection may have ended.
    MayUnpin,
    /// The statement may change the session in a way that its text does not show.
    Taint,
    /// The statement calls functions that may change the session. The catalog has to be checked; the parser does not
    /// return this variant.
    Called,
    /// `SAVEPOINT name`
    Savepoint {
        /// Name of the savepoint.
        name: String,
    },
    /// `RELEASE name`
    Release {
        /// Name of the savepoint.
        name: String,
    },
    /// `ROLLBACK TO name`
    RollbackTo {
        /// Name of the savepoint.
        name: String,
    },
    /// The following changes belong to the next statement of the text.
    Next,
}

impl SessionChange {
    /// Whether the session has no sequence numbers after the change.
    pub fn discards_sequences(&self) -> bool {
        matches!(self, Self::DiscardSequences | Self::DiscardAll)
    }

    /// Whether the session has no prepared statements after the change.
    pub fn drops_statements(&self) -> bool {
        matches!(self, Self::DeallocateAll | Self::DiscardAll)
    }
}

/// DECLARE's option bit for WITH HOLD (`CURSOR_OPT_HOLD`).
const CURSOR_OPT_HOLD: i32 = 0x0020;

/// The combined effect of the statements of a text.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Effect {
    let mut changes = Vec::new();
    for (index, statement) in statements.iter().enumerate() {
        changes.extend((index > 0).then_some(SessionChange::Next));
        changes.extend(each_once(session_changes(statement)));
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
    use SessionChange::{Called, MayUnpin, Pin, Taint};
    let mut seen = Vec::new();
    changes.retain(|change| {
        let once = matches!(change, Pin(_) | MayUnpin | Taint | Called);
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
    let begins = |statement: &NodeEnum| match statement {
        NodeEnum::TransactionStmt(control) => {
            matches!(control.kind(), TransStmtBegin | TransStmtStart)
        }
        _ => false,
    };
    statements.iter().any(begins)
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

/// The changes of one statement, by its kind and the functions it calls.
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
            return listening
                .map(SessionChange::Listening)
                .into_iter()
                .collect();
        }
        NodeEnum::PrepareStmt(_) => SessionChange::Pin(PinReason::Prepared),
        NodeEnum::LoadStmt(_) => SessionChange::Pin(PinReason::Library),
        NodeEnum::DeclareCursorStmt(cursor) if cursor.options & CURSOR_OPT_HOLD != 0 => {
            SessionChange::Pin(PinReason::Cursor)
        }
        NodeEnum::DoStmt(_) | NodeEnum::CallStmt(_) => SessionChange::Taint,
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

/// The change of a node anywhere in a statement.
fn change_of_node(node: &Record) -> Option<SessionChange> {
    match node.kind {
        "FuncCall" => change_of_call(node),
        "RangeVar" if node.text("relpersistence") == "t" => {
            Some(SessionChange::Pin(PinReason::Temporary))
        }
        "RangeVar" if is_temporary(node.text("schemaname")) => {
            Some(SessionChange::Pin(PinReason::Temporary))
        }
        // A rule of this view calls `set_config`.
        "UpdateStmt"
            if node
                .record("relation")
                .is_some_and(|target| target.text("relname") == "pg_settings") =>
        {
            Some(SessionChange::Taint)
        }
        // Other nodes with qualified names: neither a table, a constant nor a column.
        "AConst" | "ColumnRef" => None,
        _ => has_temporary_name(node).then_some(SessionChange::Pin(PinReason::Temporary)),
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

/// The change of a function call, by the names of functions of PostgreSQL and of some extensions.
fn change_of_call(call: &Record) -> Option<SessionChange> {
    let name = Name::from_parts(call.names("funcname"))?;
    if name.schema.as_deref().is_some_and(is_temporary) {
        return Some(SessionChange::Pin(PinReason::Temporary));
    }
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
            Some(SessionChange::MayUnpin)
        }
        "set_config" => set_config::change_of_call(call),
        "setseed" => Some(SessionChange::Pin(PinReason::Seed)),
        // These functions execute a text.
        "query_to_xml"
        | "query_to_xmlschema"
        | "query_to_xml_and_xmlschema"
        | "ts_stat"
        | "ts_rewrite" => Some(SessionChange::Taint),
        "pg_create_logical_replication_slot" | "pg_create_physical_replication_slot" => {
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
