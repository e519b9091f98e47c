//! Connection storm: thousands of clients whose requests each update one random row twice (SCENARIOS 4). A unit is a
//! request. Each update is a transaction, as in the source, except with the advisory lock, where both are one transaction.

mod verifier;

use super::client::{Client, Pending, Turn};
use super::scenario::{Check, Outcome, ROWS_MAX, Scenario, Sizes, Variant, Workload};
use super::tables::{self, SCHEMA};
use crate::connection::{Connection, Failure};
use crate::session::Session;
use crate::statement::{Statement, Value};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::Arc;
use verifier::Verifier;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "storm",
    title: "Connection storm: more clients than the database can bear",
    about: "each request updates a random row twice; what changes is how many clients are connected",
    unit: "requests",
    variants: &[
        Variant {
            name: "updates",
            about: "all clients at once",
            build: |sizes| Storm::build(Mode::Updates, sizes),
        },
        Variant {
            name: "advisory-lock",
            about: "the same, queued inside the database by an advisory lock per slot, ten slots",
            build: |sizes| Storm::build(Mode::AdvisoryLock, sizes),
        },
        Variant {
            name: "idle",
            about: "ten clients work, the others are connected and idle",
            build: |sizes| Storm::build(Mode::Idle, sizes),
        },
    ],
    // The server of the demonstration admits 400 connections.
    clients: &[64, 300],
    clients_full: &[10, 64, 256, 1_000, 8_000],
    rows: Some((1, ROWS_MAX)),
};

const ROWS: u64 = 200_000;
const ROWS_FULL: u64 = 5_000_000;
/// Number of working clients in `idle`; number of slots in `advisory-lock`.
const ACTIVE: usize = 10;
/// The increments of the two updates.
const ADDED: [u64; 2] = [1, 2];

/// The variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Updates,
    AdvisoryLock,
    Idle,
}

struct Storm {
    mode: Mode,
    rows: u64,
    statements: Statements,
    verifier: Arc<Verifier>,
}

#[derive(Debug, Clone)]
struct Statements {
    /// An update for each of [`ADDED`].
    updates: [Statement; 2],
    lock: Statement,
}

impl Storm {
    fn build(mode: Mode, sizes: &Sizes) -> Box<dyn Workload> {
        let update = |number, added| {
            let sql = format!("UPDATE {SCHEMA}.test_8000 SET cnt = cnt + {added} WHERE id = $1");
            Statement::new(number, sql, sizes.protocol)
        };
        let [one, two] = ADDED;
        Box::new(Self {
            mode,
            rows: sizes.rows(ROWS, ROWS_FULL),
            statements: Statements {
                updates: [update(0, one), update(1, two)],
                lock: Statement::new(2, "SELECT pg_advisory_xact_lock($1)", sizes.protocol),
            },
            verifier: Arc::new(Verifier::default()),
        })
    }
}

impl Workload for Storm {
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, Result<(), Failure>> {
        Box::pin(async move {
            // Updates leave free space in pages, which makes the updates of the next run cheaper: each run starts with a
            // new table.
            tables::drop_table(conn, "test_8000").await?;
            let rows = self.rows;
            conn.query(&format!(
                "CREATE TABLE {SCHEMA}.test_8000 (id int PRIMARY KEY, cnt int DEFAULT 0); \
                 INSERT INTO {SCHEMA}.test_8000 (id) SELECT generate_series(1, {rows})"
            ))
            .await?;
            conn.query(&format!("VACUUM ANALYZE {SCHEMA}.test_8000"))
                .await
                .map(drop)
        })
    }

    fn active_clients(&self, clients: usize) -> usize {
        match self.mode {
            Mode::Idle => clients.min(ACTIVE),
            Mode::Updates | Mode::AdvisoryLock => clients,
        }
    }

    fn client(&self, number: usize, rng: StdRng) -> Box<dyn Client> {
        if self.mode == Mode::Idle && number >= ACTIVE {
            return Box::new(IdleClient);
        }
        Box::new(Requester {
            slot: (self.mode == Mode::AdvisoryLock).then_some(number % ACTIVE),
            rows: self.rows,
            statements: self.statements.clone(),
            verifier: Arc::clone(&self.verifier),
            rng,
        })
    }

    fn check<'a>(
        &'a self,
        conn: &'a mut Connection,
        outcome: Outcome,
    ) -> Pending<'a, Result<Check, Failure>> {
        Box::pin(async move {
            let sql = format!("SELECT coalesce(sum(cnt), 0) FROM {SCHEMA}.test_8000");
            let added = conn.number(&sql).await?;
            let mut check = self.verifier.compare(added);
            // The load counts requests in doubt; the verifier counts increments in doubt.
            check.holds &= self.verifier.open() <= outcome.unknown * ADDED.iter().sum::<u64>();
            Ok(check)
        })
    }
}

struct Requester {
    /// The slot of the advisory lock, if requests queue in the database.
    slot: Option<usize>,
    rows: u64,
    statements: Statements,
    verifier: Arc<Verifier>,
    rng: StdRng,
}

impl Client for Requester {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let conn = session.connection().await?;
            let id = self.rng.random_range(1..=self.rows).cast_signed();
            match self.slot {
                None => self.update(conn, id).await?,
                Some(slot) => self.update_with_lock(conn, id, slot).await?,
            }
            Ok(Turn::Done)
        })
    }
}

impl Requester {
    /// Executes the two updates as two transactions.
    async fn update(&self, conn: &mut Connection, id: i64) -> Result<(), Failure> {
        for (update, added) in self.statements.updates.iter().zip(ADDED) {
            self.verifier.sent(added);
            let answer = conn.run(update, &[Value::Int(id)], |_| ()).await;
            self.verifier.answered(added, answer.as_ref().err());
            answer?;
        }
        Ok(())
    }

    /// Executes both updates in one transaction that holds the advisory lock of the slot.
    async fn update_with_lock(
        &self,
        conn: &mut Connection,
        id: i64,
        slot: usize,
    ) -> Result<(), Failure> {
        let added = ADDED.iter().sum();
        self.verifier.sent(added);
        let answer = self.transaction(conn, id, slot).await;
        self.verifier.answered(added, answer.as_ref().err());
        answer
    }

    async fn transaction(
        &self,
        conn: &mut Connection,
        id: i64,
        slot: usize,
    ) -> Result<(), Failure> {
        let slot = [Value::Int(slot as i64)];
        conn.query("BEGIN").await?;
        conn.run(&self.statements.lock, &slot, |_| ()).await?;
        for update in &self.statements.updates {
            conn.run(update, &[Value::Int(id)], |_| ()).await?;
        }
        conn.query("COMMIT").await.map(drop)
    }
}

/// A client that is connected and sends nothing.
struct IdleClient;

impl Client for IdleClient {
    fn turn<'a>(&'a mut self, _session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async { Ok(Turn::StayConnected) })
    }
}
