//! The database of the demonstration in which scripts run. It is empty at the start, and the lab drops only a database
//! that it created.

use crate::connection::{Connection, Failure, Result};

pub(super) const NAME: &str = "paceline_script";
/// The comment that marks a database that the lab created.
const MARK: &str = "made by paceline bench; dropped by it, too";

/// Creates the database; drops one that an earlier run left.
///
/// # Errors
/// Those of the server; a database of this name exists that the lab did not create.
pub(super) async fn make_empty(conn: &mut Connection) -> Result<()> {
    if is_foreign(conn).await? {
        return Err(Failure::refused(
            "42P04",
            format!(
                "the database {NAME} exists, and paceline bench did not make it; rename it, or choose another --data-dir"
            ),
        ));
    }
    // These statements cannot run in a transaction, and a query string with several statements is one.
    for sql in [
        format!("DROP DATABASE IF EXISTS {NAME}"),
        format!("CREATE DATABASE {NAME}"),
        format!("COMMENT ON DATABASE {NAME} IS '{MARK}'"),
    ] {
        conn.execute(&sql).await?;
    }
    Ok(())
}

/// Whether a database of this name exists without the mark.
async fn is_foreign(conn: &mut Connection) -> Result<bool> {
    let sql = format!(
        "SELECT count(*) FROM pg_catalog.pg_database WHERE datname = '{NAME}' \
         AND pg_catalog.shobj_description(oid, 'pg_database') IS DISTINCT FROM '{MARK}'"
    );
    Ok(conn.number(&sql).await? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use paceline_postgres::{Options, Server};

    fn target(server: &Server, database: &str) -> Target {
        Target::on_loopback("direct", server.port(), server.superuser(), database)
    }

    /// Runs `sql` in the database and returns the number of user tables.
    async fn tables(server: &Server, sql: &str) -> i64 {
        let mut conn = Connection::open(&target(server, NAME)).await.unwrap();
        conn.query(sql).await.unwrap();
        let count = "SELECT count(*) FROM pg_catalog.pg_stat_user_tables";
        let count = conn.number(count).await.unwrap();
        conn.close().await;
        count
    }

    #[tokio::test]
    async fn only_a_database_of_the_lab_is_dropped() {
        let folder = tempfile::Builder::new().prefix("lab").tempdir().unwrap();
        let server = Server::start(Options::new(folder.path())).unwrap();
        let mut conn = Connection::open(&target(&server, "postgres"))
            .await
            .unwrap();
        for _ in 0..2 {
            make_empty(&mut conn).await.unwrap();
            assert_eq!(tables(&server, "CREATE TABLE mine (id int)").await, 1);
        }
        let unmark = format!("COMMENT ON DATABASE {NAME} IS NULL");
        conn.query(&unmark).await.unwrap();
        let failure = make_empty(&mut conn).await.unwrap_err();
        assert_eq!(failure.kind(), "42P04");
        assert_eq!(tables(&server, "SELECT").await, 1);
    }
}
