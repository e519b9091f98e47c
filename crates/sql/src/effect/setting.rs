//! What SET, RESET and `set_config()` do to settings.

use super::kept::Kept;
use super::{SessionChange, is_temporary};
use crate::parser;
use crate::quote_literal;
use crate::tree::Record;
use pg_query::NodeEnum;
use pg_query::protobuf::{VariableSetKind, VariableSetStmt};

/// They last as long as their transaction.
pub(super) const OF_THE_TRANSACTION: [&str; 3] = [
    "transaction_isolation",
    "transaction_read_only",
    "transaction_deferrable",
];

/// SET and RESET in all their forms.
pub(super) fn changes_of_set(set: &VariableSetStmt) -> Vec<SessionChange> {
    let name = set.name.to_ascii_lowercase();
    if set.is_local {
        return changes_of_local(&name, &values_of(set));
    }
    let change = match set.kind() {
        VariableSetKind::VarResetAll => SessionChange::ResetAll,
        VariableSetKind::VarSetMulti if name == "session characteristics" => {
            return characteristics(set);
        }
        // SET TRANSACTION.
        VariableSetKind::VarSetMulti => return Vec::new(),
        _ if OF_THE_TRANSACTION.contains(&name.as_str()) => return Vec::new(),
        VariableSetKind::VarReset | VariableSetKind::VarSetDefault => SessionChange::Reset { name },
        VariableSetKind::VarSetValue => return changes_of_value(set, name),
        VariableSetKind::VarSetCurrent => SessionChange::SetUnknown { name },
        _ => SessionChange::Taint,
    };
    vec![change]
}

/// What lasts of a value that ends with its transaction.
pub(super) fn changes_of_local(name: &str, values: &[String]) -> Vec<SessionChange> {
    let known = is_of_a_user(name).then(|| SessionChange::Known {
        name: name.to_owned(),
    });
    let seed = (name == SEED).then_some(SessionChange::Pin(Kept::Seed));
    let also = temporaries(name, values);
    known.into_iter().chain(seed).chain(also).collect()
}

/// A name that PostgreSQL makes where it does not know it, and never forgets in that session; or one of an extension.
pub fn is_of_a_user(name: &str) -> bool {
    name.contains('.')
}

/// SQL that makes PostgreSQL know such a name. Its value is the default.
pub fn known_sql(name: &str) -> String {
    let name = quote_literal(name);
    format!(
        "SELECT pg_catalog.set_config({name}, '', true) WHERE pg_catalog.current_setting({name}, true) IS NULL"
    )
}

/// The setting that begins a sequence of random numbers.
pub(super) const SEED: &str = "seed";

/// `SET SESSION CHARACTERISTICS AS TRANSACTION …` sets the defaults of what it names.
fn characteristics(set: &VariableSetStmt) -> Vec<SessionChange> {
    let one = |arg: &pg_query::Node| {
        let Some(NodeEnum::DefElem(mode)) = &arg.node else {
            return SessionChange::Taint;
        };
        let value = mode.arg.as_deref().map(Record::of);
        let value = value.as_ref().and_then(|value| value.record("val"));
        let text = match value {
            Some(value) if value.kind == "Integer" && value.number("ival") == 0 => "off",
            Some(value) if value.kind == "Integer" => "on",
            Some(value) if !value.text("sval").is_empty() => value.text("sval"),
            _ => return SessionChange::Taint,
        };
        let name = format!("default_{}", mode.defname);
        SessionChange::Set {
            sql: format!("SET {name} TO {}", quote_literal(text)),
            name,
        }
    };
    set.args.iter().map(one).collect()
}

/// The constants of `SET name TO value, …`.
fn values_of(set: &VariableSetStmt) -> Vec<String> {
    let constants = set.args.iter().filter(|arg| {
        let constant = &arg.node;
        matches!(constant, Some(NodeEnum::AConst(_)))
    });
    constants
        .filter_map(|arg| Some(Record::of(arg).record("val")?.text("sval").to_owned()))
        .collect()
}

/// `SET name TO value`.
fn changes_of_value(set: &VariableSetStmt, name: String) -> Vec<SessionChange> {
    let values = values_of(set);
    let also = temporaries(&name, &values).or_else(|| resolved(&name));
    let change = special(&name, &values).unwrap_or_else(|| match text_of_set(set) {
        Some(sql) => SessionChange::Set { name, sql },
        None => SessionChange::SetUnknown { name },
    });
    [change].into_iter().chain(also).collect()
}

/// PostgreSQL looks up what the value names when it is set, by the search path of that moment, and keeps what it has found.
fn resolved(name: &str) -> Option<SessionChange> {
    (name == "default_text_search_config").then(|| SessionChange::SetUnknown {
        name: name.to_owned(),
    })
}

/// Names without a schema may mean what only this session has: what is made there, if its schema comes first; if others
/// come before it, only where those do not exist.
pub(super) fn temporaries(name: &str, values: &[String]) -> Option<SessionChange> {
    if name != "search_path" {
        return None;
    }
    let mut schemas = values.iter().flat_map(|value| value.split(','));
    let place = schemas.position(|schema| is_temporary(schema.trim().trim_matches('"')))?;
    Some(match place {
        0 => SessionChange::Pin(Kept::Temporary),
        _ => SessionChange::Taint,
    })
}

/// Values that mean something else than a value.
fn special(name: &str, values: &[String]) -> Option<SessionChange> {
    match name {
        // Not what RESET ROLE does, which goes back to the role that the session began with.
        "role" if values.iter().any(|value| value == "none") => Some(SessionChange::Set {
            name: name.to_owned(),
            sql: "SET ROLE NONE".to_owned(),
        }),
        // A seed starts a sequence that only this session's server goes on with.
        SEED => Some(SessionChange::Pin(Kept::Seed)),
        _ => None,
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

/// SQL that sets a setting to a value, whatever its kind.
pub fn set_config_sql(name: &str, value: &str) -> String {
    format!(
        "SELECT pg_catalog.set_config({}, {}, false)",
        quote_literal(name),
        quote_literal(value)
    )
}

/// What changes when a setting is given this value by `set_config`.
pub fn set_to(name: &str, value: Option<&str>) -> Vec<SessionChange> {
    let Some(value) = value else {
        let name = name.to_owned();
        return vec![SessionChange::Reset { name }];
    };
    let values = [value.to_owned()];
    let also = temporaries(name, &values).or_else(|| resolved(name));
    let name = name.to_owned();
    let change = special(&name, &values).unwrap_or_else(|| SessionChange::Set {
        sql: set_config_sql(&name, value),
        name,
    });
    [change].into_iter().chain(also).collect()
}
