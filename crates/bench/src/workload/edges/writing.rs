//! The ways to write one end of an edge.

use super::five_statements::FiveStatements;
use super::verifier::{Edge, Write};
use crate::connection::{Connection, Failure};
use crate::statement::{Protocol, Statement, Value};

const UPSERT: &str = "INSERT INTO paceline_lab.edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (id, target) DO UPDATE SET unixnano = EXCLUDED.unixnano, status = EXCLUDED.status \
     WHERE edge.unixnano < EXCLUDED.unixnano";

/// RETURNING knows the new row only, so the row itself remembers what it `was` (nothing was there: not set). What a SELECT in the same
/// statement would say may be older than the row that the upsert meets; this is not, as both are done under the row's lock.
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
    /// By one upsert.
    Upsert(Statement),
    /// By one statement that keeps the degree, too.
    Counted(Statement),
    /// By a transaction that keeps the degree, too.
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

    /// Whether a degree stays the number of set edges.
    pub(super) fn keeps_degrees(&self) -> bool {
        !matches!(self, Self::Upsert(_))
    }

    /// What the table of edges has besides, with a comma.
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
