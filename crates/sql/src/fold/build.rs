//! Puts the statements of a fold together.

use super::column::{self, KeyColumn};
use super::refusal::FoldRefusal;
use super::rewriter::{Carried, Proposal, Rewriter, View};
use super::text::Rows;
use crate::facts::{Column, TableFacts};
use crate::row_wait;
use crate::type_name::TypeName;
use crate::update::Update;
use crate::value::KeyValue;

/// The statements of a fold, and how to fill their parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// For groups on more than one row: skips rows that others have locked.
    pub many_rows: String,
    /// For groups on one row: waits for its lock, for at most [`UNCHECKED_WAIT_MS`](crate::UNCHECKED_WAIT_MS).
    pub one_row: String,
    /// For groups in which each member is on a row of its own: one execution of the client's UPDATE. It waits for
    /// locks for at most 1 ms. Its parameters have no first and last members. `None` for the updates of an upsert.
    pub one_each: Option<String>,
    /// A query for the members that would wait for a row: its result contains their numbers, from 1. The other
    /// members would change no row. Its parameters are those of `one_each`, with one key for each member. `None` for
    /// the updates of an upsert, which lock a row before they check its values.
    pub probe: Option<String>,
    /// Waits for the lock of one row. The parameters are the values of the key. `None` if a member reads the time: the transaction
    /// that waits may have begun long before the member arrived.
    pub lock: Option<String>,
    /// The key columns, in the order of the array parameters `$1…`.
    pub key: Vec<KeyColumn>,
    /// The parameters of the template that follow as arrays after the catalog version.
    pub carried: Vec<Carried>,
    /// Whether PostgreSQL may raise an error for a member whose row is missing or, if each member is on a row of its
    /// own, whose row does not satisfy the other conditions of WHERE.
    pub may_fail_unseen: bool,
    /// Whether the table has partitions. A fold locks all partitions.
    pub partitioned: bool,
    /// Whether the fold performs the updates of an upsert, after the INSERT of the same group.
    pub upsert: bool,
    /// Number of RETURNING columns, which follow the columns of [`FOLD_RESULT_COLUMNS`].
    pub returning: usize,
}

/// Number of result columns before RETURNING: whether the catalog version is unchanged, number of the member (from 1; NULL if
/// there is none), whether the constraints are satisfied, whether the member has updated the row.
pub const FOLD_RESULT_COLUMNS: usize = 4;

/// Rewrites `update` on the table that `table` describes. `parameters` and `returning` are the types of the
/// template's parameters and RETURNING columns.
///
/// # Errors
/// [`FoldRefusal`]: why the UPDATE cannot be folded.
pub fn rewrite(
    update: &Update,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Fold, FoldRefusal> {
    if let Some(reason) = table.refused_unless_taken() {
        return Err(FoldRefusal::Table(reason.to_owned()));
    }
    Rewriter::new(update, table, parameters, None)?.build(returning)
}

/// Rewrites the update of an upsert for existing rows. An INSERT of the first member of each key precedes it in the
/// same transaction: if that transaction has inserted the row, its first member is complete.
pub(crate) fn rewrite_upsert(
    update: &Update,
    proposal: Proposal<'_>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Fold, FoldRefusal> {
    Rewriter::new(update, table, parameters, Some(proposal))?.build(returning)
}

impl Rewriter<'_> {
    fn build(&self, returning: &[TypeName]) -> Result<Fold, FoldRefusal> {
        let key = |(column, value): &(&Column, &KeyValue)| {
            column::key_column(column, value, self.parameters)
        };
        let is_update = self.proposal.is_none();
        let answers = self.answers(returning, View::After)?;
        Ok(Fold {
            many_rows: self.sql(&answers, Rows::Many)?,
            one_row: self.sql(&answers, Rows::One)?,
            one_each: is_update.then(|| self.one_each(returning)).transpose()?,
            probe: is_update.then(|| self.probe()).transpose()?,
            lock: (!self.reads_time()).then(|| {
                row_wait::lock_row_sql(self.table, &self.key_columns(), row_wait::NO_KEY_UPDATE)
            }),
            key: self.key.iter().map(key).collect::<Result<_, _>>()?,
            carried: self.carried.clone(),
            may_fail_unseen: self.may_fail_unseen(),
            partitioned: self.table.extent.tree.len() > 1,
            upsert: !is_update,
            returning: answers.len(),
        })
    }
}
