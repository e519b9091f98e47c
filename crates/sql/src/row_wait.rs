//! SQL for requests that wait for a row lock: a *probe* finds out which requests PostgreSQL would answer without the
//! lock; another statement waits for the lock of one row.

use crate::facts::{Column, SAME, TableFacts};
use crate::operator::EQ;
use crate::quote::quote_ident;

/// Maximum time in milliseconds for which a request waits for a row before a probe checks whether it would wait
/// alone: for the lock as a member of a group, and behind a request that is being executed. It should exceed the time
/// of a commit.
pub const UNCHECKED_WAIT_MS: u64 = 20;

/// SQL condition that is always true and limits lock waits for the rest of the transaction.
pub(crate) fn set_lock_timeout_sql() -> String {
    format!("pg_catalog.set_config('lock_timeout', '{UNCHECKED_WAIT_MS}ms', true) IS NOT NULL")
}

/// The lock of an UPDATE that assigns no key column.
pub(crate) const NO_KEY_UPDATE: &str = "FOR NO KEY UPDATE";

/// Locks the row with this key. `locking` is the locking clause, which must request the lock that the group's statement
/// takes. The parameters are the values of the key columns. The row may be missing.
pub(crate) fn lock_row_sql(table: &TableFacts, key: &[&Column], locking: &str) -> String {
    let equal = |(place, column): (usize, &&Column)| {
        let (name, type_name) = (quote_ident(&column.name), &column.bare_type_name);
        format!("t.{name} {EQ} ${place}::{type_name}")
    };
    let conditions: Vec<String> = (1..).zip(key).map(equal).collect();
    format!(
        "SELECT FROM {} AS t WHERE {} {locking}",
        table.rows(),
        conditions.join(" AND ")
    )
}

/// A probe for existing keys. Parameters: an array for each key column, and the catalog version. Result: whether the
/// catalog version is unchanged, and the number (from 1) of each key that exists; one row with a NULL number if none
/// does.
pub(crate) fn key_probe_sql(table: &TableFacts, key: &[&Column]) -> String {
    let unnest = |(place, column): (usize, &&Column)| {
        format!("pg_catalog.unnest(${place}::{}[])", column.bare_type_name)
    };
    let arrays: Vec<String> = (1..).zip(key).map(unnest).collect();
    let names: Vec<String> = (1..=key.len()).map(|n| format!("k{n}")).collect();
    let equal = |(place, column): (usize, &&Column)| {
        format!("t.{} {EQ} k.k{place}", quote_ident(&column.name))
    };
    let conditions: Vec<String> = (1..).zip(key).map(equal).collect();
    probe_sql(
        key.len() + 1,
        &format!("ROWS FROM ({})", arrays.join(", ")),
        &names.join(", "),
        table,
        &conditions.join(" AND "),
    )
}

/// A probe: returns whether the catalog version is unchanged, and the number of each member of `source` for which a row
/// satisfies the conditions. `place` is the parameter of [`CatalogVersion::facts_sql`](crate::CatalogVersion).
pub(crate) fn probe_sql(
    place: usize,
    source: &str,
    names: &str,
    table: &TableFacts,
    conditions: &str,
) -> String {
    format!(
        "WITH facts AS MATERIALIZED ({facts}) \
         SELECT {SAME}, met.pos FROM facts LEFT JOIN (SELECT k.pos::pg_catalog.int4 AS pos \
         FROM {source} WITH ORDINALITY AS k({names}, pos) JOIN {table} AS t ON {conditions}) AS met ON facts.same",
        facts = table.catalog_version.facts_sql(place, ""),
        table = table.rows(),
    )
}
