//! Effects of `set_config` calls. They depend on the arguments, and on whether the call is executed exactly once.

#[cfg(test)]
mod tests;

use super::change::{Argument, SEARCH_PATH, SessionChange, SetConfig};
use super::meaning::is_custom_option;
use super::pin_reason::PinReason;
use super::setting::{SEED, changes_of_local, ends_with_transaction, local_settings, set_to};
use crate::name::Name;
use crate::tree::Record;
use pg_query::NodeEnum;
use std::collections::HashMap;

/// The value of a parameter: text, or a boolean in binary format; `None` is NULL.
pub type Bound<'a> = Option<&'a [u8]>;

/// The type of an argument. A parameter of another type is converted, so that its bytes say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentType {
    /// `text`.
    Text,
    /// `boolean`.
    Boolean,
}

/// Returns the value of a parameter if it is of this type, or `None` if it is unknown.
type Values<'v, 'a> = &'v dyn Fn(usize, ArgumentType) -> Option<Bound<'a>>;

impl Argument {
    /// The value; `None` if it is unknown.
    fn resolve<'a>(&'a self, bound: Values<'_, 'a>, wanted: ArgumentType) -> Option<Bound<'a>> {
        match self {
            Self::Constant(text) => Some(text.as_deref().map(str::as_bytes)),
            Self::Parameter(number) => bound(*number, wanted),
            Self::Computed => None,
        }
    }

    fn constant(&self) -> Option<&str> {
        match self {
            Self::Constant(text) => text.as_deref(),
            Self::Parameter(_) | Self::Computed => None,
        }
    }
}

impl SetConfig {
    /// The changes with these parameter values. `bound` returns the value of a parameter of this type, or `None` if it is unknown.
    pub fn with<'a>(
        &'a self,
        bound: &dyn Fn(usize, ArgumentType) -> Option<Bound<'a>>,
    ) -> Vec<SessionChange> {
        use ArgumentType::{Boolean, Text};
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).ok();
        let name = match self.name.resolve(bound, Text) {
            // PostgreSQL rejects NULL.
            Some(None) => return Vec::new(),
            Some(Some(name)) => text(name).map(str::to_ascii_lowercase),
            None => None,
        };
        let Some(name) = name else {
            return vec![SessionChange::Pin(PinReason::Setting)];
        };
        let value = match self.value.resolve(bound, Text) {
            Some(None) => Some(None),
            Some(Some(value)) => text(value).map(Some),
            None => None,
        };
        let local = match self.local.resolve(bound, Boolean) {
            Some(None) => Some(None),
            Some(Some(local)) => read_bool(local).map(Some),
            None => None,
        };
        of_call(name, value, local)
    }

    /// The change if the parameter values are unknown.
    pub fn unbound(&self) -> Option<SessionChange> {
        Some(match self.name.constant() {
            Some(name) if ends_with_transaction(&name.to_ascii_lowercase()) => return None,
            // At the end of the transaction nothing shows whether the path had the temporary schema.
            Some(name) if name.eq_ignore_ascii_case(SEARCH_PATH) && self.is_local() => {
                SessionChange::PathUnknown
            }
            Some(name) if name.eq_ignore_ascii_case(SEED) => SessionChange::Pin(PinReason::Seed),
            Some(name) => SessionChange::SetUnknown {
                name: name.to_ascii_lowercase(),
            },
            None => SessionChange::Pin(PinReason::Setting),
        })
    }
}

/// The changes of a call. An outer `None` is an unknown argument; NULL for `local` counts as false.
fn of_call(
    name: String,
    value: Option<Option<&str>>,
    local: Option<Option<bool>>,
) -> Vec<SessionChange> {
    match (local, value) {
        _ if ends_with_transaction(&name) => Vec::new(),
        _ if name == SEED => vec![SessionChange::Pin(PinReason::Seed)],
        // NULL is the default.
        (Some(Some(true)), None | Some(None)) if name == SEARCH_PATH => {
            vec![SessionChange::PathUnknown]
        }
        (Some(Some(true)), value) => {
            let values = [value.flatten().unwrap_or_default().to_owned()];
            changes_of_local(&name, &values)
        }
        (Some(_), Some(value)) => set_to(&name, value),
        _ => vec![SessionChange::SetUnknown { name }],
    }
}

fn is_true(argument: &Argument) -> bool {
    argument
        .constant()
        .and_then(|text| read_bool(text.as_bytes()))
        == Some(true)
}

/// Reads a boolean as PostgreSQL does; `None` for other values.
fn read_bool(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0] => return Some(false),
        [1] => return Some(true),
        _ => {}
    }
    let text = std::str::from_utf8(bytes).ok()?.trim().to_ascii_lowercase();
    let is = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "o" => None,
        "1" => Some(true),
        "0" => Some(false),
        _ if is("true") || is("yes") || is("on") => Some(true),
        _ if is("false") || is("no") || is("off") => Some(false),
        _ => None,
    }
}

/// The changes of `SELECT set_config(…)[, …]` if the other columns call no function that changes the session. Without
/// FROM and other clauses each call is executed exactly once.
pub(super) fn changes_of_plain_calls(statement: &NodeEnum) -> Option<Vec<SessionChange>> {
    let NodeEnum::SelectStmt(select) = statement else {
        return None;
    };
    let bare = pg_query::protobuf::SelectStmt {
        target_list: select.target_list.clone(),
        limit_option: select.limit_option,
        op: select.op,
        ..Default::default()
    };
    if **select != bare || select.target_list.is_empty() {
        return None;
    }
    let targets: Vec<Record> = select.target_list.iter().map(Record::of).collect();
    let values = targets.iter().map(|target| target.record("val"));
    let changes: Option<Vec<_>> = values.map(|value| changes_of_target(value?)).collect();
    let changes: Vec<SessionChange> = changes?.into_iter().flatten().collect();
    Some(changes)
}

/// The changes of a result column; `None` if the text does not show all of them.
fn changes_of_target(value: &Record) -> Option<Vec<SessionChange>> {
    match value.kind {
        "AConst" | "ParamRef" => Some(Vec::new()),
        "TypeCast" => changes_of_target(value.record("arg")?),
        "FuncCall" if is_call(value, "current_setting") => {
            let constants = value.list("args").all(|argument| argument.kind == "AConst");
            constants.then(Vec::new)
        }
        "FuncCall" if is_call(value, "set_config") => {
            let call = arguments(value)?;
            Some(
                match call.name.constant().is_some() && call.has_constants() {
                    true => call.with(&|_, _| None),
                    false => vec![SessionChange::SetTo(call)],
                },
            )
        }
        _ => None,
    }
}

impl SetConfig {
    /// Whether the value certainly ends with the transaction.
    fn is_local(&self) -> bool {
        is_true(&self.local)
    }

    fn has_constants(&self) -> bool {
        let all = [&self.name, &self.value, &self.local];
        all.iter()
            .all(|argument| matches!(argument, Argument::Constant(_)))
    }
}

/// The changes of a `set_config` call anywhere in a statement. It may be executed any number of times, or its value
/// may be computed.
pub(super) fn changes_of_call(call: &Record) -> Vec<SessionChange> {
    let argument = |place: Place| argument_at(call, place).unwrap_or(Argument::Computed);
    let [name, value, local] = PLACES.map(argument);
    if is_true(&local) {
        return changes_of_local_call(SetConfig { name, value, local });
    }
    vec![match name.constant().map(str::to_ascii_lowercase) {
        Some(name) if ends_with_transaction(&name) => return Vec::new(),
        Some(name) if name == SEED => SessionChange::Pin(PinReason::Seed),
        Some(name) => SessionChange::SetUnknown { name },
        None => SessionChange::Pin(PinReason::Setting),
    }]
}

/// The changes of such a call whose value ends with the transaction. An option that it defines, and objects that are created in a
/// temporary schema, last for the session.
fn changes_of_local_call(call: SetConfig) -> Vec<SessionChange> {
    let name = match &call.name {
        Argument::Parameter(_) => return vec![SessionChange::SetTo(call)],
        Argument::Computed => return vec![SessionChange::PathUnknown],
        Argument::Constant(Some(name)) => name.to_ascii_lowercase(),
        // PostgreSQL rejects NULL.
        Argument::Constant(None) => return Vec::new(),
    };
    match (name.as_str(), call.value) {
        (SEED, _) => vec![SessionChange::Pin(PinReason::Seed)],
        (SEARCH_PATH, Argument::Constant(path)) => changes_of_local(&name, &Vec::from_iter(path)),
        (SEARCH_PATH, value @ Argument::Parameter(_)) => {
            vec![SessionChange::SetTo(SetConfig { value, ..call })]
        }
        (SEARCH_PATH, Argument::Computed) => vec![SessionChange::PathUnknown],
        _ if is_custom_option(&name) => vec![SessionChange::SetUnknown { name }],
        _ => Vec::from_iter(local_settings(&name)),
    }
}

fn is_call(call: &Record, function: &str) -> bool {
    let name = Name::from_parts(call.names("funcname"));
    name.is_some_and(|name| name.name == function && name.may_be_system())
}

/// The arguments of a call without special syntax, if the text shows all of them.
fn arguments(call: &Record) -> Option<SetConfig> {
    if call.list("args").count() != 3 {
        return None;
    }
    let [name, value, local] = PLACES.map(|place| argument_at(call, place));
    Some(SetConfig {
        name: name?,
        value: value?,
        local: local?,
    })
}

/// Position, name and type of an argument.
type Place = (usize, &'static str, ArgumentType);

const PLACES: [Place; 3] = [
    (0, "setting_name", ArgumentType::Text),
    (1, "new_value", ArgumentType::Text),
    (2, "is_local", ArgumentType::Boolean),
];

fn argument_at(call: &Record, (position, name, wanted): Place) -> Option<Argument> {
    of_argument(argument(call, position, name)?, wanted)
}

/// The argument with a name, or at a position if it has no name.
fn argument<'a>(call: &'a Record, position: usize, name: &str) -> Option<&'a Record> {
    let mut named = call
        .list("args")
        .filter(|argument| argument.kind == "NamedArgExpr");
    if let Some(found) = named.find(|argument| argument.text("name") == name) {
        return found.record("arg");
    }
    let found = call.list("args").nth(position)?;
    (found.kind != "NamedArgExpr").then_some(found)
}

/// A constant or a parameter, also with a cast that does not change it.
fn of_argument(node: &Record, wanted: ArgumentType) -> Option<Argument> {
    match (node.kind, wanted) {
        ("ParamRef", _) => Some(Argument::Parameter(number_of(node)?)),
        ("TypeCast", _) if cast_to(node) == Some(wanted) => {
            of_argument(node.record("arg")?, wanted)
        }
        // A boolean is the same before and after it was text.
        ("TypeCast", ArgumentType::Boolean) if cast_to(node) == Some(ArgumentType::Text) => {
            of_argument(node.record("arg")?, wanted)
        }
        ("AConst", _) => constant(node),
        _ => None,
    }
}

fn number_of(parameter: &Record) -> Option<usize> {
    usize::try_from(parameter.number("number")).ok()
}

/// Parameters that are used elsewhere, too, or as arguments of both types, may have another type than the arguments: their values count as
/// computed.
pub(super) fn distrust(changes: &mut [SessionChange], tree: &Record) {
    let calls = changes.iter_mut().filter_map(|change| match change {
        SessionChange::SetTo(call) => Some(call),
        _ => None,
    });
    let mut calls = calls.peekable();
    if calls.peek().is_none() {
        return;
    }
    let mut uses: HashMap<usize, ParameterUses> = HashMap::new();
    tree.walk(&mut |node| {
        if node.kind == "ParamRef"
            && let Some(number) = number_of(node)
        {
            uses.entry(number).or_default().all += 1;
        }
        if node.kind != "FuncCall" || !is_call(node, "set_config") {
            return;
        }
        for place in PLACES {
            if let Some(Argument::Parameter(number)) = argument_at(node, place) {
                let uses = uses.entry(number).or_default();
                match place.2 {
                    ArgumentType::Text => uses.as_text += 1,
                    ArgumentType::Boolean => uses.as_boolean += 1,
                }
            }
        }
    });
    for call in calls {
        for argument in [&mut call.name, &mut call.value, &mut call.local] {
            let certain = match argument {
                Argument::Parameter(number) => {
                    uses.get(number).is_some_and(ParameterUses::are_of_one_type)
                }
                Argument::Constant(_) | Argument::Computed => true,
            };
            if !certain {
                *argument = Argument::Computed;
            }
        }
    }
}

/// How often a statement uses a parameter.
#[derive(Default)]
struct ParameterUses {
    all: usize,
    as_text: usize,
    as_boolean: usize,
}

impl ParameterUses {
    fn are_of_one_type(&self) -> bool {
        self.as_text == self.all || self.as_boolean == self.all
    }
}

fn constant(node: &Record) -> Option<Argument> {
    if node.number("isnull") != 0 {
        return Some(Argument::Constant(None));
    }
    let value = node.record("val")?;
    let text = match value.kind {
        "String" => value.text("sval"),
        "Boolean" if value.number("boolval") != 0 => "true",
        "Boolean" => "false",
        _ => return None,
    };
    Some(Argument::Constant(Some(text.to_owned())))
}

/// The type of a cast.
fn cast_to(node: &Record) -> Option<ArgumentType> {
    let cast = node.record("type_name")?;
    let parts = cast.names("names");
    let name = match parts.as_slice() {
        [schema, name] if schema == "pg_catalog" => name,
        [name] => name,
        _ => return None,
    };
    let is_array = cast.list("array_bounds").count() > 0;
    match name.as_str() {
        _ if is_array => None,
        "text" => Some(ArgumentType::Text),
        "bool" => Some(ArgumentType::Boolean),
        _ => None,
    }
}
