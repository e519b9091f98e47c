//! Upserts of one row each.

use super::key::Key;
use super::proposal::OnConflict;
use super::statement::{Source, change_sql, insert_sql};
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
            let proposal = Proposal {
                checks: proposed,
                values,
                rights: &insert.rights(table),
            };
            let fold = fold::rewrite_upsert(update, proposal, table, parameters, returning)?;
            match fold.key == columns {
                true => Then::Fold(Box::new(fold)),
                false => return Err(DistributionRefusal::Conflict),
            }
        }
    };
    let valued = insert.valued(table)?;
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
        per_member: per_member.into_list(|number| vec![number]),
        then,
        returning: returning.len(),
    })
}
