//! Effects of SET, RESET and `set_config()` on settings.

use super::change::{SEARCH_PATH, SessionChange};
use super::meaning::{decides_meaning, is_custom_option};
use super::pin_reason::PinReason;
use crate::name::is_temporary_schema;
use crate::parser;
use crate::quote::quote_literal;
use crate::tree::Record;
use pg_query::NodeEnum;
use pg_query::protobuf::{VariableSetKind, VariableSetStmt};

/// Whether a setting lasts until the end of the transaction, however it is set.
pub(super) fn ends_with_transaction(name: &str) -> bool {
    matches!(
        name,
        "transaction_isolation" | "transaction_read_only" | "transaction_deferrable"
    )
}

/// The changes of SET and RESET in all their forms.
pub(super) fn changes_of_set(set: &VariableSetStmt) -> Vec<SessionChange> {
    let name = set.name.to_ascii_lowercase();
    // The parser accepts a parameter, PostgreSQL does not: it is in place of a literal, which is not known.
    let is_parameter = |arg: &pg_query::Node| matches!(arg.node, Some(NodeEnum::ParamRef(_)));
    if name == SEARCH_PATH && set.args.iter().any(is_parameter) {
        return vec![SessionChange::SetUnknown { name }];
    }
    if set.is_local {
        return changes_of_local(&name, &values_of(set));
    }
    let change = match set.kind() {
        VariableSetKind::VarResetAll => SessionChange::ResetAll,
        VariableSetKind::VarSetMulti if name == "session characteristics" => {
            return characteristics(set);
        }
        // `SET TRANSACTION`.
        VariableSetKind::VarSetMulti => return Vec::new(),
        _ if ends_with_transaction(&name) => return Vec::new(),
        VariableSetKind::VarReset | VariableSetKind::VarSetDefault => SessionChange::Reset { name },
        VariableSetKind::VarSetValue => return changes_of_value(set, name),
        VariableSetKind::VarSetCurrent => SessionChange::SetUnknown { name },
        _ => SessionChange::Anything,
    };
    vec![change]
}

/// The changes by a value that ends with the transaction.
pub(super) fn changes_of_local(name: &str, values: &[String]) -> Vec<SessionChange> {
    let known = is_custom_option(name).then(|| SessionChange::OptionDefined {
        name: name.to_owned(),
    });
    let seed = (name == SEED).then_some(SessionChange::Pin(PinReason::Seed));
    let also = temporaries(name, values);
    let lasting = known.into_iter().chain(seed).chain(also);
    lasting.chain(local_settings(name)).collect()
}

/// The change of the meaning of later statements of the transaction.
pub(super) fn local_settings(name: &str) -> Option<SessionChange> {
    decides_meaning(name).then_some(SessionChange::LocalSettings)
}

/// SQL that defines a customized option with its default value.
pub fn define_option_sql(name: &str) -> String {
    let name = quote_literal(name);
    format!(
        "SELECT pg_catalog.set_config({name}, '', true) WHERE pg_catalog.current_setting({name}, true) IS NULL"
    )
}

/// The setting that initializes the random number generator of the session.
pub(super) const SEED: &str = "seed";

/// The changes of `SET SESSION CHARACTERISTICS AS TRANSACTION …`: it sets the defaults of the characteristics.
fn characteristics(set: &VariableSetStmt) -> Vec<SessionChange> {
    let one = |arg: &pg_query::Node| {
        let Some(NodeEnum::DefElem(mode)) = &arg.node else {
            return SessionChange::Anything;
        };
        let value = mode.arg.as_deref().map(Record::of);
        let value = value.as_ref().and_then(|value| value.record("val"));
        let text = match value {
            Some(value) if value.kind == "Integer" && value.number("ival") == 0 => "off",
            Some(value) if value.kind == "Integer" => "on",
            Some(value) if !value.text("sval").is_empty() => value.text("sval"),
            _ => return SessionChange::Anything,
        };
        let name = format!("default_{}", mode.defname);
        SessionChange::Set {
            sql: format!("SET {name} TO {}", quote_literal(text)),
            name,
        }
    };
    set.args.iter().map(one).collect()
}

/// The constants in `SET name TO value, …`.
fn values_of(set: &VariableSetStmt) -> Vec<String> {
    let constants = set.args.iter().filter(|arg| {
        let constant = &arg.node;
        matches!(constant, Some(NodeEnum::AConst(_)))
    });
    constants
        .filter_map(|arg| Some(Record::of(arg).record("val")?.text("sval").to_owned()))
        .collect()
}

/// The changes of `SET name TO value`.
fn changes_of_value(set: &VariableSetStmt, name: String) -> Vec<SessionChange> {
    let values = values_of(set);
    let also = temporaries(&name, &values).or_else(|| resolved_at_set(&name));
    let change = special(&name, &values).unwrap_or_else(|| match text_of_set(set) {
        Some(sql) => SessionChange::Set { name, sql },
        None => SessionChange::SetUnknown { name },
    });
    [change].into_iter().chain(also).collect()
}

/// PostgreSQL resolves the value when it is set, with the search path of that time, and stores the result.
fn resolved_at_set(name: &str) -> Option<SessionChange> {
    (name == "default_text_search_config").then(|| SessionChange::SetUnknown {
        name: name.to_owned(),
    })
}

/// The change of a search path with the temporary schema. Names without a schema then may refer to objects that only
/// this session has: new objects, if the schema is the first one; otherwise existing objects that no earlier schema
/// contains.
fn temporaries(name: &str, values: &[String]) -> Option<SessionChange> {
    if name != SEARCH_PATH {
        return None;
    }
    let mut schemas = values.iter().flat_map(|value| value.split(','));
    let position =
        schemas.position(|schema| is_temporary_schema(schema.trim().trim_matches('"')))?;
    Some(match position {
        0 => SessionChange::Pin(PinReason::Temporary),
        _ => SessionChange::Anything,
    })
}

/// Values with a special meaning.
fn special(name: &str, values: &[String]) -> Option<SessionChange> {
    match name {
        // Unlike `RESET ROLE`, which returns to the role at the start of the session.
        "role" if values.iter().any(|value| value == "none") => Some(SessionChange::Set {
            name: name.to_owned(),
            sql: "SET ROLE NONE".to_owned(),
        }),
        // After setting a seed, only this server connection returns the rest of the sequence.
        SEED => Some(SessionChange::Pin(PinReason::Seed)),
        _ => None,
    }
}

/// SQL that sets the same value again. `None` if the deparsed text may mean something else.
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

/// SQL that sets a setting of any type to a value.
pub fn set_config_sql(name: &str, value: &str) -> String {
    format!(
        "SELECT pg_catalog.set_config({}, {}, false)",
        quote_literal(name),
        quote_literal(value)
    )
}

/// The changes when `set_config` sets a setting of the session to this value.
pub fn set_to(name: &str, value: Option<&str>) -> Vec<SessionChange> {
    if ends_with_transaction(name) {
        return Vec::new();
    }
    let Some(value) = value else {
        let name = name.to_owned();
        return vec![SessionChange::Reset { name }];
    };
    let values = [value.to_owned()];
    let also = temporaries(name, &values).or_else(|| resolved_at_set(name));
    let name = name.to_owned();
    let change = special(&name, &values).unwrap_or_else(|| SessionChange::Set {
        sql: set_config_sql(&name, value),
        name,
    });
    [change].into_iter().chain(also).collect()
}
