//! The ways to write one end of an edge.

use super::verifier::{Edge, Write};
use crate::connection::{Connection, Result};
use crate::statement::{Protocol, Statement, Value};
use crate::workload::values::row;
use std::sync::OnceLock;

const UPSERT: &str = "INSERT INTO paceline_lab.edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (id, target) DO UPDATE SET unixnano = EXCLUDED.unixnano, status = EXCLUDED.status \
     WHERE edge.unixnano < EXCLUDED.unixnano";

/// RETURNING provides only the new row, so the column `was` keeps the old status (1 for a new edge). A SELECT in the same
/// statement could see an older row than the upsert; the column cannot differ, because both are written under the lock of
/// the row.
const UPSERT_DEGREE: &str = "WITH written AS ( \
       INSERT INTO paceline_lab.edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4) \
       ON CONFLICT (id, target) DO UPDATE SET unixnano = EXCLUDED.unixnano, was = edge.status, status = EXCLUDED.status \
       WHERE edge.unixnano < EXCLUDED.unixnano \
       RETURNING id, (status = 0)::int - (was = 0)::int AS more) \
     INSERT /*+ COMMIT_ON_SUCCESS */ INTO paceline_lab.degree (id, degree) \
     SELECT id, more FROM written WHERE more <> 0 \
     ON CONFLICT (id) DO UPDATE SET degree = degree.degree + EXCLUDED.degree";

/// The write before it was an upsert: a transaction that reads the edge, writes it, counts it and reads it again. Every
/// statement is a round trip, and the row with the celebrity's degree remains locked until the commit.
const FIVE: [&str; 6] = [
    "SELECT unixnano, status FROM paceline_lab.edge WHERE id = $1 AND target = $2 FOR UPDATE",
    "INSERT INTO paceline_lab.edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4)",
    // For a write that does not change the status.
    "UPDATE paceline_lab.edge SET unixnano = $3 WHERE id = $1 AND target = $2",
    // For a write that changes the status.
    "UPDATE paceline_lab.edge SET unixnano = $3, status = $4 WHERE id = $1 AND target = $2",
    "INSERT INTO paceline_lab.degree (id, degree) VALUES ($1, $2) \
     ON CONFLICT (id) DO UPDATE SET degree = degree.degree + $2",
    "SELECT unixnano, status FROM paceline_lab.edge WHERE id = $1 AND target = $2",
];

/// The same with the count in two statements: `postgres_fdw` cannot execute ON CONFLICT DO UPDATE.
const COUNT_BY_COORDINATOR: [&str; 2] = [
    "UPDATE paceline_lab.degree SET degree = degree + $2 WHERE id = $1 RETURNING id",
    "INSERT INTO paceline_lab.degree (id, degree) VALUES ($1, $2)",
];

/// The statements for the shard of the edge: an upsert that returns the change of the degree, and the upsert of the degree.
const BY_SHARD: [&str; 2] = [
    "INSERT INTO paceline_lab.edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (id, target) DO UPDATE SET unixnano = EXCLUDED.unixnano, was = edge.status, status = EXCLUDED.status \
     WHERE edge.unixnano < EXCLUDED.unixnano RETURNING CASE WHEN status = 0 THEN 1 ELSE 0 END - CASE WHEN was = 0 THEN 1 ELSE 0 END",
    "INSERT INTO paceline_lab.degree (id, degree) VALUES ($1, $2) \
     ON CONFLICT (id) DO UPDATE SET degree = degree.degree + $2",
];

/// The way in which a client writes one end of an edge.
#[derive(Debug)]
pub(super) enum Writing {
    /// One upsert.
    Upsert(Statement),
    /// One statement that also updates the degree.
    Counted(Statement),
    /// A transaction that also updates the degree, with the statements of [`FIVE`].
    Five(Box<[Statement; 6]>),
    /// On sharded tables: such a transaction through the coordinator alone, the statements of [`BY_SHARD`] through Paceline.
    Sharded {
        five: Box<[Statement; 6]>,
        count: Box<[Statement; 2]>,
        by_shard: Box<[Statement; 2]>,
        /// Known from the first unit on.
        through_paceline: OnceLock<bool>,
    },
}

impl Writing {
    pub(super) fn upsert(protocol: Protocol) -> Self {
        Self::Upsert(Statement::new(0, UPSERT, protocol))
    }

    pub(super) fn counted(protocol: Protocol) -> Self {
        Self::Counted(Statement::new(0, UPSERT_DEGREE, protocol))
    }

    pub(super) fn five(protocol: Protocol) -> Self {
        let mut numbers = 0..;
        let number = |sql| Statement::new(numbers.next().unwrap_or_default(), sql, protocol);
        Self::Five(Box::new(FIVE.map(number)))
    }

    pub(super) fn sharded(protocol: Protocol) -> Self {
        let mut numbers = 0..;
        let mut number =
            |sql, protocol| Statement::new(numbers.next().unwrap_or_default(), sql, protocol);
        // The coordinator would reject the statements when they are prepared.
        let unprepared = match protocol {
            Protocol::Prepared => Protocol::Extended,
            other => other,
        };
        Self::Sharded {
            five: Box::new(FIVE.map(|sql| number(sql, protocol))),
            count: Box::new(COUNT_BY_COORDINATOR.map(|sql| number(sql, protocol))),
            by_shard: Box::new(BY_SHARD.map(|sql| number(sql, unprepared))),
            through_paceline: OnceLock::new(),
        }
    }

    /// Whether the degree always equals the number of set edges.
    pub(super) fn keeps_degrees(&self) -> bool {
        !matches!(self, Self::Upsert(_))
    }

    /// The definition of an additional column of the table, with a comma.
    pub(super) fn extra_column(&self) -> &'static str {
        match self {
            Self::Counted(_) | Self::Sharded { .. } => "was int NOT NULL DEFAULT 1, ",
            Self::Upsert(_) | Self::Five(_) => "",
        }
    }

    pub(super) async fn run(&self, conn: &mut Connection, edge: Edge, write: Write) -> Result<()> {
        let values = [edge.0, edge.1, write.unixnano, write.status].map(Value::Int);
        match self {
            Self::Five(statements) => transaction(conn, statements, None, values, write).await,
            Self::Sharded {
                five,
                count,
                by_shard,
                through_paceline,
            } => match is_paceline(conn, through_paceline).await {
                true => on_shard(conn, by_shard, values).await,
                false => transaction(conn, five, Some(count), values, write).await,
            },
            Self::Upsert(statement) | Self::Counted(statement) => {
                conn.run(statement, &values, |_| ()).await.map(drop)
            }
        }
    }
}

/// Whether a connection leads to Paceline. PostgreSQL has no such setting.
async fn is_paceline(conn: &mut Connection, known: &OnceLock<bool>) -> bool {
    if let Some(known) = known.get() {
        return *known;
    }
    let found = conn.table("SHOW GROUPS").await.is_ok();
    *known.get_or_init(|| found)
}

/// Each statement is a transaction of its own: if the second fails, the degree is wrong, and the check fails.
async fn on_shard(
    conn: &mut Connection,
    [upsert, count]: &[Statement; 2],
    [id, target, unixnano, status]: [Value<'_>; 4],
) -> Result<()> {
    let mut more = 0;
    let found = |body: &[u8]| more = row(body).map_or(0, |[more]| more);
    conn.run(upsert, &[id, target, unixnano, status], found)
        .await?;
    if more != 0 {
        conn.run(count, &[id, Value::Int(more)], |_| ()).await?;
    }
    Ok(())
}

/// If two clients insert the same edge at the same time, one gets an error (23505), as in the source. `count_by` replaces the statement that
/// counts.
async fn transaction(
    conn: &mut Connection,
    [look, insert, touch, change, count, look_again]: &[Statement; 6],
    count_by: Option<&[Statement; 2]>,
    [id, target, unixnano, status]: [Value<'_>; 4],
    write: Write,
) -> Result<()> {
    let key = [id, target];
    conn.execute("BEGIN").await?;
    let mut before = None;
    let found =
        |body: &[u8]| before = row(body).map(|[unixnano, status]| Write { unixnano, status });
    conn.run(look, &key, found).await?;
    let values = [id, target, unixnano, status];
    let (statement, values) = match before {
        None => (Some(insert), &values[..]),
        Some(before) if before > write => (None, &values[..]),
        Some(before) if before.status == write.status => (Some(touch), &values[..3]),
        Some(_) => (Some(change), &values[..]),
    };
    if let Some(statement) = statement {
        conn.run(statement, values, |_| ()).await?;
    }
    let more = more_set(before, write);
    let degree = [id, Value::Int(more)];
    match (more, count_by) {
        (0, _) => {}
        (_, None) => drop(conn.run(count, &degree, |_| ()).await?),
        (_, Some([update, insert])) => {
            let mut exists = false;
            conn.run(update, &degree, |_| exists = true).await?;
            if !exists {
                conn.run(insert, &degree, |_| ()).await?;
            }
        }
    }
    conn.run(look_again, &key, |_| ()).await?;
    conn.execute("COMMIT").await
}

/// The change of the number of set edges by a write; 0 if a newer write exists.
fn more_set(before: Option<Write>, write: Write) -> i64 {
    match before {
        Some(before) if before > write => 0,
        before => i64::from(write.is_set()) - i64::from(before.is_some_and(Write::is_set)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::verifier::{SET, UNSET};
    use super::*;

    #[test]
    fn a_degree_changes_as_the_edge_does() {
        let at = |unixnano, status| Write { unixnano, status };
        let cases = [
            (None, at(1, SET), 1),
            (None, at(1, UNSET), 0),
            (Some(at(1, SET)), at(2, SET), 0),
            (Some(at(1, SET)), at(2, UNSET), -1),
            (Some(at(1, UNSET)), at(2, SET), 1),
            (Some(at(3, SET)), at(2, UNSET), 0),
            (Some(at(3, UNSET)), at(2, SET), 0),
        ];
        for (before, write, more) in cases {
            assert_eq!(more_set(before, write), more, "{before:?}, then {write:?}");
        }
    }
}
