//! Tables in the schema of the lab, and the definitions from which they were created.

use crate::connection::{Connection, Result};

/// The schema that contains every table of the lab.
pub(crate) const SCHEMA: &str = "paceline_lab";
/// Precedes DDL in the same query string, and so in the same transaction: suppresses notices and limits the wait for locks.
pub(super) const FOR_DDL: &str =
    "SET LOCAL client_min_messages = warning; SET LOCAL lock_timeout = '10s'";

/// Whether `table` exists and was created from this `definition` (see [`record_definition`]). Drops any other table of the
/// name.
pub(super) async fn exists_as(
    conn: &mut Connection,
    table: &str,
    definition: &str,
) -> Result<bool> {
    let found = conn
        .value(&format!(
            "SELECT pg_catalog.obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c \
             WHERE c.oid = pg_catalog.to_regclass('{SCHEMA}.{table}')"
        ))
        .await?;
    let exists = found.as_deref() == Some(definition);
    if !exists {
        drop_table(conn, table).await?;
    }
    Ok(exists)
}

/// Drops `table` if it exists.
pub(super) async fn drop_table(conn: &mut Connection, table: &str) -> Result<()> {
    let sql = format!("{FOR_DDL}; DROP TABLE IF EXISTS {SCHEMA}.{table} CASCADE");
    conn.execute(&sql).await
}

/// Drops `table` if it exists, and executes the statements that create it. Most workloads call it for each run: the table
/// of the last run is full of dead rows, or its pages have free space that makes updates cheaper.
pub(super) async fn recreate(conn: &mut Connection, table: &str, definition: &str) -> Result<()> {
    drop_table(conn, table).await?;
    conn.execute(definition).await
}

/// Records, as the comment of `table`, that it is complete and how it was created. Call it after inserting the rows.
pub(super) async fn record_definition(
    conn: &mut Connection,
    table: &str,
    definition: &str,
) -> Result<()> {
    let definition = definition.replace('\'', "''");
    let sql = format!("COMMENT ON TABLE {SCHEMA}.{table} IS '{definition}'");
    conn.execute(&sql).await
}
