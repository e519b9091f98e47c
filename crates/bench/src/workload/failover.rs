//! Failover: clients count how often they write edges of a social graph, and read what they have written, while the primary is
//! lost and a replica takes over. A unit is an upsert or a read of one edge.

mod ledger;
mod replication;

pub use replication::Replication;

use super::edges::{Edge, Graph};
use super::interface::{Client, Outcome, Turn, Workload, lock};
use super::known::{CheckedReads, Known};
use super::scenario::{Scenario, Sizes, variants};
use super::tables::SCHEMA;
use super::values::{row, single};
use crate::connection::{Connection, Result};
use crate::record::{CheckResult, FailoverResult};
use crate::session::Session;
use crate::statement::{Protocol, Statement, Value};
use ledger::Ledger;
use std::sync::Mutex;
use std::time::Instant;

/// The scenario. Its variants are those of [`Replication`]; it is not one of the scenarios that run on any target.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "failover",
    title: "Failover: the primary is killed, and a replica is promoted",
    about: "clients write edges of a social graph and read them again; in the middle of the run the primary is lost",
    unit: "requests",
    variants: variants! {
        "asynchronous", "the primary does not wait for replicas; writes that it acknowledged last may be missing afterwards",
            |sizes| Failover::new(Replication::Asynchronous, sizes);
        "synchronous", "a commit waits until one of the two replicas has it; no acknowledged write may be missing",
            |sizes| Failover::new(Replication::Synchronous, sizes);
    },
    clients: &[160],
    clients_full: &[160],
    rows: None,
};

/// The load of a run with a failover.
pub(crate) struct Failover {
    replication: Replication,
    graph: Graph,
    upsert: Statement,
    read: Statement,
    ledger: Mutex<Ledger>,
    reads: CheckedReads,
}

/// The edges that a client has written, with their last known state.
#[derive(Debug, Default)]
pub(crate) struct ClientEdges {
    /// By edge, the number of writes, which only grows.
    known: Known<Edge, i64>,
    /// The edge that the client has written and not read since.
    written: Option<Edge>,
}

impl Failover {
    pub(crate) fn new(replication: Replication, sizes: &Sizes) -> Self {
        let upsert = format!(
            "INSERT INTO {SCHEMA}.edge (id, target, writes) VALUES ($1, $2, 1) \
             ON CONFLICT (id, target) DO UPDATE SET writes = edge.writes + 1"
        );
        let read = format!("SELECT writes FROM {SCHEMA}.edge WHERE id = $1 AND target = $2");
        Self {
            replication,
            graph: Graph::new(),
            upsert: Statement::new(0, upsert, sizes.protocol),
            read: Statement::new(1, read, sizes.protocol),
            ledger: Mutex::default(),
            reads: CheckedReads::default(),
        }
    }

    /// Writes a random edge.
    async fn write(&self, client: &mut Client<ClientEdges>, session: &mut Session) -> Result<Turn> {
        lock(&self.ledger).waits(client.number, Instant::now());
        let conn = session.connection().await?;
        let edge = (
            self.graph.id(&mut client.rng),
            self.graph.target(&mut client.rng),
        );
        lock(&self.ledger).sent(edge);
        let values = [edge.0, edge.1].map(Value::Int);
        let answer = conn.run(&self.upsert, &values, |_| ()).await.map(drop);
        lock(&self.ledger).answered(client.number, edge, &answer, Instant::now());
        answer?;
        client.memory.written(edge);
        Ok(Turn::Done)
    }

    /// Reads the edge that the client has written. If a failover has lost writes of it, each client that knows them counts
    /// one stale read.
    async fn read(
        &self,
        edge: Edge,
        memory: &mut ClientEdges,
        session: &mut Session,
    ) -> Result<Turn> {
        let conn = session.connection().await?;
        let mut writes = None;
        let values = [edge.0, edge.1].map(Value::Int);
        conn.run(&self.read, &values, |body| writes = single(body))
            .await?;
        memory.written = None;
        let is_stale = memory.known.is_stale(edge, writes);
        if is_stale {
            memory.known.forget(&edge);
        }
        self.reads.count(is_stale);
        Ok(Turn::Done)
    }

    /// Records that the failover begins now.
    pub(crate) fn begin_failover(&self) {
        lock(&self.ledger).begin_failover(Instant::now());
    }

    /// The result of the failover, after the check; `None` if there was none.
    pub(crate) fn result(&self) -> Option<FailoverResult> {
        lock(&self.ledger).result()
    }
}

impl ClientEdges {
    /// Records an acknowledged write: the edge has one more than the client knew.
    fn written(&mut self, edge: Edge) {
        let before = self.known.get(&edge).copied().unwrap_or_default();
        self.known.learn(edge, before + 1);
        self.written = Some(edge);
    }
}

/// A client writes an edge and reads it, in turns. It repeats what fails: a write with another edge, the read as it is.
impl Workload for Failover {
    type Memory = ClientEdges;

    async fn prepare(&mut self, conn: &mut Connection) -> Result<()> {
        let definition = format!(
            "CREATE SCHEMA {SCHEMA}; \
             CREATE TABLE {SCHEMA}.edge (id bigint, target bigint, writes bigint NOT NULL, PRIMARY KEY (id, target))"
        );
        conn.execute(&definition).await
    }

    async fn turn(&self, client: &mut Client<ClientEdges>, session: &mut Session) -> Result<Turn> {
        match client.memory.written {
            Some(edge) => self.read(edge, &mut client.memory, session).await,
            None => self.write(client, session).await,
        }
    }

    /// Compares every edge with the answers that clients received. `conn` leads to the primary at the end of the run.
    async fn check(&self, conn: &mut Connection, _outcome: Outcome) -> Result<CheckResult> {
        let sql = format!("SELECT id, target, writes FROM {SCHEMA}.edge");
        let all = Statement::new(0, sql, Protocol::Extended);
        let mut found = Vec::new();
        conn.run(&all, &[], |body| {
            found.extend(row(body).map(|[id, target, writes]| ((id, target), writes)));
        })
        .await?;
        let mut check = lock(&self.ledger).check(self.replication, found, Instant::now());
        // Without writes that are missing, no client may read an older state than it knows.
        check.holds &= self.reads.stale() == 0 || self.replication == Replication::Asynchronous;
        check.says += &format!("; {}", self.reads.says());
        Ok(check)
    }

    fn reads(&self) -> Option<&CheckedReads> {
        Some(&self.reads)
    }
}
