//! Failover: clients count how often they write edges of a social graph, while the primary is lost and a replica takes over. A
//! unit is an upsert of one edge.

mod ledger;
mod replication;

pub use replication::Replication;

use super::edges::Graph;
use super::interface::{Client, Outcome, Turn, Workload, lock};
use super::scenario::{Scenario, Sizes, variants};
use super::tables::SCHEMA;
use super::values::row;
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
    about: "clients write edges of a social graph; in the middle of the run the primary is lost",
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
    ledger: Mutex<Ledger>,
}

impl Failover {
    pub(crate) fn new(replication: Replication, sizes: &Sizes) -> Self {
        let upsert = format!(
            "INSERT INTO {SCHEMA}.edge (id, target, writes) VALUES ($1, $2, 1) \
             ON CONFLICT (id, target) DO UPDATE SET writes = edge.writes + 1"
        );
        Self {
            replication,
            graph: Graph::new(),
            upsert: Statement::new(0, upsert, sizes.protocol),
            ledger: Mutex::default(),
        }
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

impl Workload for Failover {
    type Memory = ();

    async fn prepare(&mut self, conn: &mut Connection) -> Result<()> {
        let definition = format!(
            "CREATE SCHEMA {SCHEMA}; \
             CREATE TABLE {SCHEMA}.edge (id bigint, target bigint, writes bigint NOT NULL, PRIMARY KEY (id, target))"
        );
        conn.execute(&definition).await
    }

    async fn turn(&self, client: &mut Client<()>, session: &mut Session) -> Result<Turn> {
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
        answer.map(|()| Turn::Done)
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
        Ok(lock(&self.ledger).check(self.replication, found, Instant::now()))
    }
}
