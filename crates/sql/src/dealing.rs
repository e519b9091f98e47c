//! One statement for many clients, whose rows are dealt to them in order: what take and merge have in common.

use crate::facts::TableFacts;
use crate::type_name::TypeName;
use crate::{Expr, KeyValue};
use std::collections::BTreeSet;

/// Columns in front of RETURNING: facts unchanged?, number of the row (from 1; NULL: none).
pub const RESULT_COLUMNS: usize = 2;

/// Most rows of [`Dealing::text_of_few`].
pub const FEW: u32 = 1_024;

/// Text of the error that such a statement raises by itself.
pub(crate) const UNCERTAIN: &str = "paceline: ";

/// The same where a picked row was gone before it could be taken: the next time may be better.
pub(crate) const GONE: &str = "paceline: gone: ";

/// Limits each wait for a lock inside the statement, as it is every member's; then each goes alone.
pub(crate) const PATIENCE: &str = "pg_catalog.set_config('lock_timeout', '5ms', true) IS NOT NULL";

/// The same with a limit that is parameter `$2`.
pub(crate) const PATIENCE_OF: &str =
    "pg_catalog.set_config('lock_timeout', $2::pg_catalog.text, true) IS NOT NULL";

/// Why a statement does not travel with others; shown to users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A table does not allow it.
    #[error("table {0}: {1}")]
    Table(String, String),
    /// The picked column does not name one row.
    #[error("{0} is not a unique key")]
    Key(String),
    /// Every row could be claimed again at once.
    #[error("an UPDATE that picks without a condition")]
    Condition,
    /// A column that is not there, or has no name or value.
    #[error("column {0}")]
    Column(String),
    /// A type that cannot be carried in an array.
    #[error("type of parameter ${0}")]
    Type(u32),
    /// A call that does not say in the declared argument, and nowhere else, how many rows it wants.
    #[error("the argument that says how many rows are wanted")]
    Limit,
    /// What a literal means depends on fields of an interval, which a parameter's type does not tell.
    #[error("a value for an interval with fields")]
    Interval,
    /// The rows of VALUES are of several kinds.
    #[error("rows of VALUES that are not alike")]
    Rows,
    /// ON CONFLICT names no unique key, or one whose values are not parameters or constants.
    #[error("ON CONFLICT needs one unique key whose values are plain parameters or constants")]
    Conflict,
    /// A parameter stands in VALUES and in DO UPDATE of several rows: there it would have to be the same for all clients.
    #[error("a parameter in VALUES of several rows and in DO UPDATE")]
    Mixed,
    /// A parameter stands in the RETURNING of an upsert.
    #[error("a parameter in RETURNING")]
    Returning,
    /// A CHECK constraint reads columns with and without a value.
    #[error("a CHECK constraint that reads a default")]
    Check,
    /// What an upsert does to a row that is there cannot be folded.
    #[error("DO UPDATE: {0}")]
    Fold(#[from] crate::fold::Refusal),
    /// The parser could not take an expression apart.
    #[error("an expression that cannot be rewritten")]
    Expression,
}

/// Every column that is read is one of the table.
pub(crate) fn check_columns<'a>(
    table: &TableFacts,
    exprs: impl IntoIterator<Item = &'a Expr>,
) -> Result<(), Refusal> {
    let mut columns = exprs.into_iter().flat_map(Expr::columns);
    match columns.find(|name| table.column(name).is_none()) {
        Some(unknown) => Err(Refusal::Column(unknown)),
        None => Ok(()),
    }
}

/// None of these columns is an interval with fields, such as `interval year to month`.
pub(crate) fn check_intervals<'a>(
    table: &TableFacts,
    columns: impl IntoIterator<Item = &'a String>,
) -> Result<(), Refusal> {
    let limited = |name: &String| {
        let column = table.column(name);
        column.is_some_and(|c| c.base_type_oid == INTERVAL && c.type_modifier != -1)
    };
    match columns.into_iter().any(limited) {
        true => Err(Refusal::Interval),
        false => Ok(()),
    }
}

const INTERVAL: u32 = 1186;

/// The statement and how to fill it: the number of rows asked for, the fingerprints, the values of `shared`, and if
/// `own` is not empty the member of each row (from 1) and the arrays of `own`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dealing {
    /// Its text.
    pub text: String,
    /// The same for at most [`FEW`] rows. PostgreSQL plans it once and for all, as it knows that they are few; the other one
    /// it plans for each number of rows anew.
    pub text_of_few: Option<String>,
    /// How many rows a member gets.
    pub limit: KeyValue,
    /// Members get one row each at most, whatever the limit is: with another one they go alone.
    pub single: bool,
    /// Members take from a queue: while some do, others would stand in their way.
    pub queue: bool,
    /// Parameters that are the same for all members.
    pub shared: Vec<u32>,
    /// Parameters that each member has of its own.
    pub own: Vec<OwnParameter>,
    /// Number of fingerprints: one or two.
    pub fingerprints: usize,
    /// In front of the number of rows in an answer's tag.
    pub tag: &'static str,
    /// PostgreSQL may raise an error of a member for whom there was no row.
    pub may_fail_unseen: bool,
    /// A user's function may raise errors of any kind: none speaks against the statement itself.
    pub raises_anything: bool,
    /// Number of RETURNING columns; they stand behind [`RESULT_COLUMNS`].
    pub returning: usize,
}

/// A value that each member has of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnParameter {
    /// The parameter that holds it; for a member with several rows, row by row.
    pub numbers: Vec<u32>,
    /// It is an array and travels as text inside a `text[]`.
    pub as_text: bool,
}

impl Dealing {
    /// Is this the error by which the statement undoes itself: a text that is no boolean?
    pub fn is_uncertain(sqlstate: &str, message: &str) -> bool {
        sqlstate == "22P02" && message.contains(UNCERTAIN)
    }

    /// Is it the one by which it says that somebody else was quicker?
    pub fn is_gone(sqlstate: &str, message: &str) -> bool {
        sqlstate == "22P02" && message.contains(GONE)
    }
}

/// The parameters that each member has of its own, and their types.
pub(crate) struct Own<'a>(Vec<(u32, &'a TypeName)>);

impl<'a> Own<'a> {
    /// Those in `exprs` that are not `shared`.
    pub(crate) fn of(
        exprs: Vec<&Expr>,
        shared: &[u32],
        parameters: &'a [TypeName],
    ) -> Result<Self, Refusal> {
        if exprs.iter().any(|expr| expr.casts_parameter_to_fields()) {
            return Err(Refusal::Interval);
        }
        let numbers: BTreeSet<u32> = exprs.into_iter().flat_map(Expr::parameters).collect();
        let numbers = numbers
            .into_iter()
            .filter(|number| !shared.contains(number));
        let typed = numbers.map(|number| {
            let index = (number as usize).checked_sub(1);
            let name = index.and_then(|index| parameters.get(index));
            // Arrays of boxes are not delimited by a comma.
            let fits = name.filter(|name| name.builtin && name.sql != "box");
            fits.map(|name| (number, name)).ok_or(Refusal::Type(number))
        });
        Ok(Self(typed.collect::<Result<_, _>>()?))
    }

    /// SQL of a member's parameter; `source` is that of the element of its array, whose place (from 1) is given.
    pub(crate) fn element(&self, number: u32, source: impl Fn(usize) -> String) -> String {
        let place = self.0.iter().position(|(own, _)| *own == number);
        let Some((place, (_, name))) = place.and_then(|place| Some((place, self.0.get(place)?)))
        else {
            return "NULL".to_owned();
        };
        match name.array {
            true => format!("{}::{}", source(place + 1), name.sql),
            false => source(place + 1),
        }
    }

    /// The type of an array's elements, by its place (from 1).
    pub(crate) fn element_type(&self, place: usize) -> &str {
        match self.0.get(place.wrapping_sub(1)) {
            Some((_, name)) if !name.array => &name.sql,
            _ => "pg_catalog.text",
        }
    }

    /// A row `k(pos, p1, p2, …)` for each member; the arrays start at parameter `first`.
    pub(crate) fn rows(&self, members: &str, first: usize) -> String {
        if self.0.is_empty() {
            return format!("pg_catalog.generate_series(1, {members}::pg_catalog.int8) AS k(pos)");
        }
        let (arrays, names) = self.unnested(first + 1);
        format!(
            "ROWS FROM (pg_catalog.unnest(${first}::pg_catalog.int4[]), {arrays}) AS k(pos, {names})"
        )
    }

    /// The same without numbers: `k(p1, p2, …)`, where a member has one row.
    pub(crate) fn members(&self, first: usize) -> String {
        if self.0.is_empty() {
            return "(SELECT) AS k".to_owned();
        }
        let (arrays, names) = self.unnested(first);
        format!("ROWS FROM ({arrays}) AS k({names})")
    }

    /// The arrays as rows, and what these are called.
    fn unnested(&self, first: usize) -> (String, String) {
        let unnest = |place: usize| {
            let (array, element) = (first + place - 1, self.element_type(place));
            format!("pg_catalog.unnest(${array}::{element}[])")
        };
        let arrays: Vec<String> = (1..=self.0.len()).map(unnest).collect();
        let names: Vec<String> = (1..=self.0.len())
            .map(|place| format!("p{place}"))
            .collect();
        (arrays.join(", "), names.join(", "))
    }

    /// Those that travel as text, and have to be read as arrays.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = u32> {
        let arrays = self.0.iter().filter(|(_, name)| name.array);
        arrays.map(|(number, _)| *number)
    }

    /// What is to be bound, given the parameters that hold a value row by row.
    pub(crate) fn into_list(self, numbers: impl Fn(u32) -> Vec<u32>) -> Vec<OwnParameter> {
        let own = self.0.into_iter();
        own.map(|(number, name)| OwnParameter {
            numbers: numbers(number),
            as_text: name.array,
        })
        .collect()
    }
}
