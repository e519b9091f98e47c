//! A consumer: takes what comes next, until its part of the queue is empty.

use super::layout;
use super::verifier::Verifier;
use crate::connection::{Connection, Failure};
use crate::session::Session;
use crate::statement::{Statement, Value};
use crate::workload::client::{Client, Pending, Turn};
use paceline_wire::backend;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// So many takes in a row may get nothing before a consumer asks whether anything is left: who looks for an order that
/// another one has just taken gets none, though others wait.
const MISSES_MAX: u32 = 10;

/// One of the consumers.
pub(super) struct Consumer {
    way: TakeMethod,
    /// Whether anything waits.
    rest: Statement,
    /// The shard that it takes from, if it has one: a value of its statements.
    shard: Option<i64>,
    verifier: Arc<Verifier>,
    /// The highest number that it has got.
    newest: u64,
    /// Takes since then that got nothing.
    misses: u32,
}

/// How it takes.
#[derive(Debug, Clone)]
pub(super) enum TakeMethod {
    /// In one statement.
    AtOnce(Statement),
    /// In a transaction.
    InSteps(Box<Steps>),
}

/// The steps of a transaction.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    pub(super) begin: Statement,
    pub(super) pick: Statement,
    /// What the consumer does with the order before it files it.
    pub(super) work: Duration,
    pub(super) file: Statement,
    pub(super) end: Statement,
}

/// The numbers of the orders that a take has got; `None` for one that is none.
type Orders = Vec<Option<u64>>;

impl Consumer {
    pub(super) fn new(
        way: TakeMethod,
        rest: Statement,
        shard: Option<i64>,
        verifier: Arc<Verifier>,
    ) -> Self {
        Self {
            way,
            rest,
            shard,
            verifier,
            newest: 0,
            misses: 0,
        }
    }

    async fn take(&mut self, session: &mut Session) -> Result<Turn, Failure> {
        let conn = session.connection().await?;
        let shard = self.shard.map(Value::Int);
        let orders = self.way.take(conn, shard.as_slice()).await?;
        if !orders.is_empty() {
            self.note(&orders);
            return Ok(Turn::Done);
        }
        self.misses += 1;
        if self.misses < MISSES_MAX {
            return Ok(Turn::Idle);
        }
        self.misses = 0;
        let rest = conn.run(&self.rest, shard.as_slice(), |_| ()).await?;
        match rest.rows {
            0 => Ok(Turn::Finished),
            _ => Ok(Turn::Idle),
        }
    }

    /// Writes down what was acknowledged.
    fn note(&mut self, orders: &Orders) {
        let before = self.newest;
        for order in orders {
            self.verifier.told.add(*order);
            self.newest = self.newest.max(order.unwrap_or_default());
        }
        if orders.iter().flatten().any(|order| *order <= before) {
            self.verifier.note_backwards();
        }
        self.misses = 0;
    }
}

impl Client for Consumer {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let turn = self.take(session).await;
            if turn.is_err() {
                self.verifier.note_failure();
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
    /// Nothing that is in `orders` counts unless all went well, the commit included.
    async fn take(&self, conn: &mut Connection, orders: &mut Orders) -> Result<(), Failure> {
        conn.run(&self.begin, &[], |_| ()).await?;
        let mut picked = None;
        conn.run(&self.pick, &[], |row| picked = number(row))
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

/// The number that is the only value of a row, unless it is NULL.
pub(super) fn number<T: FromStr>(row: &[u8]) -> Option<T> {
    let values = backend::row_values(row).ok()?;
    std::str::from_utf8((*values.first()?)?).ok()?.parse().ok()
}
