//! Order queue: hundreds of consumers take orders from one table and file them in another (SCENARIOS 2). A unit is an
//! acknowledged take that returned an order.

mod check;
mod consumer;
mod layout;
mod statements;
#[cfg(test)]
mod tests;
mod verifier;

use super::client::{Client, Pending};
use super::scenario::{Check, Outcome, ROWS_MAX, Scenario, Sizes, Variant, Workload};
use super::tables::{self, SCHEMA};
use super::values;
use crate::connection::{Connection, Failure};
use crate::statement::{Protocol, Statement};
use check::QueueState;
use consumer::{Consumer, Steps, TakeMethod};
use layout::Layout;
use rand::rngs::StdRng;
use statements::Pick;
use std::sync::Arc;
use std::time::Duration;
use verifier::{OrderSet, Verifier};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "queue",
    title: "Order queue: hundreds of consumers",
    about: "every consumer takes the oldest order that no other consumer has, and files it",
    unit: "takes",
    variants: &[
        Variant {
            name: "c",
            about: "one statement: pg_try_advisory_xact_lock, DELETE by ctid, INSERT",
            build: |sizes| Queue::build(Layout::Single, Take::AtOnce { limit: 1 }, sizes),
        },
        Variant {
            name: "a",
            about: "a transaction: SELECT FOR UPDATE, then DELETE and INSERT",
            build: |sizes| Queue::build(Layout::Single, Take::in_steps(Pick::First), sizes),
        },
        Variant {
            name: "b",
            about: "a transaction: SELECT FOR UPDATE SKIP LOCKED, then DELETE and INSERT",
            build: |sizes| Queue::build(Layout::Single, Take::in_steps(Pick::SkipLocked), sizes),
        },
        Variant {
            name: "d",
            about: "a transaction: SELECT with pg_try_advisory_xact_lock, then DELETE and INSERT",
            build: |sizes| Queue::build(Layout::Single, Take::in_steps(Pick::TryLock), sizes),
        },
        Variant {
            name: "d-10ms",
            about: "d with 10 ms of work between the two",
            build: |sizes| Queue::build(Layout::Single, Take::with_work(Pick::TryLock), sizes),
        },
        Variant {
            name: "claims",
            about: "UPDATE of the status of a row picked with SKIP LOCKED; orders stay in the queue",
            build: |sizes| Queue::build(Layout::Claimable, Take::Claim, sizes),
        },
        Variant {
            name: "shards",
            about: "c with SKIP LOCKED, each consumer on one of 16 shards of the ids (id % 16)",
            build: |sizes| Queue::build(Layout::Sharded, Take::AtOnce { limit: 1 }, sizes),
        },
        Variant {
            name: "partitions",
            about: "c, each consumer on one of 16 hash partitions of the queue",
            build: |sizes| Queue::build(Layout::Partitioned, Take::AtOnce { limit: 1 }, sizes),
        },
        Variant {
            name: "batches",
            about: "c, 10 orders in one take; takes are counted, not orders",
            build: |sizes| Queue::build(Layout::Single, Take::AtOnce { limit: 10 }, sizes),
        },
        Variant {
            name: "c-vacuum",
            about: "c, the queue vacuumed at every run of autovacuum; the source also set autovacuum_naptime, \
                    autovacuum_work_mem and max_parallel_maintenance_workers, which are the server's",
            build: |sizes| Queue::build(Layout::Vacuumed, Take::AtOnce { limit: 1 }, sizes),
        },
    ],
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
/// The time that a consumer works on an order, in the variant with work.
const WORK: Duration = Duration::from_millis(10);

/// How a consumer takes orders.
#[derive(Debug, Clone, Copy)]
enum Take {
    /// One statement moves at most `limit` orders.
    AtOnce { limit: u64 },
    /// One statement marks an order.
    Claim,
    /// A transaction picks an order, works on it and moves it.
    InSteps { pick: Pick, work: Duration },
}

impl Take {
    fn in_steps(pick: Pick) -> Self {
        let work = Duration::ZERO;
        Self::InSteps { pick, work }
    }

    fn with_work(pick: Pick) -> Self {
        Self::InSteps { pick, work: WORK }
    }

    /// Maximum number of orders per take.
    fn limit(self) -> u64 {
        match self {
            Self::AtOnce { limit } => limit,
            Self::Claim | Self::InSteps { .. } => 1,
        }
    }
}

struct Queue {
    layout: Layout,
    take: Take,
    orders: u64,
    seed: u64,
    protocol: Protocol,
    verifier: Arc<Verifier>,
}

impl Queue {
    fn build(layout: Layout, take: Take, sizes: &Sizes) -> Box<dyn Workload> {
        let orders = sizes.rows(ORDERS, ORDERS_FULL);
        Box::new(Self {
            layout,
            take,
            orders,
            seed: sizes.seed,
            protocol: sizes.protocol,
            verifier: Arc::new(Verifier::new(orders)),
        })
    }

    fn take_method(&self, shard: u64) -> TakeMethod {
        let statement = |number, sql: String| Statement::new(number, sql, self.protocol);
        match self.take {
            Take::AtOnce { limit } => {
                TakeMethod::AtOnce(statement(1, statements::take(self.layout, shard, limit)))
            }
            Take::Claim => TakeMethod::AtOnce(statement(1, statements::claim(self.layout))),
            Take::InSteps { pick, work } => TakeMethod::InSteps(Box::new(Steps {
                begin: statement(1, "BEGIN".to_owned()),
                pick: statement(2, statements::pick(self.layout, pick)),
                work,
                file: statement(3, statements::file_picked(self.layout)),
                end: statement(4, "END".to_owned()),
            })),
        }
    }
}

impl Workload for Queue {
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, Result<(), Failure>> {
        Box::pin(async move {
            // Takes leave dead rows and a bloated index: each run starts with new tables.
            for table in ["t_order_q", "t_order_u"] {
                tables::drop_table(conn, table).await?;
            }
            conn.query(&self.layout.definition(self.orders, self.seed))
                .await?;
            conn.query(&format!("VACUUM (ANALYZE) {SCHEMA}.t_order_q"))
                .await?;
            Ok(())
        })
    }

    fn client(&self, number: usize, _rng: StdRng) -> Box<dyn Client> {
        let shard = Layout::shard(number);
        let remaining = Statement::new(0, statements::remaining(self.layout, shard), self.protocol);
        let value = self.layout.is_sharded().then_some(shard.cast_signed());
        let verifier = Arc::clone(&self.verifier);
        Box::new(Consumer::new(
            self.take_method(shard),
            remaining,
            value,
            verifier,
        ))
    }

    fn check<'a>(
        &'a self,
        conn: &'a mut Connection,
        outcome: Outcome,
    ) -> Pending<'a, Result<Check, Failure>> {
        Box::pin(async move {
            let waiting = self.read(conn, self.layout.waiting(self.seed)).await?;
            let taken = self.read(conn, self.layout.taken(self.seed)).await?;
            let found = QueueState {
                orders: self.orders,
                waiting: &waiting,
                taken: &taken,
                verifier: &self.verifier,
                limit: self.take.limit(),
            };
            Ok(found.check(outcome))
        })
    }
}

impl Queue {
    /// Reads the numbers of orders into a bit set.
    async fn read(&self, conn: &mut Connection, sql: String) -> Result<OrderSet, Failure> {
        let orders = OrderSet::new(self.orders);
        let statement = Statement::new(0, sql, Protocol::Simple);
        conn.run(&statement, &[], |row| orders.add(values::single(row)))
            .await?;
        Ok(orders)
    }
}
