//! Templates: the texts of statements with their parameter types, parsed once.

mod bare_hints;
mod cache;
mod literals;
mod metrics_name;
mod pace;
mod parse_cost;
mod recent;
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

/// A longer text that only changes rows is relayed without being parsed: parsing would delay other clients, the text rarely
/// repeats, and with so many values it cannot join a group.
pub const BULK_BYTES_MIN: usize = 32 * 1024;

/// Of a longer text Paceline reads only the beginning.
pub const LOOKED_AT_BYTES_MAX: usize = 256 * 1024;
/// Number of bytes that Paceline reads of such a text.
const BEGINNING_BYTES: usize = 4 * 1024;

/// The beginning of a text that is longer than [`LOOKED_AT_BYTES_MAX`].
pub fn beginning_of_long(text: &str) -> Option<&str> {
    let is_long = text.len() > LOOKED_AT_BYTES_MAX;
    is_long.then(|| text.get(..text.floor_char_boundary(BEGINNING_BYTES)))?
}

/// A text with its parameter types.
#[derive(Debug)]
pub struct Template {
    /// Unique in the process.
    pub id: u64,
    /// Identifies the statement on servers. The same as `id`, unless each `Parse` needs a statement of its own.
    pub statement_id: u64,
    /// The text without bare hints and without the comment that passes the context of a trace. In simple queries, parameters replace
    /// literals where possible.
    pub text: String,
    /// Number and OIDs of the declared parameter types, as in `Parse`.
    pub types: Vec<u8>,
    /// `None` if the parser rejects the text, or the text is too long to be parsed (see [`BULK_BYTES_MIN`] and
    /// [`TOKENS_MAX`]).
    pub statement: Option<Statement>,
    /// The hints of the last statement, as far as known.
    hints: Hints,
    /// The possible effect of a text that is too long to be parsed.
    guessed_effect: Option<GuessedEffect>,
    /// Whether Paceline answers the text.
    local_show: bool,
    /// The time in which PostgreSQL answers its requests.
    pub pace: Pace,
    /// The name in metrics, made on first use.
    pub(crate) name: OnceLock<String>,
}

/// The possible effect on the session of a text that is too long to be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuessedEffect {
    /// No more than statements that read or change rows.
    Rows,
    /// It may change settings, and only its text shows which.
    Sets,
    /// Anything else.
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

    /// For a text of which Paceline reads only the beginning.
    fn of_beginning(beginning: &str) -> Self {
        match paceline_sql::beginning_may_set(beginning) {
            true => Self::Sets,
            false => Self::Other,
        }
    }
}

impl Template {
    /// The hints of the last statement. If the text is not parsed, the hints at its beginning.
    pub fn hints(&self) -> Hints {
        self.hints
    }

    /// Whether the meaning of the text depends on the time of its analysis (`'now'::timestamptz`).
    pub fn depends_on_parse_time(&self) -> bool {
        self.statement
            .as_ref()
            .is_some_and(|s| s.depends_on_parse_time)
    }

    /// Whether the meaning of the text depends on the time of its analysis, or on settings.
    pub fn is_parsed_alone(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|s| s.depends_on_parse_time || s.has_escapes)
    }

    /// The use of prepared statements by name.
    pub fn named(&self) -> Option<&Named> {
        self.statement.as_ref()?.named.as_ref()
    }

    /// The possible use of sequences by the text.
    pub fn sequences(&self) -> SequenceUse {
        let statement = self.statement.as_ref();
        statement.map_or(SequenceUse::ANY, |statement| statement.sequences)
    }

    /// Whether the text reads the last value of a sequence.
    pub fn reads_numbers(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_none_or(|statement| statement.reads_numbers)
    }

    /// Whether the text may return `idle_session_timeout`.
    pub fn shows_idle_timeout(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|statement| statement.shows_idle_timeout)
    }

    /// Whether the text calls functions that may be user-defined, or may do so.
    pub fn calls_functions(&self) -> bool {
        let statement = self.statement.as_ref();
        let own = |name: &Name| {
            // The arguments of these functions determine what they do.
            let settings = ["set_config", "current_setting"].contains(&name.name.as_str());
            match name.schema.as_deref() {
                None => !settings,
                Some(schema) => schema != "pg_catalog",
            }
        };
        statement.is_none_or(|s| {
            s.functions.iter().any(own)
                || !s.value_fields.is_empty()
                || !s.function_fields.is_empty()
        })
    }

    /// Whether the text reads, locks rows at most, and calls no function; or evaluates nothing, such as BEGIN. (The analysis by the
    /// catalog knows more.)
    pub fn only_reads(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|s| {
            !s.sequences.draws || (s.effect == Effect::Read && s.functions.is_empty())
        })
    }

    /// Whether a transaction block may be open after the text.
    pub fn may_begin(&self) -> bool {
        self.statement.as_ref().is_none_or(|s| s.begins)
    }

    /// Whether the text fetches from a cursor by name, which may be a portal of the extended protocol.
    pub fn fetches(&self) -> bool {
        self.statement.as_ref().is_some_and(|s| s.fetches)
    }

    /// Whether the text may create an object without calling a function.
    pub fn may_create(&self) -> bool {
        match &self.statement {
            Some(statement) => statement.may_create,
            None => !self.is_bulk(),
        }
    }

    /// Whether the text may call functions that may be user-defined: also if it has names in positions of a field of a row.
    pub fn may_call_functions(&self) -> bool {
        let has_fields = |statement: &Statement| !statement.fields.is_empty();
        self.calls_functions() || self.statement.as_ref().is_some_and(has_fields)
    }

    /// The database that must have no other session while the text runs.
    pub fn exclusive(&self) -> Option<&str> {
        self.statement.as_ref()?.exclusive.as_deref()
    }

    /// Whether the text is not parsed, and only reads or changes rows (see [`BULK_BYTES_MIN`] and [`TOKENS_MAX`]).
    pub fn is_bulk(&self) -> bool {
        self.guessed_effect == Some(GuessedEffect::Rows)
    }

    /// Whether the text is not parsed, and may change a setting of its session.
    pub fn may_set_untracked(&self) -> bool {
        self.guessed_effect == Some(GuessedEffect::Sets)
    }

    /// Whether the text is one statement that only reads or changes rows, and that servers receive as it is.
    pub fn only_uses_rows(&self) -> bool {
        let is_single = self.statement.as_ref().is_some_and(|s| s.statements == 1);
        is_single
            && matches!(self.effect(), Some(Effect::Read | Effect::Write))
            && self.hints == Hints::default()
            && self.named().is_none()
            && !self.shows_idle_timeout()
            && !self.local_show
    }

    /// Whether the text is one write that returns no rows.
    pub fn returns_no_rows(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|statement| statement.returns_no_rows)
    }

    /// Whether Paceline may answer the text (`SHOW hotspot…`).
    pub fn is_local_show(&self) -> bool {
        self.local_show
    }

    /// The effect of the text. `None` if it is not parsed.
    pub fn effect(&self) -> Option<&Effect> {
        self.statement.as_ref().map(|s| &s.effect)
    }
}
