//! Functions that an operator declares, as lists in the file: `[[take]]` and `[[group]]`. Whether there are such functions only
//! a database can tell.

use std::ops::RangeInclusive;

use paceline_sql::Name;
use toml::Spanned;
use toml::de::DeValue;

use super::error::Wrong;
use super::file::Reader;
use super::value::{self, ValueError, Written};

/// The lists that declare functions.
pub(super) const LISTS: [&str; 2] = ["take", "group"];

pub(super) const TAKE_KEYS: [&str; 2] = ["function", "limit_argument"];
pub(super) const GROUP_KEYS: [&str; 1] = ["function"];

/// PostgreSQL's own limit for the arguments of a function.
const ARGUMENT: RangeInclusive<usize> = 1..=100;

/// A function, and how calls of it travel together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    /// The function; without a schema, the one that the search path shows.
    pub(crate) function: Name,
    /// What it is declared as.
    pub(crate) role: Role,
}

/// What a function is declared as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// `[[take]]`: it returns rows of a queue that nobody else gets; the number of the argument (from 1) that says how many.
    /// Without one its calls only share a transaction.
    Take {
        /// The number of that argument.
        limit_argument: Option<usize>,
    },
    /// `[[group]]`: its calls share a transaction.
    Group,
}

impl Role {
    /// The argument that says how many rows one call shall take for many; `None`: calls only share a transaction.
    pub(crate) fn limit(self) -> Option<usize> {
        match self {
            Role::Take { limit_argument } => limit_argument,
            Role::Group => None,
        }
    }
}

impl Reader {
    /// Reads `[[take]]` or `[[group]]`.
    pub(super) fn declared(
        &mut self,
        list: &'static str,
        content: &Spanned<DeValue<'_>>,
        known: &mut Vec<Declared>,
    ) {
        let DeValue::Array(items) = content.get_ref() else {
            return self.note(content.span().start, Wrong::NotAList { name: list });
        };
        for item in items.iter() {
            if let DeValue::Table(_) = item.get_ref() {
                self.function(list, item, known);
            } else {
                self.note(item.span().start, Wrong::NotAList { name: list });
            }
        }
    }

    fn function(
        &mut self,
        list: &'static str,
        item: &Spanned<DeValue<'_>>,
        known: &mut Vec<Declared>,
    ) {
        let table = format!("[{list}]");
        let before = self.problems.len();
        let (mut function, mut limit_argument) = (None, None);
        for (key, written) in self.entries(&table, item) {
            match key.get_ref().as_ref() {
                "function" => {
                    let name = self.value("function", written, value::function);
                    function = name.map(|name| (written.span().start, name));
                }
                "limit_argument" if list == "take" => {
                    limit_argument = self.value("limit_argument", written, argument);
                }
                _ if list == "take" => self.unknown_key(key, &table, &TAKE_KEYS),
                _ => self.unknown_key(key, &table, &GROUP_KEYS),
            }
        }
        let Some((at, function)) = function else {
            if self.problems.len() == before {
                self.note(item.span().start, Wrong::NoFunction { table });
            }
            return;
        };
        if known.iter().any(|other| other.function == function) {
            let function = function.to_string();
            return self.note(at, Wrong::DeclaredTwice { function });
        }
        let role = match list {
            "take" => Role::Take { limit_argument },
            _ => Role::Group,
        };
        known.push(Declared { function, role });
    }
}

fn argument(written: Written<'_>) -> Result<usize, ValueError> {
    value::count(written, &ARGUMENT)
}
