//! Edge store: a social graph in which the newest write to an edge applies and one id is a celebrity (SCENARIOS 3). A unit
//! is a write of one end of an edge, or a read. A request of the source writes both ends of an edge, which are two units.

mod fresh_reads;
mod graph;
mod reads;
mod verifier;
mod writing;

use super::interface::{Client, Outcome, Turn, Workload, lock};
use super::known::CheckedReads;
use super::scenario::{Scenario, Sizes, variants};
use super::tables::{self, SCHEMA};
use super::values::{array, row};
use crate::connection::{Connection, Result};
use crate::record::CheckResult;
use crate::session::Session;
use crate::show;
use crate::statement::{Protocol, Statement, Value};
use fresh_reads::{ClientEdges, FreshReads};
pub(super) use graph::Graph;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reads::Reads;
use std::sync::Mutex;
pub(super) use verifier::Edge;
use verifier::{Verifier, Write};
use writing::Writing;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "edges",
    title: "Edge store: a social graph",
    about: "clients write which user follows which; the newest write wins, and every fifth is about the same celebrity",
    unit: "requests",
    variants: variants! {
        "upsert", "a write is one upsert; degrees are not kept",
            |sizes| Edges::new(Writing::upsert(sizes.protocol), Connections::Kept, sizes);
        "five-statements", "a write is a transaction of five statements, as it was before; degrees are kept",
            |sizes| Edges::new(Writing::five(sizes.protocol), Connections::Kept, sizes);
        "short-connections", "the same, each write on its own connection",
            |sizes| Edges::new(Writing::five(sizes.protocol), Connections::Short, sizes);
        "bounded-pool", "the same by the workers of an application with a pool of 32 connections",
            |sizes| Edges::new(Writing::five(sizes.protocol), Connections::Shared, sizes);
        "upsert-degree", "a write is one hinted statement: the upsert of the edge and that of its degree",
            |sizes| Edges::new(Writing::counted(sizes.protocol), Connections::Kept, sizes);
        "mixed", "half upserts, half reads: the newest page, membership, the degree",
            |sizes| Edges {
                reads: Some(EdgeReads::Plain(Reads::new(sizes.protocol))),
                ..Edges::new(Writing::upsert(sizes.protocol), Connections::Kept, sizes)
            };
        "planes", "half upserts on the primary, half reads: the newest page, and what the client has written", on Replicated,
            |sizes| Edges {
                reads: Some(EdgeReads::Fresh(FreshReads::new(sizes.protocol))),
                ..Edges::new(Writing::upsert(sizes.protocol), Connections::Kept, sizes)
            };
        "sharded", "five statements through the coordinator (the count in two); through Paceline two upserts on the shard of the edge",
            on Sharded, by [("edge", "id"), ("degree", "id")],
            |sizes| Edges::new(Writing::sharded(sizes.protocol), Connections::Kept, sizes);
    },
    clients: &[160],
    clients_full: &[160],
    rows: Some((1, ROWS_LEDGER)),
};

/// Connections of `bounded-pool`: the number of one application server of the source.
const SHARED_CONNECTIONS: usize = 32;
/// Number of writes in the tables when a run begins.
const ROWS: u64 = 20_000;
const ROWS_FULL: u64 = 1_000_000;
/// Maximum number of rows. The verifier stores every edge; this number needs one or two gigabytes of memory.
const ROWS_LEDGER: u64 = 10_000_000;
/// Rows per INSERT that fills the table.
const FILL_ROWS: usize = 10_000;

/// The connections of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connections {
    /// Each client keeps its own connection.
    Kept,
    /// Each client opens and closes a connection per unit.
    Short,
    /// The clients share [`SHARED_CONNECTIONS`] connections.
    Shared,
}

/// The reads of a variant with reads, which are half of its requests.
enum EdgeReads {
    /// Answers are compared with the question.
    Plain(Reads),
    /// Answers are also compared with what the client knows.
    Fresh(FreshReads),
}

impl EdgeReads {
    async fn run(
        &self,
        conn: &mut Connection,
        graph: &Graph,
        client: &mut ClientEdges,
        rng: &mut StdRng,
    ) -> Result<()> {
        match self {
            Self::Plain(reads) => reads.run(conn, graph, rng).await,
            Self::Fresh(reads) => reads.run(conn, graph, client, rng).await,
        }
    }

    /// Adds the result of all reads to `check`.
    fn check(&self, check: &mut CheckResult) {
        let wrong = match self {
            Self::Plain(reads) => reads.wrong(),
            Self::Fresh(reads) => reads.wrong(),
        };
        check.holds &= wrong == 0;
        check.says += &match wrong {
            0 => "; every read got what it asked for".to_owned(),
            wrong => format!("; {} reads got a wrong answer", show::count(wrong)),
        };
        if let Self::Fresh(FreshReads { checked, .. }) = self {
            check.holds &= checked.stale() == 0;
            check.says += &format!("; {}", checked.says());
        }
    }
}

struct Edges {
    writing: Writing,
    connections: Connections,
    reads: Option<EdgeReads>,
    graph: Graph,
    verifier: Mutex<Verifier>,
}

impl Edges {
    fn new(writing: Writing, connections: Connections, sizes: &Sizes) -> Self {
        let (graph, mut rng) = (Graph::new(), StdRng::seed_from_u64(sizes.seed));
        let writes = (0..sizes.rows(ROWS, ROWS_FULL)).map(|_| graph.write(&mut rng));
        let verifier = Mutex::new(Verifier::starting(writes));
        Self {
            writing,
            connections,
            reads: None,
            graph,
            verifier,
        }
    }

    async fn write(
        &self,
        conn: &mut Connection,
        client: &mut ClientEdges,
        rng: &mut StdRng,
    ) -> Result<()> {
        let (edge, write) = self.graph.write(rng);
        lock(&self.verifier).sent(edge, write);
        let answer = self.writing.run(conn, edge, write).await;
        lock(&self.verifier).answered(edge, write, &answer);
        if answer.is_ok() && self.reads.is_some() {
            client.written(edge, write.unixnano);
        }
        answer
    }
}

impl Workload for Edges {
    type Memory = ClientEdges;

    async fn prepare(&mut self, conn: &mut Connection) -> Result<()> {
        let was = self.writing.extra_column();
        let edge = format!(
            "CREATE TABLE {SCHEMA}.edge (id bigint, target bigint, unixnano bigint NOT NULL, status int NOT NULL, \
             {was}PRIMARY KEY (id, target))"
        );
        let degree =
            format!("CREATE TABLE {SCHEMA}.degree (id bigint PRIMARY KEY, degree bigint NOT NULL)");
        tables::recreate(conn, "edge", &edge).await?;
        tables::recreate(conn, "degree", &degree).await?;
        if self.reads.is_some() {
            // Index for the query of the newest page.
            let sql = format!("CREATE INDEX edge_newest ON {SCHEMA}.edge (id, unixnano)");
            conn.execute(&sql).await?;
        }
        let mut edges = lock(&self.verifier).newest();
        edges.sort_unstable();
        for some in edges.chunks(FILL_ROWS) {
            fill(conn, some).await?;
        }
        conn.execute(&format!(
            "INSERT INTO {SCHEMA}.degree SELECT id, count(*) FROM {SCHEMA}.edge WHERE status = 0 GROUP BY id; \
             ANALYZE {SCHEMA}.edge; ANALYZE {SCHEMA}.degree"
        ))
        .await
    }

    async fn turn(
        &self,
        Client { rng, memory, .. }: &mut Client<ClientEdges>,
        session: &mut Session,
    ) -> Result<Turn> {
        let reads = self.reads.as_ref().filter(|_| rng.random());
        let conn = session.connection().await;
        let done = match (conn, reads) {
            (Ok(conn), Some(reads)) => reads.run(conn, &self.graph, memory, rng).await,
            (Ok(conn), None) => self.write(conn, memory, rng).await,
            (Err(failure), _) => Err(failure),
        };
        if self.connections == Connections::Short {
            session.terminate().await;
        }
        done.map(|()| Turn::Done)
    }

    async fn check(&self, conn: &mut Connection, outcome: Outcome) -> Result<CheckResult> {
        // Compares every edge with the answers that clients received.
        let sql = format!("SELECT id, target, unixnano, status FROM {SCHEMA}.edge");
        let all = Statement::new(0, sql, Protocol::Extended);
        let mut audit = lock(&self.verifier).audit();
        conn.run(&all, &[], |body| {
            if let Some([id, target, unixnano, status]) = row(body) {
                audit.row((id, target), Write { unixnano, status });
            }
        })
        .await?;
        let findings = audit.end();
        let mut check = CheckResult {
            // The load counts turns in doubt; the verifier counts writes in doubt.
            holds: findings.hold() && findings.open <= outcome.unknown,
            says: findings.says(),
        };
        if self.writing.keeps_degrees() {
            check_degrees(conn, &mut check).await?;
        }
        if let Some(reads) = &self.reads {
            reads.check(&mut check);
        }
        Ok(check)
    }

    fn reads(&self) -> Option<&CheckedReads> {
        match &self.reads {
            Some(EdgeReads::Fresh(reads)) => Some(&reads.checked),
            Some(EdgeReads::Plain(_)) | None => None,
        }
    }

    fn shared_connections(&self) -> Option<usize> {
        (self.connections == Connections::Shared).then_some(SHARED_CONNECTIONS)
    }

    fn connects_itself(&self) -> bool {
        self.connections == Connections::Short
    }
}

/// Inserts edges. They are passed as four arrays, so that a pooler that parses texts has little work.
async fn fill(conn: &mut Connection, edges: &[(Edge, Write)]) -> Result<()> {
    let sql = format!(
        "INSERT INTO {SCHEMA}.edge (id, target, unixnano, status) \
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[])"
    );
    let column = |of: fn(&(Edge, Write)) -> i64| array(edges.iter().map(of));
    let arrays = [
        column(|(edge, _)| edge.0),
        column(|(edge, _)| edge.1),
        column(|(_, write)| write.unixnano),
        column(|(_, write)| write.status),
    ];
    let values = arrays.each_ref().map(|text| Value::Text(text));
    let statement = Statement::new(0, sql, Protocol::Extended);
    conn.run(&statement, &values, |_| ()).await.map(drop)
}

/// Adds to `check` whether every degree equals the number of set edges.
async fn check_degrees(conn: &mut Connection, check: &mut CheckResult) -> Result<()> {
    let set = format!(
        "(SELECT id, count(*) AS set FROM {SCHEMA}.edge WHERE status = 0 GROUP BY id) AS edges"
    );
    let other = conn
        .number(&format!(
            "SELECT count(*) FROM {set} FULL JOIN {SCHEMA}.degree USING (id) \
             WHERE coalesce(edges.set, 0) <> coalesce(degree.degree, 0)"
        ))
        .await?;
    check.holds &= other == 0;
    check.says += &match other {
        0 => "; every degree is the number of set edges".to_owned(),
        other => format!(
            "; {} degrees are not the number of set edges",
            show::count(other.unsigned_abs())
        ),
    };
    Ok(())
}
