//! The schema of the lab. It never touches objects outside of the schema, or a schema that the lab did not create.

use super::bench_lock;
use super::tables::{FOR_DDL, SCHEMA};
use crate::connection::{Connection, Failure};

/// The comment that marks a schema that the lab created.
const MARK: &str = "made by paceline bench; dropped by it, too";

/// Creates the schema, unless an earlier run left it, and locks it for this process.
///
/// # Errors
/// Those of the target; a schema of this name exists that the lab did not create; another bench holds the lock.
pub(crate) async fn open(conn: &mut Connection) -> Result<(), Failure> {
    match comment(conn).await? {
        None => {
            let sql = format!("CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'");
            conn.query(&sql).await?;
        }
        Some(found) if found == MARK => {}
        Some(_) => {
            return Err(Failure::Refused {
                sqlstate: "42P06".to_owned(),
                message: format!(
                    "the schema {SCHEMA} exists, and paceline bench did not make it; rename it, or choose another database"
                ),
            });
        }
    }
    bench_lock::acquire(conn).await
}

/// Releases the lock of this process and leaves the schema and its tables for the next run.
pub(crate) async fn leave(conn: &mut Connection) -> Result<(), Failure> {
    if is_own(conn).await? {
        bench_lock::release(conn).await
    } else {
        Ok(())
    }
}

/// Drops the schema and its tables if the lab created it and no other bench holds the lock.
pub(crate) async fn drop(conn: &mut Connection) -> Result<(), Failure> {
    if !is_own(conn).await? {
        return Ok(());
    }
    conn.query(&format!("{FOR_DDL}; DROP SCHEMA {SCHEMA} CASCADE"))
        .await
        .map(std::mem::drop)
}

async fn is_own(conn: &mut Connection) -> Result<bool, Failure> {
    let is_marked = comment(conn).await?.as_deref() == Some(MARK);
    Ok(is_marked && !bench_lock::is_held_by_another(conn).await?)
}

/// The comment on the schema, empty if it has none; `None` if there is no such schema.
async fn comment(conn: &mut Connection) -> Result<Option<String>, Failure> {
    let sql = format!(
        "SELECT coalesce(pg_catalog.obj_description(oid, 'pg_namespace'), '') \
         FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'"
    );
    let rows = conn.query(&sql).await?;
    Ok(rows
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().next()?))
}
