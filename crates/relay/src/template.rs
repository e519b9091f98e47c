//! Templates: a statement's text and parameter types, parsed once, and the bounded cache that finds them again.

mod bare_hints;
mod cache;
mod metrics_name;
mod pace;
mod parse_cost;
mod templates;

#[cfg(test)]
mod tests;

pub use bare_hints::without_bare_hints;
pub use metrics_name::{NAME_CHARS_MAX, shortened, text_id};
pub use pace::Pace;
pub use parse_cost::{BYTES_MAX, TOKENS_MAX, Unparsed};
pub use templates::{Simple, TEMPLATES_MAX, Templates};

use paceline_sql::{Effect, Hints, Name, Named, SequenceUse, Statement};
use std::sync::OnceLock;

/// A longer text that only changes rows is passed on as it is: to parse it would hold up others, it is hardly ever
/// the same again, and with so many values it travels with nobody.
pub const BULK_BYTES_MIN: usize = 32 * 1024;

/// Of a longer text only the beginning is looked at, …
pub const LOOKED_AT_BYTES_MAX: usize = 256 * 1024;
/// … this much of it.
const BEGINNING_BYTES: usize = 4 * 1024;

/// The part of a text that is looked at, if that is not all of it.
pub fn beginning_of_long(text: &str) -> Option<&str> {
    let is_long = text.len() > LOOKED_AT_BYTES_MAX;
    is_long.then(|| text.get(..text.floor_char_boundary(BEGINNING_BYTES)))?
}

/// A text with its parameter types.
#[derive(Debug)]
pub struct Template {
    /// Never used twice in a process.
    pub id: u64,
    /// Names the statement on servers: the same, unless every Parse has a statement of its own.
    pub statement_id: u64,
    /// The text, without bare hints; for simple queries with literals taken out where possible.
    pub text: String,
    /// Number and OIDs of declared parameter types, as in `Parse`.
    pub types: Vec<u8>,
    /// `None`: the parser refuses it, or is not asked (see [`BULK_BYTES_MIN`] and [`TOKENS_MAX`]).
    pub statement: Option<Statement>,
    /// Those of its last statement, as far as they are known.
    hints: Hints,
    /// The parser is not asked.
    guessed_effect: Option<GuessedEffect>,
    /// Paceline itself may answer it.
    local_show: bool,
    /// How quickly it was answered when it ran alone.
    pub pace: Pace,
    /// What metrics call it, once they do.
    pub(crate) name: OnceLock<String>,
}

/// What a text does to its session of which the parser is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuessedEffect {
    /// Not more than reading or changing rows does.
    Rows,
    /// It may set something that only its text tells.
    Sets,
    /// Something else.
    Other,
}

impl GuessedEffect {
    fn of(text: &str) -> Self {
        if paceline_sql::only_changes_rows(text) || paceline_sql::only_reads_rows(text) {
            return Self::Rows;
        }
        match paceline_sql::may_set(text) {
            true => Self::Sets,
            false => Self::Other,
        }
    }

    /// Of a text of which only the beginning is looked at.
    fn of_beginning(beginning: &str) -> Self {
        match paceline_sql::beginning_may_set(beginning) {
            true => Self::Sets,
            false => Self::Other,
        }
    }
}

impl Template {
    /// The hints of its last statement; of a text that is not looked at, those at its beginning.
    pub fn hints(&self) -> Hints {
        self.hints
    }

    /// What it means depends on when it was parsed.
    pub fn names_moment(&self) -> bool {
        self.statement.as_ref().is_some_and(|s| s.names_moment)
    }

    /// What it means depends on when, or under which settings, it is parsed.
    pub fn is_parsed_alone(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|s| s.names_moment || s.has_escapes)
    }

    /// What it does with a prepared statement that it calls by name.
    pub fn named(&self) -> Option<&Named> {
        self.statement.as_ref()?.named.as_ref()
    }

    /// What it may do with sequences, by its text.
    pub fn sequences(&self) -> SequenceUse {
        let statement = self.statement.as_ref();
        statement.map_or(SequenceUse::ANY, |statement| statement.sequences)
    }

    /// Its text reads the last number of a sequence.
    pub fn reads_numbers(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_none_or(|statement| statement.reads_numbers)
    }

    /// It may show `idle_session_timeout`, as far as its text tells.
    pub fn shows_idle_timeout(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|statement| statement.shows_idle_timeout)
    }

    /// It calls functions that may be a user's own, or nobody knows.
    pub fn calls_functions(&self) -> bool {
        let statement = self.statement.as_ref();
        let own = |name: &Name| {
            // Both are told by their arguments.
            let settings = ["set_config", "current_setting"].contains(&name.name.as_str());
            match name.schema.as_deref() {
                None => !settings,
                Some(schema) => schema != "pg_catalog",
            }
        };
        statement.is_none_or(|statement| statement.functions.iter().any(own))
    }

    /// A transaction block may be open after it.
    pub fn may_begin(&self) -> bool {
        self.statement.as_ref().is_none_or(|s| s.begins)
    }

    /// The database in which no other session may be, else it fails.
    pub fn exclusive(&self) -> Option<&str> {
        self.statement.as_ref()?.exclusive.as_deref()
    }

    /// It is not looked at, and only reads or changes rows (see [`BULK_BYTES_MIN`] and [`TOKENS_MAX`]).
    pub fn is_bulk(&self) -> bool {
        self.guessed_effect == Some(GuessedEffect::Rows)
    }

    /// It is not looked at, and may set something for its session.
    pub fn may_set_untracked(&self) -> bool {
        self.guessed_effect == Some(GuessedEffect::Sets)
    }

    /// Paceline itself may answer it (`SHOW hotspot…`).
    pub fn is_local_show(&self) -> bool {
        self.local_show
    }

    /// What it does.
    pub fn effect(&self) -> Option<&Effect> {
        self.statement.as_ref().map(|s| &s.effect)
    }
}
