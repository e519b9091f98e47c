//! The ways to write one end of an edge.

use super::five_statements::FiveStatements;
use super::verifier::{Edge, Write};
use crate::connection::{Connection, Failure};
use crate::statement::{Protocol, Statement, Value};

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

/// How a client writes one end of an edge.
#[derive(Debug)]
pub(super) enum Writing {
    /// One upsert.
    Upsert(Statement),
    /// One statement that also updates the degree.
    Counted(Statement),
    /// A transaction that also updates the degree.
    Five(Box<FiveStatements>),
}

impl Writing {
    pub(super) fn upsert(protocol: Protocol) -> Self {
        Self::Upsert(Statement::new(0, UPSERT, protocol))
    }

    pub(super) fn counted(protocol: Protocol) -> Self {
        Self::Counted(Statement::new(0, UPSERT_DEGREE, protocol))
    }

    pub(super) fn five(protocol: Protocol) -> Self {
        Self::Five(Box::new(FiveStatements::new(protocol)))
    }

    /// Whether the degree always equals the number of set edges.
    pub(super) fn keeps_degrees(&self) -> bool {
        !matches!(self, Self::Upsert(_))
    }

    /// The definition of an additional column of the table, with a comma.
    pub(super) fn extra_column(&self) -> &'static str {
        match self {
            Self::Counted(_) => "was int NOT NULL DEFAULT 1, ",
            Self::Upsert(_) | Self::Five(_) => "",
        }
    }

    pub(super) async fn run(
        &self,
        conn: &mut Connection,
        edge: Edge,
        write: Write,
    ) -> Result<(), Failure> {
        let statement = match self {
            Self::Five(five) => return five.run(conn, edge, write).await,
            Self::Upsert(statement) | Self::Counted(statement) => statement,
        };
        let values = [edge.0, edge.1, write.unixnano, write.status].map(Value::Int);
        conn.run(statement, &values, |_| ()).await.map(drop)
    }
}
