//! A consumer: takes orders until its part of the queue is empty.

use super::layout;
use super::verifier::Verifier;
use crate::connection::{Connection, Failure};
use crate::session::Session;
use crate::statement::{Statement, Value};
use crate::workload::client::{Client, Pending, Turn};
use crate::workload::values;
use paceline_wire::backend;
use std::sync::Arc;
use std::time::Duration;

/// After this number of takes without an order, a consumer checks whether any order waits. A take that races with another
/// consumer for the same order returns nothing although others wait.
const MISSES_MAX: u32 = 10;

/// A consumer.
pub(super) struct Consumer {
    take_method: TakeMethod,
    /// Returns a row if any order waits.
    remaining: Statement,
    /// The shard from which it takes, if the queue is sharded: a parameter of its statements.
    shard: Option<i64>,
    verifier: Arc<Verifier>,
    /// The highest number of an order that it took.
    newest: u64,
    /// Takes without an order since then.
    misses: u32,
}

/// How a consumer takes orders.
#[derive(Debug, Clone)]
pub(super) enum TakeMethod {
    /// By one statement.
    AtOnce(Statement),
    /// By a transaction.
    InSteps(Box<Steps>),
}

/// The steps of a transaction.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    pub(super) begin: Statement,
    pub(super) pick: Statement,
    /// The time that the consumer works on the order before it files it.
    pub(super) work: Duration,
    pub(super) file: Statement,
    pub(super) end: Statement,
}

/// The numbers of the orders that a take returned; `None` for an invalid id.
type Orders = Vec<Option<u64>>;

impl Consumer {
    pub(super) fn new(
        take_method: TakeMethod,
        remaining: Statement,
        shard: Option<i64>,
        verifier: Arc<Verifier>,
    ) -> Self {
        Self {
            take_method,
            remaining,
            shard,
            verifier,
            newest: 0,
            misses: 0,
        }
    }

    async fn take(&mut self, session: &mut Session) -> Result<Turn, Failure> {
        let conn = session.connection().await?;
        let shard = self.shard.map(Value::Int);
        let orders = self.take_method.take(conn, shard.as_slice()).await?;
        if !orders.is_empty() {
            self.record(&orders);
            return Ok(Turn::Done);
        }
        self.misses += 1;
        if self.misses < MISSES_MAX {
            return Ok(Turn::Idle);
        }
        self.misses = 0;
        let remaining = conn.run(&self.remaining, shard.as_slice(), |_| ()).await?;
        match remaining.rows {
            0 => Ok(Turn::Finished),
            _ => Ok(Turn::Idle),
        }
    }

    /// Records the acknowledged orders.
    fn record(&mut self, orders: &Orders) {
        let before = self.newest;
        for order in orders {
            self.verifier.returned.add(*order);
            self.newest = self.newest.max(order.unwrap_or_default());
        }
        if orders.iter().flatten().any(|order| *order <= before) {
            self.verifier.record_out_of_order();
        }
        self.misses = 0;
    }
}

impl Client for Consumer {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let turn = self.take(session).await;
            if turn.is_err() {
                self.verifier.record_failure();
            }
            turn
        })
    }
}

impl TakeMethod {
    async fn take(&self, conn: &mut Connection, shard: &[Value<'_>]) -> Result<Orders, Failure> {
        let mut orders = Orders::new();
        match self {
            Self::AtOnce(take) => {
                conn.run(take, shard, |row| orders.push(order(row))).await?;
            }
            Self::InSteps(steps) => steps.take(conn, &mut orders).await?,
        }
        Ok(orders)
    }
}

impl Steps {
    /// Takes an order. The contents of `orders` are valid only if every step succeeds, including the commit.
    async fn take(&self, conn: &mut Connection, orders: &mut Orders) -> Result<(), Failure> {
        conn.run(&self.begin, &[], |_| ()).await?;
        let mut picked = None;
        conn.run(&self.pick, &[], |row| picked = values::single(row))
            .await?;
        if let Some(id) = picked {
            if !self.work.is_zero() {
                tokio::time::sleep(self.work).await;
            }
            let file = |row: &[u8]| orders.push(order(row));
            conn.run(&self.file, &[Value::Int(id)], file).await?;
        }
        conn.run(&self.end, &[], |_| ()).await?;
        Ok(())
    }
}

/// The number of the order whose id is the only value of a row.
fn order(row: &[u8]) -> Option<u64> {
    let values = backend::row_values(row).ok()?;
    layout::number_of((*values.first()?)?)
}
