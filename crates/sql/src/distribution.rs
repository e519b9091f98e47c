//! One statement for many clients whose result rows are distributed to them in order: the common part of take and
//! merge. Upserts use its parameters and its refusals.

use crate::expr::Expr;
use crate::facts::TableFacts;
use crate::parser::NotParsed;
use crate::type_name::TypeName;
use crate::value::KeyValue;
use std::collections::BTreeSet;

/// Number of result columns before RETURNING: whether the catalog version is unchanged, and the number of the row (from 1;
/// NULL if there is none).
pub const DISTRIBUTION_RESULT_COLUMNS: usize = 2;

/// Maximum rows of [`Distribution::text_of_few`].
pub const FEW: u32 = 1_024;

/// Text of the error by which such a statement rolls itself back.
pub(crate) const UNCERTAIN: &str = "paceline: ";

/// The same text for [`RollbackReason::RowGone`]. It begins with [`UNCERTAIN`].
pub(crate) const GONE: &str = "paceline: gone: ";

/// Limits each wait for a lock in the statement, because all members wait with it. After a timeout each member is
/// executed alone.
pub(crate) const SET_LOCK_TIMEOUT: &str =
    "pg_catalog.set_config('lock_timeout', '5ms', true) IS NOT NULL";

/// The same; parameter `$2` is the limit.
pub(crate) const SET_LOCK_TIMEOUT_TO: &str =
    "pg_catalog.set_config('lock_timeout', $2::pg_catalog.text, true) IS NOT NULL";

/// Reason why a statement cannot be executed for many clients. Users see it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DistributionRefusal {
    /// A table does not permit it.
    #[error("table {0}: {1}")]
    Table(String, String),
    /// The column by which rows are picked is not a unique key.
    #[error("{0} is not a unique key")]
    Key(String),
    /// The UPDATE picks rows without a condition, so that it could pick each row again immediately.
    #[error("an UPDATE that picks without a condition")]
    Condition,
    /// A column does not exist, or has no name or no value.
    #[error("column {0}")]
    Column(String),
    /// A parameter has a type that cannot be sent in an array.
    #[error("type of parameter ${0}")]
    Type(u32),
    /// The limit of a call is not a plain value, or its parameter is used elsewhere.
    #[error("the argument that limits the number of rows")]
    Limit,
    /// The meaning of a literal depends on the fields of an interval, which the type of a parameter does not include.
    #[error("a value for an interval with fields")]
    Interval,
    /// The rows of VALUES have different expressions.
    #[error("rows of VALUES with different expressions")]
    Rows,
    /// ON CONFLICT refers to no unique key, or to a key whose values are not parameters or constants.
    #[error("ON CONFLICT needs one unique key whose values are plain parameters or constants")]
    Conflict,
    /// ON CONFLICT refers to no key, and members may have the same value in a unique column because they share the time.
    #[error("ON CONFLICT without a target, and unique column {0} may be the time")]
    Time(String),
    /// A parameter is used in VALUES of more than one row and in DO UPDATE, where all clients must have the same
    /// value.
    #[error("a parameter in VALUES of several rows and in DO UPDATE")]
    Mixed,
    /// A parameter is used in the RETURNING clause of an upsert.
    #[error("a parameter in RETURNING")]
    Returning,
    /// A CHECK constraint reads columns with and columns without a value.
    #[error("a CHECK constraint that reads a default")]
    Check,
    /// The update of existing rows cannot be folded.
    #[error("DO UPDATE: {0}")]
    Fold(#[from] crate::fold::FoldRefusal),
    /// An expression cannot be rewritten.
    #[error("an expression that cannot be rewritten")]
    Expression,
}

impl From<NotParsed> for DistributionRefusal {
    fn from(_: NotParsed) -> Self {
        Self::Expression
    }
}

/// The RETURNING columns as `, (value)::type AS rn`.
pub(crate) fn answers_sql(
    values: &[String],
    types: &[TypeName],
) -> Result<String, DistributionRefusal> {
    if values.len() != types.len() {
        return Err(DistributionRefusal::Expression);
    }
    let answer = |(n, (value, name)): (usize, (&String, &TypeName))| {
        format!(", ({value})::{} AS r{n}", name.sql)
    };
    Ok((1..).zip(values.iter().zip(types)).map(answer).collect())
}

/// The same columns where `w` is the source: `, w.r1, w.r2, …`.
pub(crate) fn answer_names(count: usize) -> String {
    (1..=count).map(|n| format!(", w.r{n}")).collect()
}

/// Checks that each referenced column is a column of the table.
pub(crate) fn check_columns<'a>(
    table: &TableFacts,
    exprs: impl IntoIterator<Item = &'a Expr>,
) -> Result<(), DistributionRefusal> {
    let mut columns = exprs.into_iter().flat_map(Expr::columns);
    match columns.find(|name| table.column(name).is_none()) {
        Some(unknown) => Err(DistributionRefusal::Column(unknown)),
        None => Ok(()),
    }
}

/// Checks that none of these columns is an interval with fields, such as `interval year to month`.
pub(crate) fn check_intervals<'a>(
    table: &TableFacts,
    columns: impl IntoIterator<Item = &'a String>,
) -> Result<(), DistributionRefusal> {
    let limited = |name: &String| {
        let column = table.column(name);
        column.is_some_and(|c| c.base_type_oid == INTERVAL && c.type_modifier != -1)
    };
    match columns.into_iter().any(limited) {
        true => Err(DistributionRefusal::Interval),
        false => Ok(()),
    }
}

const INTERVAL: u32 = 1186;

/// The statement and how to fill its parameters: the number of rows, the catalog versions, the values of `shared`, and,
/// if `per_member` is not empty, the number of the member of each row (from 1) and the arrays of `per_member`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// The text of the statement.
    pub text: String,
    /// The same statement for at most [`FEW`] rows. PostgreSQL uses a generic plan for it, because the number of rows
    /// is known to be small; it plans `text` again for each number of rows.
    pub text_of_few: Option<String>,
    /// The statements for queues in whose order a group may start at a position.
    pub positioned: Option<PositionedTexts>,
    /// The number of rows for each member.
    pub limit: KeyValue,
    /// Whether each member receives at most one row. A member with a limit other than 1 is executed alone.
    pub single: bool,
    /// Whether members take rows from a queue, so that concurrent statements would compete for the same rows.
    pub queue: bool,
    /// Parameters with the same value for all members.
    pub shared: Vec<u32>,
    /// Parameters with a value for each member.
    pub per_member: Vec<PerMemberParameter>,
    /// The command tag of a reply without its number of rows.
    pub tag: &'static str,
    /// Whether PostgreSQL may raise an error for a member without a row.
    pub may_fail_unseen: bool,
    /// Whether a user-defined function may raise any error. Such an error is no reason to stop using the statement.
    pub raises_anything: bool,
    /// Number of RETURNING columns, which follow the columns of [`DISTRIBUTION_RESULT_COLUMNS`].
    pub returning: usize,
}

/// Statements as [`Distribution::text`] that return the position of the first picked row in the order of the queue, after
/// the columns of [`DISTRIBUTION_RESULT_COLUMNS`]. It is NULL if no row was picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionedTexts {
    /// Picks from the whole queue.
    pub whole: QueueTexts,
    /// Picks at the position in the last parameters and after it, and before it only if that gives too few rows. Its last
    /// parameters are the position, in binary format.
    pub from_position: QueueTexts,
    /// Number of values of a position.
    pub columns: usize,
}

/// A statement for any number of rows, and the same for few rows ([`Distribution::text_of_few`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTexts {
    /// For any number of rows.
    pub text: String,
    /// For at most [`FEW`] rows.
    pub text_of_few: Option<String>,
}

/// A parameter with a value for each member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerMemberParameter {
    /// The numbers of the parameter; for a member with several rows, one for each row.
    pub numbers: Vec<u32>,
    /// Whether the parameter is an array, whose values are sent in text format in a `text[]`.
    pub as_text: bool,
}

impl Distribution {
    /// The reason why the statement has rolled itself back, if this is the error that it raises for this purpose: a failed cast of
    /// a text to boolean.
    pub fn rollback_reason(sqlstate: &str, message: &str) -> Option<RollbackReason> {
        if sqlstate != "22P02" || !message.contains(UNCERTAIN) {
            return None;
        }
        Some(match message.contains(GONE) {
            true => RollbackReason::RowGone,
            false => RollbackReason::Uncertain,
        })
    }
}

/// The reason why a statement has rolled itself back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackReason {
    /// Another transaction has taken a picked row. A retry may succeed.
    RowGone,
    /// A member might have had another result alone.
    Uncertain,
}

/// The parameters with the same value for all members, and their types in SQL syntax.
pub(crate) struct Shared<'a>(Vec<(u32, &'a str)>);

impl<'a> Shared<'a> {
    pub(crate) fn of(
        numbers: &[u32],
        parameters: &'a [TypeName],
    ) -> Result<Self, DistributionRefusal> {
        let typed = |number: &u32| {
            let name =
                TypeName::of(parameters, *number).ok_or(DistributionRefusal::Type(*number))?;
            Ok((*number, name.sql.as_str()))
        };
        Ok(Self(
            numbers
                .iter()
                .map(typed)
                .collect::<Result<_, DistributionRefusal>>()?,
        ))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// SQL for a parameter, if it is shared. In the statement, the first one has the number `first`.
    pub(crate) fn sql(&self, number: u32, first: usize) -> Option<String> {
        let mut shared = (first..).zip(&self.0);
        let found = shared.find(|(_, (shared, _))| *shared == number);
        found.map(|(place, (_, sql))| format!("${place}::{sql}"))
    }
}

/// The parameters with a value for each member, and their types.
pub(crate) struct PerMember<'a>(Vec<(u32, &'a TypeName)>);

impl<'a> PerMember<'a> {
    /// The parameters in `exprs` that are not `shared`.
    pub(crate) fn of(
        exprs: Vec<&Expr>,
        shared: &[u32],
        parameters: &'a [TypeName],
    ) -> Result<Self, DistributionRefusal> {
        if exprs.iter().any(|expr| expr.casts_parameter_to_fields()) {
            return Err(DistributionRefusal::Interval);
        }
        let numbers: BTreeSet<u32> = exprs.into_iter().flat_map(Expr::parameters).collect();
        let numbers = numbers
            .into_iter()
            .filter(|number| !shared.contains(number));
        let typed = numbers.map(|number| {
            let name = TypeName::of(parameters, number);
            // Arrays of `box` are not delimited by commas.
            let fits = name.filter(|name| name.builtin && name.sql != "box");
            fits.map(|name| (number, name))
                .ok_or(DistributionRefusal::Type(number))
        });
        Ok(Self(typed.collect::<Result<_, _>>()?))
    }

    /// Number of parameters.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// SQL for the value of a member's parameter. `source` returns SQL for the element of the array with this
    /// position, from 1.
    pub(crate) fn element(&self, number: u32, source: impl Fn(usize) -> String) -> String {
        let place = self
            .0
            .iter()
            .position(|(parameter, _)| *parameter == number);
        let Some((place, (_, name))) = place.and_then(|place| Some((place, self.0.get(place)?)))
        else {
            return "NULL".to_owned();
        };
        match name.array {
            true => format!("{}::{}", source(place + 1), name.sql),
            false => source(place + 1),
        }
    }

    /// The type of the elements of an array, by its position from 1.
    pub(crate) fn element_type(&self, place: usize) -> &str {
        match self.0.get(place.wrapping_sub(1)) {
            Some((_, name)) if !name.array => &name.sql,
            _ => "pg_catalog.text",
        }
    }

    /// FROM item with a row `k(pos, p1, p2, …)` for each member. The arrays start at parameter `first`.
    pub(crate) fn rows(&self, members: &str, first: usize) -> String {
        if self.0.is_empty() {
            return format!("pg_catalog.generate_series(1, {members}::pg_catalog.int8) AS k(pos)");
        }
        let (arrays, names) = self.unnested(first + 1);
        format!(
            "ROWS FROM (pg_catalog.unnest(${first}::pg_catalog.int4[]), {arrays}) AS k(pos, {names})"
        )
    }

    /// The same without numbers, for members with one row: `k(p1, p2, …)`.
    pub(crate) fn members(&self, first: usize) -> String {
        if self.0.is_empty() {
            return "(SELECT) AS k".to_owned();
        }
        let (arrays, names) = self.unnested(first);
        format!("ROWS FROM ({arrays}) AS k({names})")
    }

    /// The FROM functions of the arrays, and the names of their columns.
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

    /// The parameters that are sent as text and converted to arrays.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = u32> {
        let arrays = self.0.iter().filter(|(_, name)| name.array);
        arrays.map(|(number, _)| *number)
    }

    /// The parameters to bind. `numbers` returns the parameters that contain a value of each row.
    pub(crate) fn into_list(self, numbers: impl Fn(u32) -> Vec<u32>) -> Vec<PerMemberParameter> {
        let per_member = self.0.into_iter();
        per_member
            .map(|(number, name)| PerMemberParameter {
                numbers: numbers(number),
                as_text: name.array,
            })
            .collect()
    }
}
