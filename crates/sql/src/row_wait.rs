//! SQL for requests that wait for a row which somebody else has locked: a plain read that finds out which of them
//! PostgreSQL would answer without the lock (a *probe*), and a statement that waits for the lock of one row.

use crate::facts::{Column, TableFacts};
use crate::quote_ident;

/// How long a group waits in PostgreSQL for the lock of a row, and how long a request waits behind a row in flight, before
/// a probe finds out whether it would wait alone (milliseconds). Commits should be shorter.
pub const UNCHECKED_WAIT_MS: u64 = 20;

/// A condition that always holds, and limits the waits for locks in the rest of the transaction.
pub(crate) fn patience_sql() -> String {
    format!("pg_catalog.set_config('lock_timeout', '{UNCHECKED_WAIT_MS}ms', true) IS NOT NULL")
}

/// Waits for the lock that an UPDATE of no key column takes on the row with this key; the parameters are the values of its
/// columns. There may be no such row.
pub(crate) fn lock_sql(table: &TableFacts, key: &[&Column]) -> String {
    let equal = |(place, column): (usize, &&Column)| {
        let (name, type_name) = (quote_ident(&column.name), &column.bare_type_name);
        format!("t.{name} = ${place}::{type_name}")
    };
    let conditions: Vec<String> = (1..).zip(key).map(equal).collect();
    format!(
        "SELECT FROM {} AS t WHERE {} FOR NO KEY UPDATE",
        table.qualified(),
        conditions.join(" AND ")
    )
}

/// A probe for rows that are there: its parameters are an array for each column of the key and the fingerprint, its result
/// one row with whether the fingerprint is the same (without a number), or that and the number of each key (from 1) whose
/// row is there.
pub(crate) fn key_probe_sql(table: &TableFacts, fingerprint: &str, key: &[&Column]) -> String {
    let unnest = |(place, column): (usize, &&Column)| {
        format!("pg_catalog.unnest(${place}::{}[])", column.bare_type_name)
    };
    let arrays: Vec<String> = (1..).zip(key).map(unnest).collect();
    let names: Vec<String> = (1..=key.len()).map(|n| format!("k{n}")).collect();
    let equal = |(place, column): (usize, &&Column)| {
        format!("t.{} = k.k{place}", quote_ident(&column.name))
    };
    let conditions: Vec<String> = (1..).zip(key).map(equal).collect();
    probe_sql(
        &format!("{fingerprint} = ${}", key.len() + 1),
        &format!("ROWS FROM ({})", arrays.join(", ")),
        &names.join(", "),
        table,
        &conditions.join(" AND "),
    )
}

/// A probe: whether the facts hold, and the numbers of those in `source` that meet a row under these conditions.
pub(crate) fn probe_sql(
    facts: &str,
    source: &str,
    names: &str,
    table: &TableFacts,
    conditions: &str,
) -> String {
    format!(
        "WITH facts AS MATERIALIZED (SELECT {facts} AS same) \
         SELECT facts.same, met.pos FROM facts LEFT JOIN (SELECT k.pos::pg_catalog.int4 AS pos \
         FROM {source} WITH ORDINALITY AS k({names}, pos) JOIN {table} AS t ON {conditions}) AS met ON facts.same",
        table = table.qualified(),
    )
}
