//! Who works in the lab's schema: one bench at a time, as each makes the tables anew. A row says which process it is; session
//! state, such as a lock, would not outlive a transaction behind a pooler.

use super::tables::SCHEMA;
use crate::connection::{Connection, Failure};
use rustix::io::Errno;
use rustix::process::{self, Pid};

/// The table of one row.
const TABLE: &str = "occupant";

/// A bench, as a process of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Occupant {
    host: String,
    pid: i32,
}

/// Whoever the row names, and since when.
struct Found {
    occupant: Occupant,
    since: String,
    /// The server has started since: nobody's tables are in use.
    is_over: bool,
}

impl Occupant {
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

    /// As two values of SQL.
    fn values(&self) -> String {
        format!("'{}', {}", self.host.replace('\'', "''"), self.pid)
    }
}

/// Takes the schema, which must be there, for this process; it may have it already.
///
/// # Errors
/// Besides those of the target: another bench has it.
pub(super) async fn enter(conn: &mut Connection) -> Result<(), Failure> {
    let this = Occupant::this();
    conn.query(&format!(
        "CREATE TABLE IF NOT EXISTS {SCHEMA}.{TABLE} (host text NOT NULL, pid int NOT NULL, \
         since timestamptz NOT NULL DEFAULT clock_timestamp(), one bool PRIMARY KEY DEFAULT true CHECK (one))"
    ))
    .await?;
    let enter = format!(
        "INSERT INTO {SCHEMA}.{TABLE} (host, pid) VALUES ({}) ON CONFLICT DO NOTHING",
        this.values()
    );
    conn.query(&enter).await?;
    if let Some(gone) = find(conn).await?.filter(|found| found.is_gone(&this)) {
        conn.query(&format!(
            "DELETE FROM {SCHEMA}.{TABLE} WHERE (host, pid) = ({})",
            gone.occupant.values()
        ))
        .await?;
        conn.query(&enter).await?;
    }
    match find(conn).await? {
        Some(found) if found.occupant == this => Ok(()),
        found => Err(refusal(found)),
    }
}

/// Whether the schema is another bench's, which has not ended.
pub(super) async fn is_another(conn: &mut Connection) -> Result<bool, Failure> {
    let is_there = format!(
        "SELECT count(*) FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('{SCHEMA}.{TABLE}')"
    );
    if conn.number(&is_there).await? == 0 {
        return Ok(false);
    }
    let this = Occupant::this();
    let found = find(conn).await?;
    Ok(found.is_some_and(|found| found.occupant != this && !found.is_gone(&this)))
}

/// Gives the schema back.
pub(super) async fn leave(conn: &mut Connection) -> Result<(), Failure> {
    let sql = format!("DROP TABLE IF EXISTS {SCHEMA}.{TABLE}");
    conn.query(&sql).await.map(drop)
}

impl Found {
    fn is_gone(&self, this: &Occupant) -> bool {
        self.is_over || self.occupant.has_ended(this)
    }
}

async fn find(conn: &mut Connection) -> Result<Option<Found>, Failure> {
    let sql = format!(
        "SELECT host, pid, date_trunc('second', since), since < pg_catalog.pg_postmaster_start_time() FROM {SCHEMA}.{TABLE}"
    );
    let rows = conn.query(&sql).await?;
    let Some([Some(host), Some(pid), Some(since), Some(is_over)]) = rows.first().map(Vec::as_slice)
    else {
        return Ok(None);
    };
    Ok(Some(Found {
        occupant: Occupant {
            host: host.clone(),
            pid: pid.parse().unwrap_or_default(),
        },
        since: since.clone(),
        is_over: is_over == "t",
    }))
}

fn refusal(found: Option<Found>) -> Failure {
    let who = found.map_or_else(String::new, |found| {
        let Occupant { host, pid } = found.occupant;
        format!(" (process {pid} on {host}, since {})", found.since)
    });
    Failure::Refused {
        sqlstate: "55006".to_owned(),
        message: format!(
            "another paceline bench works in this database{who}; wait for its end, or, if it is gone, DROP SCHEMA {SCHEMA} CASCADE"
        ),
    }
}
