//! The lab's own schema: nothing outside it is touched, and nothing in it that the lab did not make.

use super::occupant;
use crate::connection::{Connection, Failure};

/// The schema in which every table of the lab is.
pub(crate) const SCHEMA: &str = "paceline_lab";
/// The comment by which the lab knows a schema of its own.
const MARK: &str = "made by paceline bench; dropped by it, too";
/// Goes before DDL, in the same text and so in the same transaction: quiet, and whoever holds a lock is not waited for without limit.
const FOR_DDL: &str = "SET LOCAL client_min_messages = warning; SET LOCAL lock_timeout = '10s'";

/// Makes the schema, unless an earlier run has left it, and takes it for this process.
///
/// # Errors
/// Besides those of the target: there is a schema of this name that the lab did not make, or another bench works in it.
pub(crate) async fn open_schema(conn: &mut Connection) -> Result<(), Failure> {
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
    occupant::enter(conn).await
}

/// Leaves the schema and all that is in it to whoever comes next, if it is this process's.
pub(crate) async fn leave_schema(conn: &mut Connection) -> Result<(), Failure> {
    match is_ours(conn).await? {
        true => occupant::leave(conn).await,
        false => Ok(()),
    }
}

/// Drops the schema and all that is in it, if the lab made it and no other bench works in it.
pub(crate) async fn drop_schema(conn: &mut Connection) -> Result<(), Failure> {
    if !is_ours(conn).await? {
        return Ok(());
    }
    conn.query(&format!("{FOR_DDL}; DROP SCHEMA {SCHEMA} CASCADE"))
        .await
        .map(drop)
}

/// Whether `table` is there, made by this very `recipe` (see [`note_recipe`]); anything else of its name is dropped.
pub(crate) async fn is_made(
    conn: &mut Connection,
    table: &str,
    recipe: &str,
) -> Result<bool, Failure> {
    let found = conn
        .query(&format!(
            "SELECT pg_catalog.obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c \
             WHERE c.oid = pg_catalog.to_regclass('{SCHEMA}.{table}')"
        ))
        .await?;
    let found = found.first().and_then(|row| row.first()?.as_deref());
    if found == Some(recipe) {
        return Ok(true);
    }
    conn.query(&format!(
        "{FOR_DDL}; DROP TABLE IF EXISTS {SCHEMA}.{table} CASCADE"
    ))
    .await?;
    Ok(false)
}

/// Writes down that `table` is complete, and how it was made. Comes after the rows.
pub(crate) async fn note_recipe(
    conn: &mut Connection,
    table: &str,
    recipe: &str,
) -> Result<(), Failure> {
    let recipe = recipe.replace('\'', "''");
    let sql = format!("COMMENT ON TABLE {SCHEMA}.{table} IS '{recipe}'");
    conn.query(&sql).await.map(drop)
}

async fn is_ours(conn: &mut Connection) -> Result<bool, Failure> {
    let is_marked = comment(conn).await?.as_deref() == Some(MARK);
    Ok(is_marked && !occupant::is_another(conn).await?)
}

/// The comment on the lab's schema, empty if there is none; `None`: there is no such schema.
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
