//! The schema of the lab. It never touches objects outside of the schema, or a schema that the lab did not create.

use super::bench_lock;
use super::tables::{FOR_DDL, SCHEMA};
use crate::connection::{Connection, Failure, Result};

/// The comment that marks a schema that the lab created.
const MARK: &str = "made by paceline bench; dropped by it, too";

/// Creates the schema, unless an earlier run left it, and locks it for this process.
///
/// # Errors
/// Those of the target; a schema of this name exists that the lab did not create; another bench holds the lock.
pub(crate) async fn open(conn: &mut Connection) -> Result<()> {
    match comment(conn).await? {
        None => {
            let sql = format!("CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'");
            conn.execute(&sql).await?;
        }
        Some(found) if found == MARK => {}
        Some(_) => {
            return Err(Failure::refused(
                "42P06",
                format!(
                    "the schema {SCHEMA} exists, and paceline bench did not make it; rename it, or choose another database"
                ),
            ));
        }
    }
    bench_lock::acquire(conn).await
}

/// Ends the use of the schema by this process: drops it with its tables, or releases the lock and keeps the tables for the
/// next run. Does nothing if the lab did not create the schema or another bench holds the lock.
pub(crate) async fn leave(conn: &mut Connection, keep_tables: bool) -> Result<()> {
    if comment(conn).await?.as_deref() != Some(MARK) || bench_lock::is_held_by_another(conn).await?
    {
        return Ok(());
    }
    if keep_tables {
        return bench_lock::release(conn).await;
    }
    let drop = format!("{FOR_DDL}; DROP SCHEMA {SCHEMA} CASCADE");
    conn.execute(&drop).await
}

/// The comment on the schema, empty if it has none; `None` if there is no such schema.
async fn comment(conn: &mut Connection) -> Result<Option<String>> {
    let sql = format!(
        "SELECT coalesce(pg_catalog.obj_description(oid, 'pg_namespace'), '') \
         FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'"
    );
    conn.value(&sql).await
}
