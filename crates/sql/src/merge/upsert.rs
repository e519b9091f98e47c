//! Upserts of many clients: one INSERT of the first row for each key and, for DO UPDATE, a fold of all other members,
//! in one transaction.
//!
//! The INSERT does nothing if a row exists. Later members with the same key then find that row: under DO NOTHING they
//! have no effect, under DO UPDATE the fold applies them in order of arrival. The returned keys show which members
//! were inserted.

mod proposal;
mod several;
#[cfg(test)]
mod tests;

pub use proposal::{OnConflict, on_conflict};
pub use several::{Several, rewrite_several};

use super::{Insert, PROPOSED, check, returned};
use crate::dealing::{Own, OwnParameter, Refusal, SET_LOCK_TIMEOUT_TO};
use crate::expr::Expr;
use crate::facts::{Column, TableFacts};
use crate::fold::{self, Fold, KeyClass, KeyColumn, Proposal};
use crate::operator::GE;
use crate::quote_ident;
use crate::row_wait::key_probe_sql;
use crate::type_name::TypeName;
use crate::value::KeyValue;

/// Number of result columns before the key: whether the facts are unchanged.
pub const RESULT_COLUMNS: usize = 1;

/// The statements of an upsert, and how to fill their parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upsert {
    /// The INSERT. Its parameters: the fingerprint, the lock timeout and, if `own` is not empty, the number of each
    /// row and the arrays of `own`. Its result: [`RESULT_COLUMNS`], the key of each inserted row (NULL if there is
    /// none), the RETURNING columns.
    pub insert: String,
    /// The client's own upsert for all members, if each member has a key of its own. It has the parameters of
    /// `insert`, and its result includes the updated rows. `None` if DO UPDATE uses parameters of the members.
    pub one_each: Option<String>,
    /// Under DO NOTHING, a query for the keys that exist. Its parameters: the arrays of the key and the fingerprint.
    pub probe: Option<String>,
    /// The key columns and the source of their values.
    pub key: Vec<KeyColumn>,
    /// Parameters of the INSERT with a value for each member.
    pub own: Vec<OwnParameter>,
    /// What happens to members whose row exists.
    pub then: Then,
    /// Number of RETURNING columns.
    pub returning: usize,
}

/// What happens to members whose row exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// DO NOTHING.
    Nothing {
        /// Whether a member that was not inserted conflicted with its own key, and not with a value of another unique
        /// index.
        same_key: bool,
    },
    /// DO UPDATE: the fold applies them to the row.
    Fold(Box<Fold>),
}

impl Then {
    /// DO UPDATE has no probe, because it locks the existing row in any case.
    fn probe(&self, table: &TableFacts, key: &Key) -> Option<String> {
        let columns: Vec<&Column> = key.0.iter().map(|(column, _)| *column).collect();
        match self {
            Self::Nothing { .. } => Some(key_probe_sql(table, &columns)),
            Self::Fold(_) => None,
        }
    }
}

/// Rewrites an `insert` of one row with ON CONFLICT for many clients; `on_conflict` is the result of [`on_conflict`].
///
/// # Errors
/// [`Refusal`]: why the INSERT cannot be rewritten.
pub fn rewrite(
    insert: &Insert,
    on_conflict: Option<&OnConflict>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Upsert, Refusal> {
    match insert.rows.len() {
        1 => rewrite_first(insert, on_conflict, table, parameters, returning),
        _ => Err(Refusal::Rows),
    }
}

/// The same for the first row of `insert`.
fn rewrite_first(
    insert: &Insert,
    on_conflict: Option<&OnConflict>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Upsert, Refusal> {
    check(insert, table)?;
    let conflict = insert.conflict.as_ref().ok_or(Refusal::Conflict)?;
    let key = Key::of(insert, table)?;
    let columns = key.columns(parameters)?;
    if insert.returned().any(|expr| !expr.parameters().is_empty()) {
        return Err(Refusal::Returning);
    }
    let then = match on_conflict {
        None => Then::Nothing {
            same_key: conflict.target.is_some() || table.has_one_unique_index(),
        },
        Some(OnConflict {
            update, proposed, ..
        }) => {
            let proposal = Proposal {
                checks: proposed,
                rights: &insert.rights(table),
            };
            let fold = fold::rewrite_upsert(update, proposal, table, parameters, returning)?;
            match fold.key == columns {
                true => Then::Fold(Box::new(fold)),
                false => return Err(Refusal::Conflict),
            }
        }
    };
    let valued = insert.valued(table)?;
    let values: Vec<&Expr> = valued.iter().map(|(_, expr)| *expr).collect();
    let computed = on_conflict.map_or(&[][..], |change| &change.computed);
    let own = Own::of(
        values.into_iter().chain(computed).collect(),
        &[],
        parameters,
    )?;
    let source = Source {
        own: &own,
        shared: &[],
        valued: &valued,
        computed,
    };
    Ok(Upsert {
        insert: insert_sql(insert, table, &key, &source, "DO NOTHING", returning)?,
        one_each: match change_sql(insert, &|_| None)? {
            Some(change) => Some(insert_sql(
                insert, table, &key, &source, &change, returning,
            )?),
            None => None,
        },
        probe: then.probe(table, &key),
        key: columns,
        own: own.into_list(|number| vec![number]),
        then,
        returning: returning.len(),
    })
}

/// Number of the first shared parameter, after the fingerprint and the lock timeout.
const SHARED: usize = 3;

/// The inserted rows.
struct Source<'a> {
    own: &'a Own<'a>,
    /// Parameters with the same value for all members, and their types in SQL syntax.
    shared: &'a [(u32, &'a str)],
    /// The columns with values, and their values.
    valued: &'a [(String, &'a Expr)],
    computed: &'a [Expr],
}

impl Source<'_> {
    /// SQL for a parameter with the same value for all members.
    fn shared(&self, number: u32) -> Option<String> {
        let place = self.shared.iter().position(|(own, _)| *own == number)?;
        let (_, sql) = self.shared.get(place)?;
        Some(format!("${}::{sql}", SHARED + place))
    }

    fn parameter(&self, number: u32) -> String {
        let own = || self.own.element(number, |place| format!("k.p{place}"));
        self.shared(number).unwrap_or_else(own)
    }
}

fn insert_sql(
    insert: &Insert,
    table: &TableFacts,
    key: &Key,
    source: &Source,
    action: &str,
    returning: &[TypeName],
) -> Result<String, Refusal> {
    let parameter = |n: u32| source.parameter(n);
    let value = |expr: &Expr| {
        let sql = expr.to_sql(&|_| String::new(), &parameter);
        sql.map_err(|_| Refusal::Expression)
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (column, expr) in source.valued {
        columns.push(quote_ident(column));
        values.push(value(expr)?);
    }
    let computed = source
        .computed
        .iter()
        .map(value)
        .collect::<Result<Vec<_>, _>>()?;
    let computed = match computed.is_empty() {
        true => String::new(),
        false => format!(" AND pg_catalog.num_nulls({}) {GE} 0", computed.join(", ")),
    };
    let conflict = insert.conflict.as_ref().ok_or(Refusal::Conflict)?;
    let target = match &conflict.target {
        Some(target) => {
            let target: Vec<String> = target.iter().map(|name| quote_ident(name)).collect();
            format!(" ({})", target.join(", "))
        }
        None => String::new(),
    };
    let numbered = || (1..).zip(&key.0);
    let keys: String = numbered()
        .map(|(n, (column, _))| format!(", u.{} AS k{n}", quote_ident(&column.name)))
        .collect();
    let key_names: String = numbered().map(|(n, _)| format!(", w.k{n}")).collect();
    let names: String = (1..=returning.len()).map(|n| format!(", w.r{n}")).collect();
    Ok(format!(
        "WITH facts AS MATERIALIZED (SELECT {same}{rights} AND {set_timeout} AS same), \
         moved AS (INSERT INTO {table} AS u ({columns}) SELECT {values} FROM facts, {members} WHERE facts.same{computed} ORDER BY k.pos \
         ON CONFLICT{target} {action} RETURNING true AS there{keys}{returned}) \
         SELECT facts.same{key_names}{names} FROM facts LEFT JOIN moved AS w ON true",
        same = table.fingerprint.holds(1),
        rights = insert.rights(table),
        set_timeout = SET_LOCK_TIMEOUT_TO,
        table = table.qualified(),
        columns = columns.join(", "),
        values = values.join(", "),
        members = source.own.rows("1", SHARED + source.shared.len()),
        returned = returned(insert, table, &|_| String::new(), returning)?,
    ))
}

/// The DO UPDATE clause, if its values are values of EXCLUDED or `shared` by all members.
fn change_sql(
    insert: &Insert,
    shared: &dyn Fn(u32) -> Option<String>,
) -> Result<Option<String>, Refusal> {
    let conflict = insert.conflict.as_ref();
    let Some(change) = conflict.and_then(|conflict| conflict.change.as_ref()) else {
        return Ok(None);
    };
    let value = |number: u32| match number.checked_sub(PROPOSED) {
        Some(place) => {
            let name = change.proposed.get(place as usize)?;
            Some(format!("EXCLUDED.{}", quote_ident(name)))
        }
        None => shared(number),
    };
    let assigned = change.assignments.iter().map(|(_, expr)| expr);
    let mut parameters = assigned.chain(&change.guard).flat_map(Expr::parameters);
    if parameters.any(|number| value(number).is_none()) {
        return Ok(None);
    }
    let sql = |expr: &Expr| {
        let value = |number| value(number).unwrap_or_default();
        let sql = expr.to_sql(&|name| format!("u.{}", quote_ident(name)), &value);
        sql.map_err(|_| Refusal::Expression)
    };
    let set = |(name, expr): &(String, Expr)| Ok(format!("{} = {}", quote_ident(name), sql(expr)?));
    let sets = change.assignments.iter().map(set);
    let sets = sets.collect::<Result<Vec<_>, Refusal>>()?.join(", ");
    let guard = match &change.guard {
        Some(guard) => format!(" WHERE {}", sql(guard)?),
        None => String::new(),
    };
    Ok(Some(format!("DO UPDATE SET {sets}{guard}")))
}

/// The columns that identify a row, and their values.
struct Key<'a>(Vec<(&'a Column, KeyValue)>);

impl<'a> Key<'a> {
    /// The target of ON CONFLICT or, without one, the shortest key with values. The values are those of the first
    /// row.
    fn of(insert: &Insert, table: &'a TableFacts) -> Result<Self, Refusal> {
        let valued = insert.valued(table)?;
        let value_of = |name: &String| {
            let (_, expr) = valued.iter().find(|(column, _)| column == name)?;
            Some((table.column(name)?, expr.as_value()?))
        };
        let named = |names: &Vec<String>| names.iter().map(value_of).collect::<Option<Vec<_>>>();
        let target = insert
            .conflict
            .as_ref()
            .and_then(|conflict| conflict.target.as_ref());
        let is_target = |names: &&Vec<String>| {
            target.is_none_or(|target| {
                target.iter().all(|name| names.contains(name))
                    && names.iter().all(|name| target.contains(name))
            })
        };
        let keys = table.keys.iter().filter(is_target).filter_map(named);
        keys.min_by_key(Vec::len).map(Self).ok_or(Refusal::Conflict)
    }

    /// The key columns, with the way in which their values are compared.
    fn columns(&self, parameters: &[TypeName]) -> Result<Vec<KeyColumn>, Refusal> {
        let compared = |(column, value): &(&Column, KeyValue)| {
            let key = fold::column::key_column(column, value, parameters)?;
            // PostgreSQL rounds or pads the value, so that the returned key would differ.
            let unchanged = key.class != KeyClass::Opaque || column.type_modifier == -1;
            unchanged.then_some(key).ok_or(Refusal::Conflict)
        };
        self.0.iter().map(compared).collect()
    }
}
