//! The lock on the schema of the lab: one bench at a time uses it, because each one creates the tables again. A row names the
//! process that holds the lock. A lock of the session would not outlive a transaction behind a pooler.

use super::tables::SCHEMA;
use crate::connection::{Connection, Failure, Result};
use rustix::io::Errno;
use rustix::process::{self, Pid};

/// The table with at most one row.
const TABLE: &str = "bench_lock";

/// The row of the lock.
struct Lock {
    host: String,
    pid: i32,
    since: String,
    holder: Holder,
}

/// The bench that took the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    This,
    Another,
    /// Another bench that has ended: its process has, or the server was started after it took the lock.
    Gone,
}

/// The machine and the process id of this bench.
fn this() -> (String, i32) {
    let host = rustix::system::uname().nodename().to_string_lossy().into();
    (host, process::getpid().as_raw_nonzero().get())
}

/// The values of the columns `host` and `pid` in SQL.
fn values(host: &str, pid: i32) -> String {
    format!("'{}', {pid}", host.replace('\'', "''"))
}

/// Takes the lock on the schema, which must exist, for this process. Succeeds if this process holds it already.
///
/// # Errors
/// Those of the target; another bench holds the lock.
pub(super) async fn acquire(conn: &mut Connection) -> Result<()> {
    conn.execute(&format!(
        "CREATE TABLE IF NOT EXISTS {SCHEMA}.{TABLE} (host text NOT NULL, pid int NOT NULL, \
         since timestamptz NOT NULL DEFAULT clock_timestamp(), one bool PRIMARY KEY DEFAULT true CHECK (one))"
    ))
    .await?;
    let (host, pid) = this();
    let insert = format!(
        "INSERT INTO {SCHEMA}.{TABLE} (host, pid) VALUES ({}) ON CONFLICT DO NOTHING",
        values(&host, pid)
    );
    conn.execute(&insert).await?;
    let found = find(conn).await?;
    if let Some(gone) = found.filter(|lock| lock.holder == Holder::Gone) {
        let values = values(&gone.host, gone.pid);
        let delete = format!("DELETE FROM {SCHEMA}.{TABLE} WHERE (host, pid) = ({values})");
        conn.execute(&delete).await?;
        conn.execute(&insert).await?;
    }
    let holder = match find(conn).await? {
        Some(lock) if lock.holder == Holder::This => return Ok(()),
        Some(Lock {
            host, pid, since, ..
        }) => format!(" (process {pid} on {host}, since {since})"),
        None => String::new(),
    };
    Err(Failure::refused(
        "55006",
        format!(
            "another paceline bench works in this database{holder}; wait for its end, or, if it is gone, DROP SCHEMA {SCHEMA} CASCADE"
        ),
    ))
}

/// Whether another bench, which has not ended, holds the lock.
pub(super) async fn is_held_by_another(conn: &mut Connection) -> Result<bool> {
    let exists = format!(
        "SELECT count(*) FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('{SCHEMA}.{TABLE}')"
    );
    Ok(conn.number(&exists).await? > 0
        && find(conn)
            .await?
            .is_some_and(|lock| lock.holder == Holder::Another))
}

/// Releases the lock.
pub(super) async fn release(conn: &mut Connection) -> Result<()> {
    let sql = format!("DROP TABLE IF EXISTS {SCHEMA}.{TABLE}");
    conn.execute(&sql).await
}

async fn find(conn: &mut Connection) -> Result<Option<Lock>> {
    let sql = format!(
        "SELECT host, pid, date_trunc('second', since), since < pg_catalog.pg_postmaster_start_time() FROM {SCHEMA}.{TABLE}"
    );
    let row = conn.query(&sql).await?.into_iter().next();
    let values = row.map(|row| row.into_iter().flatten().collect::<Vec<String>>());
    let Some(Ok([host, pid, since, is_older_than_server])) = values.map(<[_; 4]>::try_from) else {
        return Ok(None);
    };
    let pid = pid.parse().unwrap_or_default();
    let has_ended = |pid| process::test_kill_process(pid) == Err(Errno::SRCH);
    let (this_host, this_pid) = this();
    let is_local = host == this_host;
    let holder = if is_local && pid == this_pid {
        Holder::This
    } else if is_older_than_server == "t" || is_local && Pid::from_raw(pid).is_none_or(has_ended) {
        Holder::Gone
    } else {
        Holder::Another
    };
    Ok(Some(Lock {
        host,
        pid,
        since,
        holder,
    }))
}
