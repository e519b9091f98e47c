//! Upserts of one row each.

use super::key::Key;
use super::proposal::OnConflict;
use super::statement::{InsertedRows, Source, change_sql, insert_sql};
use crate::distribution::{DistributionRefusal, PerMember, PerMemberParameter, Shared};
use crate::expr::Expr;
use crate::facts::{Column, TableFacts};
use crate::fold::{self, Fold, KeyColumn, Proposal};
use crate::merge::insert::Insert;
use crate::merge::rewrite::check;
use crate::row_wait::key_probe_sql;
use crate::type_name::TypeName;

/// The statements of an upsert, and how to fill their parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upsert {
    /// The INSERT. Its parameters: the catalog version, the lock timeout and, if `per_member` is not empty, the number
    /// of each row and the arrays of `per_member`. Its result: [`super::UPSERT_RESULT_COLUMNS`], the key of each
    /// inserted row (NULL if there is none), the RETURNING columns.
    pub insert: String,
    /// The same for groups in which several members insert rows with the same key: its result has the number of each
    /// inserted row in place of the key. Another session may delete an existing row after a member has met it, and
    /// before the next one is inserted. `None` if the INSERT never contains several.
    pub numbered: Option<String>,
    /// The client's own upsert for all members, if each member has a key of its own. It has the parameters of
    /// `insert`, and its result includes the updated rows. `None` if DO UPDATE uses parameters of the members.
    pub one_each: Option<String>,
    /// Under DO NOTHING, a query for the keys that exist. Its parameters: the arrays of the key, the catalog version.
    pub probe: Option<String>,
    /// The key columns and the source of their values.
    pub key: Vec<KeyColumn>,
    /// Parameters of the INSERT with a value for each member.
    pub per_member: Vec<PerMemberParameter>,
    /// The action for members whose row exists.
    pub then: Then,
    /// Number of RETURNING columns.
    pub returning: usize,
}

/// The action for members whose row exists.
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

/// Whether the INSERT may store the time in the column. `valued` are the columns with values.
fn may_be_time(column: &Column, valued: &[(String, &Expr)]) -> bool {
    match valued.iter().find(|(name, _)| *name == column.name) {
        Some((_, value)) => value.reads_moment() || value.reads_clock(),
        None => column.time_by_default,
    }
}

/// The columns in which the INSERT may store the time.
fn times<'a>(table: &'a TableFacts, valued: &[(String, &Expr)]) -> Vec<&'a Column> {
    let columns = table.columns.iter();
    columns
        .filter(|column| may_be_time(column, valued))
        .collect()
}

/// Rewrites an `insert` of one row with ON CONFLICT for many clients; `on_conflict` is the result of
/// [`on_conflict`](super::on_conflict).
///
/// # Errors
/// [`DistributionRefusal`]: why the INSERT cannot be rewritten.
pub fn rewrite(
    insert: &Insert,
    on_conflict: Option<&OnConflict>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Upsert, DistributionRefusal> {
    match insert.rows.len() {
        1 => rewrite_first(insert, on_conflict, table, parameters, returning),
        _ => Err(DistributionRefusal::Rows),
    }
}

/// The same for the first row of `insert`.
pub(super) fn rewrite_first(
    insert: &Insert,
    on_conflict: Option<&OnConflict>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Upsert, DistributionRefusal> {
    check(insert, table)?;
    let conflict = insert
        .conflict
        .as_ref()
        .ok_or(DistributionRefusal::Conflict)?;
    let key = Key::of(insert, table)?;
    let columns = key.columns(parameters)?;
    if insert.returned().any(|expr| !expr.parameters().is_empty()) {
        return Err(DistributionRefusal::Returning);
    }
    let valued = insert.valued(table)?;
    let times = times(table, &valued);
    let then = match on_conflict {
        None => Then::Nothing {
            same_key: conflict.target.is_some() || table.has_one_unique_index(),
        },
        Some(OnConflict {
            update,
            proposed,
            values,
            ..
        }) => {
            let names: Vec<&str> = times.iter().map(|column| column.name.as_str()).collect();
            let proposal = Proposal {
                checks: proposed,
                values,
                times: &names,
                rights: &insert.rights(table),
            };
            let mut fold = fold::rewrite_upsert(update, proposal, table, parameters, returning)?;
            // If another session deletes the row while a connection waits for its lock, the member is inserted.
            if !times.is_empty() {
                fold.lock = None;
            }
            match fold.key == columns {
                true => Then::Fold(Box::new(fold)),
                false => return Err(DistributionRefusal::Conflict),
            }
        }
    };
    if let Then::Nothing { same_key: false } = then
        && let Some(column) = times.iter().find(|column| column.fixed)
    {
        return Err(DistributionRefusal::Time(column.name.clone()));
    }
    let values: Vec<&Expr> = valued.iter().map(|(_, expr)| *expr).collect();
    let computed = on_conflict.map_or(&[][..], |change| &change.computed);
    let per_member = PerMember::of(
        values.into_iter().chain(computed).collect(),
        &[],
        parameters,
    )?;
    let source = Source {
        per_member: &per_member,
        shared: &Shared::of(&[], parameters)?,
        valued: &valued,
        computed,
    };
    let sql =
        |action: &str, named| insert_sql(insert, table, &key, &source, (action, named), returning);
    let numbered = matches!(then, Then::Nothing { same_key: true });
    let change = change_sql(insert, &|_| None)?;
    Ok(Upsert {
        insert: sql("DO NOTHING", InsertedRows::ByKey)?,
        numbered: numbered
            .then(|| sql("DO NOTHING", InsertedRows::ByNumber))
            .transpose()?,
        one_each: change
            .map(|change| sql(&change, InsertedRows::ByKey))
            .transpose()?,
        probe: then.probe(table, &key),
        key: columns,
        per_member: per_member.into_list(|number| vec![number]),
        then,
        returning: returning.len(),
    })
}
