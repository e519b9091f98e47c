//! The lock on the schema of the lab: one bench at a time uses it, because each one creates the tables anew. A row names the
//! process that holds the lock. A lock of the session would not outlive a transaction behind a pooler.

use super::tables::SCHEMA;
use crate::connection::{Connection, Failure};
use rustix::io::Errno;
use rustix::process::{self, Pid};

/// The table with at most one row.
const TABLE: &str = "bench_lock";

/// A bench, identified by its machine and process id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BenchProcess {
    host: String,
    pid: i32,
}

/// The row of the lock.
struct Lock {
    holder: BenchProcess,
    since: String,
    /// Whether the server was started after the lock was taken; no bench uses the tables then.
    is_older_than_server: bool,
}

impl BenchProcess {
    /// This process.
    fn this() -> Self {
        let system = rustix::system::uname();
        Self {
            host: system.nodename().to_string_lossy().into_owned(),
            pid: process::getpid().as_raw_nonzero().get(),
        }
    }

    /// Whether it is a process of this machine that has ended.
    fn has_ended(&self, this: &Self) -> bool {
        let ended = |pid| process::test_kill_process(pid) == Err(Errno::SRCH);
        self.host == this.host && Pid::from_raw(self.pid).is_none_or(ended)
    }

    /// The two column values in SQL.
    fn values(&self) -> String {
        format!("'{}', {}", self.host.replace('\'', "''"), self.pid)
    }
}

/// Takes the lock on the schema, which must exist, for this process. Succeeds if this process holds it already.
///
/// # Errors
/// Those of the target; another bench holds the lock.
pub(super) async fn acquire(conn: &mut Connection) -> Result<(), Failure> {
    let this = BenchProcess::this();
    conn.query(&format!(
        "CREATE TABLE IF NOT EXISTS {SCHEMA}.{TABLE} (host text NOT NULL, pid int NOT NULL, \
         since timestamptz NOT NULL DEFAULT clock_timestamp(), one bool PRIMARY KEY DEFAULT true CHECK (one))"
    ))
    .await?;
    let insert = format!(
        "INSERT INTO {SCHEMA}.{TABLE} (host, pid) VALUES ({}) ON CONFLICT DO NOTHING",
        this.values()
    );
    conn.query(&insert).await?;
    if let Some(stale) = find(conn).await?.filter(|lock| lock.is_stale(&this)) {
        conn.query(&format!(
            "DELETE FROM {SCHEMA}.{TABLE} WHERE (host, pid) = ({})",
            stale.holder.values()
        ))
        .await?;
        conn.query(&insert).await?;
    }
    match find(conn).await? {
        Some(lock) if lock.holder == this => Ok(()),
        lock => Err(refusal(lock)),
    }
}

/// Whether another bench, which has not ended, holds the lock.
pub(super) async fn is_held_by_another(conn: &mut Connection) -> Result<bool, Failure> {
    let exists = format!(
        "SELECT count(*) FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('{SCHEMA}.{TABLE}')"
    );
    if conn.number(&exists).await? == 0 {
        return Ok(false);
    }
    let this = BenchProcess::this();
    let lock = find(conn).await?;
    Ok(lock.is_some_and(|lock| lock.holder != this && !lock.is_stale(&this)))
}

/// Releases the lock.
pub(super) async fn release(conn: &mut Connection) -> Result<(), Failure> {
    let sql = format!("DROP TABLE IF EXISTS {SCHEMA}.{TABLE}");
    conn.query(&sql).await.map(drop)
}

impl Lock {
    fn is_stale(&self, this: &BenchProcess) -> bool {
        self.is_older_than_server || self.holder.has_ended(this)
    }
}

async fn find(conn: &mut Connection) -> Result<Option<Lock>, Failure> {
    let sql = format!(
        "SELECT host, pid, date_trunc('second', since), since < pg_catalog.pg_postmaster_start_time() FROM {SCHEMA}.{TABLE}"
    );
    let rows = conn.query(&sql).await?;
    let Some([Some(host), Some(pid), Some(since), Some(is_older)]) =
        rows.first().map(Vec::as_slice)
    else {
        return Ok(None);
    };
    Ok(Some(Lock {
        holder: BenchProcess {
            host: host.clone(),
            pid: pid.parse().unwrap_or_default(),
        },
        since: since.clone(),
        is_older_than_server: is_older == "t",
    }))
}

fn refusal(lock: Option<Lock>) -> Failure {
    let holder = lock.map_or_else(String::new, |lock| {
        let BenchProcess { host, pid } = lock.holder;
        format!(" (process {pid} on {host}, since {})", lock.since)
    });
    Failure::Refused {
        sqlstate: "55006".to_owned(),
        message: format!(
            "another paceline bench works in this database{holder}; wait for its end, or, if it is gone, DROP SCHEMA {SCHEMA} CASCADE"
        ),
    }
}
