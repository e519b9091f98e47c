//! Order queue: hundreds of consumers take orders from one table and file them in another (SCENARIOS 2). A unit is an
//! acknowledged take that returned an order.

mod layout;
mod statements;
#[cfg(test)]
mod tests;
mod verifier;

use super::interface::{Client, Outcome, Turn, Workload, lock};
use super::scenario::{ROWS_MAX, Scenario, Sizes, variants};
use super::tables::{self, SCHEMA};
use super::values;
use crate::connection::{Connection, Result};
use crate::record::CheckResult;
use crate::session::Session;
use crate::statement::{Protocol, Statement, Value};
use layout::Layout;
use statements::Pick;
use std::sync::Mutex;
use std::time::Duration;
use verifier::{OrderSet, Verifier};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "queue",
    title: "Order queue: hundreds of consumers",
    about: "every consumer takes the oldest order that no other consumer has, and files it",
    unit: "takes",
    variants: variants! {
        "c", "one statement: pg_try_advisory_xact_lock, DELETE by ctid, INSERT",
            |sizes| Queue::new(Layout::Single, AT_ONCE, sizes);
        "a", "a transaction: SELECT FOR UPDATE, then DELETE and INSERT",
            |sizes| Queue::new(Layout::Single, Take::InSteps(Pick::First, NO_WORK), sizes);
        "b", "a transaction: SELECT FOR UPDATE SKIP LOCKED, then DELETE and INSERT",
            |sizes| Queue::new(Layout::Single, Take::InSteps(Pick::SkipLocked, NO_WORK), sizes);
        "d", "a transaction: SELECT with pg_try_advisory_xact_lock, then DELETE and INSERT",
            |sizes| Queue::new(Layout::Single, Take::InSteps(Pick::TryLock, NO_WORK), sizes);
        "d-10ms", "d with 10 ms of work between the two",
            |sizes| Queue::new(Layout::Single, Take::InSteps(Pick::TryLock, WORK), sizes);
        "claims", "UPDATE of the status of a row picked with SKIP LOCKED; orders stay in the queue",
            |sizes| Queue::new(Layout::Claimable, Take::Claim, sizes);
        "shards", "c with SKIP LOCKED, each consumer on one of 16 shards of the ids (id % 16)",
            |sizes| Queue::new(Layout::Sharded, AT_ONCE, sizes);
        "partitions", "c, each consumer on one of 16 hash partitions of the queue",
            |sizes| Queue::new(Layout::Partitioned, AT_ONCE, sizes);
        "batches", "c, 10 orders in one take; takes are counted, not orders",
            |sizes| Queue::new(Layout::Single, Take::AtOnce { limit: 10 }, sizes);
        "c-vacuum", "c, the queue vacuumed at every run of autovacuum; the source also set autovacuum_naptime, \
                     autovacuum_work_mem and max_parallel_maintenance_workers, which are the server's",
            |sizes| Queue::new(Layout::Vacuumed, AT_ONCE, sizes);
        "pinned", "c, while a transaction of the first client keeps all dead rows; through Paceline with queue_reorder_time",
            with ["queue_reorder_time=30s"],
            |sizes| Queue { pinned: true, ..Queue::new(Layout::Single, AT_ONCE, sizes) };
    },
    clients: &[256],
    clients_full: &[256],
    rows: Some((ORDERS_MIN, ROWS_MAX)),
};

/// Orders in the queue when a run begins: more than a short run takes, and quick to insert.
const ORDERS: u64 = 200_000;
/// The number of orders in the source.
const ORDERS_FULL: u64 = 1_000_000;
/// Minimum number of orders. For a table or partition of about one page PostgreSQL sorts all orders for each take and
/// tries the advisory lock of each: consumers block orders that they do not take.
const ORDERS_MIN: u64 = 1_000;
/// After this number of takes without an order, a consumer checks whether any order waits. A take that races with another
/// consumer for the same order returns nothing although others wait.
const MISSES_MAX: u32 = 10;
/// The time that a consumer works on an order, in the variant with work and in the others.
const WORK: Duration = Duration::from_millis(10);
const NO_WORK: Duration = Duration::ZERO;
const AT_ONCE: Take = Take::AtOnce { limit: 1 };

/// The way in which a consumer takes orders.
#[derive(Debug, Clone, Copy)]
enum Take {
    /// One statement moves at most `limit` orders.
    AtOnce { limit: u64 },
    /// One statement marks an order.
    Claim,
    /// A transaction picks an order, works on it for this time and moves it.
    InSteps(Pick, Duration),
}

struct Queue {
    layout: Layout,
    take: Take,
    /// Whether the first client takes nothing, and keeps a transaction open that has the oldest snapshot.
    pinned: bool,
    orders: u64,
    seed: u64,
    /// The statements of the consumers of each shard.
    shards: Vec<Shard>,
    verifier: Mutex<Verifier>,
}

/// The statements of the consumers of a shard.
struct Shard {
    /// The number of the shard, if it is a parameter of the statements.
    number: Option<i64>,
    /// Returns a row if any order waits.
    remaining: Statement,
    /// One statement, or the steps of a transaction: BEGIN, pick, file, END.
    take: Vec<Statement>,
}

impl Shard {
    /// The values of the parameters.
    fn values(&self) -> Option<Value<'static>> {
        self.number.map(Value::Int)
    }
}

/// A consumer's progress.
#[derive(Default)]
struct Progress {
    /// The highest number of an order that it took.
    newest: u64,
    /// Takes without an order since then.
    misses: u32,
}

impl Queue {
    fn new(layout: Layout, take: Take, sizes: &Sizes) -> Self {
        let orders = sizes.rows(ORDERS, ORDERS_FULL);
        let shard = |number| {
            let texts = match take {
                Take::AtOnce { limit } => vec![statements::take(layout, number, limit)],
                Take::Claim => vec![statements::claim(layout)],
                Take::InSteps(pick, _) => vec![
                    "BEGIN".to_owned(),
                    statements::pick(layout, pick),
                    statements::file_picked(layout),
                    "END".to_owned(),
                ],
            };
            let statement = |(number, sql)| Statement::new(number, sql, sizes.protocol);
            Shard {
                number: (layout == Layout::Sharded).then_some(number.cast_signed()),
                remaining: statement((0, statements::remaining(layout, number))),
                take: (1..).zip(texts).map(statement).collect(),
            }
        };
        Self {
            layout,
            take,
            pinned: false,
            orders,
            seed: sizes.seed,
            shards: (0..layout.shards()).map(shard).collect(),
            verifier: Mutex::new(Verifier::new(orders)),
        }
    }

    /// Takes orders. Returns their numbers, `None` for an invalid id. An error means that no order was taken, or that the
    /// result is in doubt.
    async fn take(&self, conn: &mut Connection, shard: &Shard) -> Result<Vec<Option<u64>>> {
        let mut orders = Vec::new();
        let number = |id: String| layout::number_of(id.as_bytes());
        let mut on_order = |row: &[u8]| orders.push(values::single(row).and_then(number));
        match (shard.take.as_slice(), self.take) {
            ([begin, pick, file, end], Take::InSteps(_, work)) => {
                conn.run(begin, &[], |_| ()).await?;
                let mut picked = None;
                conn.run(pick, &[], |row| picked = values::single(row))
                    .await?;
                if let Some(id) = picked {
                    if !work.is_zero() {
                        tokio::time::sleep(work).await;
                    }
                    conn.run(file, &[Value::Int(id)], on_order).await?;
                }
                conn.run(end, &[], |_| ()).await?;
            }
            (steps, _) => {
                for step in steps {
                    conn.run(step, shard.values().as_slice(), &mut on_order)
                        .await?;
                }
            }
        }
        Ok(orders)
    }

    async fn try_turn(
        &self,
        consumer: &mut Client<Progress>,
        session: &mut Session,
    ) -> Result<Turn> {
        let conn = session.connection().await?;
        let shard = self.shards.get(consumer.number % self.shards.len());
        let Some(shard) = shard else {
            return Ok(Turn::Finished);
        };
        let progress = &mut consumer.memory;
        let orders = self.take(conn, shard).await?;
        if !orders.is_empty() {
            progress.misses = 0;
            lock(&self.verifier).took(&orders, &mut progress.newest);
            return Ok(Turn::Done);
        }
        progress.misses += 1;
        if progress.misses < MISSES_MAX {
            return Ok(Turn::Idle);
        }
        progress.misses = 0;
        let values = shard.values();
        let remaining = conn
            .run(&shard.remaining, values.as_slice(), |_| ())
            .await?;
        Ok(match remaining.rows {
            0 => Turn::Finished,
            _ => Turn::Idle,
        })
    }

    /// Reads the numbers of orders.
    async fn read(&self, conn: &mut Connection, sql: String) -> Result<OrderSet> {
        let mut orders = OrderSet::new(self.orders);
        let statement = Statement::new(0, sql, Protocol::Simple);
        conn.run(&statement, &[], |row| orders.add(values::single(row)))
            .await?;
        Ok(orders)
    }
}

impl Workload for Queue {
    type Memory = Progress;

    async fn prepare(&mut self, conn: &mut Connection) -> Result<()> {
        let definition = self.layout.definition(self.orders, self.seed);
        tables::drop_table(conn, "t_order_u").await?;
        tables::recreate(conn, "t_order_q", &definition).await?;
        let vacuum = format!("VACUUM (ANALYZE) {SCHEMA}.t_order_q");
        conn.execute(&vacuum).await
    }

    async fn turn(&self, consumer: &mut Client<Progress>, session: &mut Session) -> Result<Turn> {
        if self.pinned && consumer.number == 0 {
            let conn = session.connection().await?;
            conn.execute(&statements::hold_snapshot(self.layout))
                .await?;
            return Ok(Turn::StayConnected);
        }
        let turn = self.try_turn(consumer, session).await;
        // The order that a failed take has picked returns to the head of the queue.
        lock(&self.verifier).failed |= turn.is_err();
        turn
    }

    fn active_clients(&self, clients: usize) -> usize {
        clients - usize::from(self.pinned && clients > 0)
    }

    fn changes_over_time(&self) -> bool {
        self.pinned
    }

    async fn check(&self, conn: &mut Connection, outcome: Outcome) -> Result<CheckResult> {
        let waiting = self.read(conn, self.layout.waiting(self.seed)).await?;
        let taken = self.read(conn, self.layout.taken(self.seed)).await?;
        let limit = match self.take {
            Take::AtOnce { limit } => limit,
            Take::Claim | Take::InSteps(..) => 1,
        };
        Ok(lock(&self.verifier).check(&waiting, &taken, limit, outcome))
    }
}
