//! Upserts of several rows: the clients' own upsert with the rows of all of them.
//!
//! The rows of different clients must have different keys. Then no client's rows affect another client, and each
//! receives the result that it would have received alone. The conditions for upserts of one row apply, too.

use super::key::Key;
use super::one_row::rewrite_first;
use super::proposal::OnConflict;
use super::statement::{InsertedRows, Source, change_sql, insert_sql};
use crate::distribution::{DistributionRefusal, PerMember, PerMemberParameter, Shared};
use crate::facts::TableFacts;
use crate::fold::{self, KeyClass, KeyColumn};
use crate::merge::insert::Insert;
use crate::merge::rows::Rows;
use crate::type_name::TypeName;
use crate::value::KeyValue;

/// The statement and how to fill its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiRowUpsert {
    /// The text of the statement. Its parameters: the catalog version, the lock timeout, the values of `shared`, the
    /// number of each row, and the arrays of `per_member`. Its result: [`super::UPSERT_RESULT_COLUMNS`], the key of each inserted
    /// or updated row (NULL if there is none), the RETURNING columns.
    pub text: String,
    /// Under DO NOTHING, a query for the keys that exist. Its parameters: the arrays of the key and the catalog version.
    pub probe: Option<String>,
    /// For each row, the key columns and the source of their values. Their values can be compared without PostgreSQL.
    pub keys: Vec<Vec<KeyColumn>>,
    /// Parameters with the same value for all members: those of DO UPDATE.
    pub shared: Vec<u32>,
    /// Parameters with a value for each member; never empty.
    pub per_member: Vec<PerMemberParameter>,
    /// Whether the clause is DO UPDATE. Then a member with two rows of one key receives an error.
    pub changes: bool,
    /// Number of RETURNING columns.
    pub returning: usize,
}

/// Rewrites an `insert` of several rows with ON CONFLICT for many clients; `on_conflict` is the result of
/// [`super::on_conflict`].
///
/// # Errors
/// [`DistributionRefusal`]: why the INSERT cannot be rewritten.
pub fn rewrite_multi_row(
    insert: &Insert,
    on_conflict: Option<&OnConflict>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<MultiRowUpsert, DistributionRefusal> {
    let rows = Rows::of(&insert.rows, parameters)?;
    let one = rewrite_first(insert, on_conflict, table, parameters, returning)?;
    if let Some(opaque) = one.key.iter().find(|key| key.class == KeyClass::Opaque) {
        return Err(fold::FoldRefusal::KeyType(opaque.name.clone()).into());
    }
    let shared: Vec<u32> = insert.change_parameters().into_iter().collect();
    let mut values = insert.rows.iter().flatten().flatten();
    if values.any(|expr| expr.parameters().iter().any(|n| shared.contains(n))) {
        return Err(DistributionRefusal::Mixed);
    }
    let per_member = PerMember::of(rows.exprs(insert), &shared, parameters)?;
    let text = text(
        insert,
        on_conflict,
        table,
        parameters,
        returning,
        (&per_member, &shared),
    )?;
    let per_member = per_member.into_list(|number| rows.numbers(number));
    if per_member.is_empty() {
        return Err(DistributionRefusal::Rows);
    }
    let columns: Vec<Vec<KeyColumn>> = one
        .key
        .iter()
        .map(|key| in_rows(key, &rows, insert.rows.len()))
        .collect();
    let in_row = |row: usize| {
        columns
            .iter()
            .filter_map(move |column| column.get(row).cloned())
    };
    Ok(MultiRowUpsert {
        text,
        probe: one.probe,
        keys: (0..insert.rows.len())
            .map(|row| in_row(row).collect())
            .collect(),
        shared,
        per_member,
        changes: on_conflict.is_some(),
        returning: returning.len(),
    })
}

/// A key column of the first row, with its value in each row.
fn in_rows(key: &KeyColumn, rows: &Rows, count: usize) -> Vec<KeyColumn> {
    let with = |value| KeyColumn {
        value,
        ..key.clone()
    };
    match &key.value {
        KeyValue::Parameter(first) => {
            let numbers = rows.numbers(*first).into_iter();
            numbers.map(|n| with(KeyValue::Parameter(n))).collect()
        }
        KeyValue::Constant { .. } => vec![key.clone(); count],
    }
}

fn text(
    insert: &Insert,
    on_conflict: Option<&OnConflict>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
    (per_member, shared): (&PerMember, &[u32]),
) -> Result<String, DistributionRefusal> {
    let shared = Shared::of(shared, parameters)?;
    let valued = insert.valued(table)?;
    let source = Source {
        per_member,
        shared: &shared,
        valued: &valued,
        computed: on_conflict.map_or(&[], |change| &change.computed),
    };
    let change = change_sql(insert, &|number| source.shared(number))?;
    let action = change.unwrap_or_else(|| "DO NOTHING".to_owned());
    let key = Key::of(insert, table)?;
    let action = (&*action, InsertedRows::ByKey);
    insert_sql(insert, table, &key, &source, action, returning)
}
