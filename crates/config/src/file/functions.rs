//! The lists that declare functions: `[[take]]`, `[[group]]`, `[[replica]]` and `[[primary]]`.

use super::reader::Reader;
use crate::error::ConfigProblem;
use crate::function::{Declared, Role};
use crate::value::{self, ValueError, Written};
use paceline_sql::Name;
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::DeValue;

/// The lists that declare functions.
pub(crate) const LISTS: [&str; 4] = ["take", "group", "replica", "primary"];

pub(crate) const TAKE_KEYS: [&str; 2] = ["function", "limit_argument"];
/// Of the other lists.
pub(crate) const FUNCTION_KEYS: [&str; 1] = ["function"];

/// PostgreSQL's own limit for the arguments of a function.
const ARGUMENT: RangeInclusive<usize> = 1..=100;

/// Reads one of the lists.
pub(super) fn read(
    reader: &mut Reader,
    list: &'static str,
    content: &Spanned<DeValue<'_>>,
    known: &mut Vec<Declared>,
) {
    let DeValue::Array(items) = content.get_ref() else {
        return reader.note(
            content.span().start,
            ConfigProblem::NotAList(list.to_owned()),
        );
    };
    for item in items.iter() {
        if let DeValue::Table(_) = item.get_ref() {
            function(reader, list, item, known);
        } else {
            reader.note(item.span().start, ConfigProblem::NotAList(list.to_owned()));
        }
    }
}

fn function(
    reader: &mut Reader,
    list: &'static str,
    item: &Spanned<DeValue<'_>>,
    known: &mut Vec<Declared>,
) {
    let table = format!("[{list}]");
    let before = reader.problems.len();
    let (mut function, mut limit_argument) = (None, None);
    for (key, written) in reader.entries(&table, item) {
        match key.get_ref().as_ref() {
            "function" => {
                let name = reader.value("function", written, name);
                function = name.map(|name| (written.span().start, name));
            }
            "limit_argument" if list == "take" => {
                limit_argument = reader.value("limit_argument", written, argument);
            }
            _ if list == "take" => reader.unknown_key(key, &table, &TAKE_KEYS),
            _ => reader.unknown_key(key, &table, &FUNCTION_KEYS),
        }
    }
    let Some((at, function)) = function else {
        if reader.problems.len() == before {
            reader.note(item.span().start, ConfigProblem::NoFunction(table));
        }
        return;
    };
    if known.iter().any(|other| other.function == function) {
        let function = function.to_string();
        return reader.note(at, ConfigProblem::DeclaredTwice(function));
    }
    let role = match list {
        "take" => Role::Take { limit_argument },
        "group" => Role::Group,
        "replica" => Role::Replica,
        _ => Role::Primary,
    };
    known.push(Declared { function, role });
}

/// The name of a function, as SQL spells it.
fn name(written: Written<'_>) -> Result<Name, ValueError> {
    let example = "\"name\" or \"schema.name\", without brackets";
    written.parsed("the name of a function", example, Name::parse)
}

fn argument(written: Written<'_>) -> Result<usize, ValueError> {
    value::count(written, &ARGUMENT)
}
