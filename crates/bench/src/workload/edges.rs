//! Edge store: a social graph in which the newest write to an edge applies and one id is a celebrity (SCENARIOS 3). A unit
//! is a write of one end of an edge, or a read. A request of the source writes both ends of an edge, which are two units.

mod five_statements;
mod graph;
mod reads;
mod verifier;
mod writing;

use super::client::{Client, Pending, Turn};
use super::scenario::{Check, Outcome, Scenario, Sizes, Variant, Workload};
use super::tables::{self, SCHEMA};
use super::values::{array, row};
use crate::connection::{Connection, Failure};
use crate::session::Session;
use crate::show;
use crate::statement::{Protocol, Statement, Value};
use graph::Graph;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reads::Reads;
use std::sync::Arc;
use verifier::{Edge, Findings, Verifier, Write};
use writing::Writing;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "edges",
    title: "Edge store: a social graph",
    about: "clients write who follows whom; the newest write wins, and every fifth is about the same celebrity",
    unit: "requests",
    variants: &[
        Variant {
            name: "upsert",
            about: "a write is one upsert; degrees are not kept",
            build: |sizes| Edges::build(Writing::upsert(sizes.protocol), Connections::Kept, sizes),
        },
        Variant {
            name: "five-statements",
            about: "a write is a transaction of five statements, as it was before; degrees are kept",
            build: |sizes| Edges::build(Writing::five(sizes.protocol), Connections::Kept, sizes),
        },
        Variant {
            name: "short-connections",
            about: "the same, each write on its own connection",
            build: |sizes| Edges::build(Writing::five(sizes.protocol), Connections::Short, sizes),
        },
        Variant {
            name: "bounded-pool",
            about: "the same by the workers of an application with a pool of 32 connections",
            build: |sizes| Edges::build(Writing::five(sizes.protocol), Connections::Shared, sizes),
        },
        Variant {
            name: "upsert-degree",
            about: "a write is one hinted statement: the upsert of the edge and that of its degree",
            build: |sizes| Edges::build(Writing::counted(sizes.protocol), Connections::Kept, sizes),
        },
        Variant {
            name: "mixed",
            about: "half upserts, half reads: the newest page, membership, the degree",
            build: Edges::build_mixed,
        },
    ],
    clients: &[160],
    clients_full: &[160],
    rows: Some((1, ROWS_LEDGER)),
};

/// Connections of `bounded-pool`: as many as one application server of the source has.
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

struct Edges {
    work: Arc<Work>,
    connections: Connections,
}

/// State that the clients share.
struct Work {
    writing: Writing,
    reads: Option<Reads>,
    graph: Graph,
    verifier: Verifier,
}

impl Edges {
    fn build(writing: Writing, connections: Connections, sizes: &Sizes) -> Box<dyn Workload> {
        Self::build_with(writing, None, connections, sizes)
    }

    fn build_mixed(sizes: &Sizes) -> Box<dyn Workload> {
        let (writing, reads) = (Writing::upsert(sizes.protocol), Reads::new(sizes.protocol));
        Self::build_with(writing, Some(reads), Connections::Kept, sizes)
    }

    fn build_with(
        writing: Writing,
        reads: Option<Reads>,
        connections: Connections,
        sizes: &Sizes,
    ) -> Box<dyn Workload> {
        let (rows, mut rng) = (
            sizes.rows(ROWS, ROWS_FULL),
            StdRng::seed_from_u64(sizes.seed),
        );
        let graph = Graph::new();
        let verifier = Verifier::starting((0..rows).map(|_| graph.write(&mut rng)));
        Box::new(Self {
            work: Arc::new(Work {
                writing,
                reads,
                graph,
                verifier,
            }),
            connections,
        })
    }
}

impl Workload for Edges {
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, Result<(), Failure>> {
        Box::pin(async move {
            make_tables(conn, &self.work).await?;
            let mut edges = self.work.verifier.newest();
            edges.sort_unstable();
            for some in edges.chunks(FILL_ROWS) {
                fill(conn, some).await?;
            }
            conn.query(&format!(
                "INSERT INTO {SCHEMA}.degree SELECT id, count(*) FROM {SCHEMA}.edge WHERE status = 0 GROUP BY id; \
                 ANALYZE {SCHEMA}.edge; ANALYZE {SCHEMA}.degree"
            ))
            .await
            .map(drop)
        })
    }

    fn client(&self, _number: usize, rng: StdRng) -> Box<dyn Client> {
        Box::new(Follower {
            work: Arc::clone(&self.work),
            connections: self.connections,
            rng,
        })
    }

    fn shared_connections(&self) -> Option<usize> {
        (self.connections == Connections::Shared).then_some(SHARED_CONNECTIONS)
    }

    fn check<'a>(
        &'a self,
        conn: &'a mut Connection,
        outcome: Outcome,
    ) -> Pending<'a, Result<Check, Failure>> {
        Box::pin(async move {
            let findings = audit(conn, &self.work.verifier).await?;
            let mut check = Check {
                // The load counts turns in doubt; the verifier counts writes in doubt.
                holds: findings.hold() && findings.open <= outcome.unknown,
                says: findings.says(),
            };
            if self.work.writing.keeps_degrees() {
                check_degrees(conn, &mut check).await?;
            }
            if let Some(reads) = &self.work.reads {
                let wrong = reads.wrong();
                check.holds &= wrong == 0;
                check.says += &match wrong {
                    0 => "; every read got what it asked for".to_owned(),
                    wrong => format!("; {} reads got a wrong answer", show::count(wrong)),
                };
            }
            Ok(check)
        })
    }
}

/// Creates new tables for each run: those of the last run are full of dead rows.
async fn make_tables(conn: &mut Connection, work: &Work) -> Result<(), Failure> {
    tables::drop_table(conn, "edge").await?;
    tables::drop_table(conn, "degree").await?;
    let was = work.writing.extra_column();
    conn.query(&format!(
        "CREATE TABLE {SCHEMA}.edge (id bigint, target bigint, unixnano bigint NOT NULL, status int NOT NULL, \
         {was}PRIMARY KEY (id, target)); \
         CREATE TABLE {SCHEMA}.degree (id bigint PRIMARY KEY, degree bigint NOT NULL)"
    ))
    .await?;
    if work.reads.is_some() {
        // Index for the query of the newest page.
        let sql = format!("CREATE INDEX edge_newest ON {SCHEMA}.edge (id, unixnano)");
        conn.query(&sql).await?;
    }
    Ok(())
}

/// Inserts edges. They are passed as four arrays, so that a pooler that parses texts has little work.
async fn fill(conn: &mut Connection, edges: &[(Edge, Write)]) -> Result<(), Failure> {
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

/// Compares every edge with the answers that clients received.
async fn audit(conn: &mut Connection, verifier: &Verifier) -> Result<Findings, Failure> {
    let sql = format!("SELECT id, target, unixnano, status FROM {SCHEMA}.edge");
    let all = Statement::new(0, sql, Protocol::Extended);
    let mut audit = verifier.audit();
    conn.run(&all, &[], |body| {
        if let Some([id, target, unixnano, status]) = row(body) {
            audit.row((id, target), Write { unixnano, status });
        }
    })
    .await?;
    Ok(audit.end())
}

/// Adds to `check` whether every degree equals the number of set edges.
async fn check_degrees(conn: &mut Connection, check: &mut Check) -> Result<(), Failure> {
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

struct Follower {
    work: Arc<Work>,
    connections: Connections,
    rng: StdRng,
}

impl Client for Follower {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let done = match &self.work.reads {
                Some(reads) if self.rng.random() => {
                    let conn = session.connection().await?;
                    reads.run(conn, &self.work.graph, &mut self.rng).await
                }
                _ => self.write(session).await,
            };
            if self.connections == Connections::Short {
                session.terminate().await;
            }
            done.map(|()| Turn::Done)
        })
    }

    fn connects_itself(&self) -> bool {
        self.connections == Connections::Short
    }
}

impl Follower {
    async fn write(&mut self, session: &mut Session) -> Result<(), Failure> {
        let Work {
            writing,
            graph,
            verifier,
            ..
        } = &*self.work;
        let conn = session.connection().await?;
        let (edge, write) = graph.write(&mut self.rng);
        verifier.sent(edge, write);
        let answer = writing.run(conn, edge, write).await;
        verifier.answered(edge, write, &answer);
        answer
    }
}
