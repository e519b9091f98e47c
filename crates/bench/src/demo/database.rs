//! The database of the stand in which scripts run: empty each time, and never somebody else's.

use crate::connection::{Connection, Failure};

/// Its name.
pub(super) const NAME: &str = "paceline_script";
/// The comment by which the lab knows a database of its own.
const MARK: &str = "made by paceline bench; dropped by it, too";

/// Makes it; what an earlier run has left there is gone.
///
/// # Errors
/// Besides those of the server: there is a database of this name that the lab did not make.
pub(super) async fn make_empty(conn: &mut Connection) -> Result<(), Failure> {
    if is_strange(conn).await? {
        return Err(Failure::Refused {
            sqlstate: "42P04".to_owned(),
            message: format!(
                "the database {NAME} exists, and paceline bench did not make it; rename it, or choose another --data-dir"
            ),
        });
    }
    // None of these may be part of a transaction, which a text of several statements is.
    for sql in [
        format!("DROP DATABASE IF EXISTS {NAME}"),
        format!("CREATE DATABASE {NAME}"),
        format!("COMMENT ON DATABASE {NAME} IS '{MARK}'"),
    ] {
        conn.query(&sql).await?;
    }
    Ok(())
}

/// Whether there is one without the mark.
async fn is_strange(conn: &mut Connection) -> Result<bool, Failure> {
    let sql = format!(
        "SELECT count(*) FROM pg_catalog.pg_database WHERE datname = '{NAME}' \
         AND pg_catalog.shobj_description(oid, 'pg_database') IS DISTINCT FROM '{MARK}'"
    );
    Ok(conn.number(&sql).await? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Host, Target};
    use paceline_postgres::{Options, Server};

    fn target(server: &Server, database: &str) -> Target {
        Target {
            name: "direct".to_owned(),
            host: Host::Tcp("127.0.0.1".to_owned()),
            port: server.port(),
            user: server.superuser().to_owned(),
            password: None,
            database: database.to_owned(),
        }
    }

    /// Runs `sql` in the database and says how many tables of users there are then.
    async fn tables(server: &Server, sql: &str) -> i64 {
        let mut conn = Connection::open(&target(server, NAME)).await.unwrap();
        conn.query(sql).await.unwrap();
        let count = "SELECT count(*) FROM pg_catalog.pg_stat_user_tables";
        let count = conn.number(count).await.unwrap();
        conn.close().await;
        count
    }

    #[tokio::test]
    async fn only_a_database_of_the_labs_own_is_dropped() {
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
