//! Connection storm: thousands of clients whose requests each update one random row twice (SCENARIOS 4). A unit is a
//! request. Each update is a transaction, as in the source, except with the advisory lock, where both are one transaction.

mod verifier;

use super::interface::{Client, Outcome, Turn, Workload, lock};
use super::scenario::{ROWS_MAX, Scenario, Sizes, variants};
use super::tables::{self, SCHEMA};
use crate::connection::{Connection, Result};
use crate::record::CheckResult;
use crate::session::Session;
use crate::statement::{Statement, Value};
use rand::RngExt;
use std::sync::Mutex;
use verifier::Verifier;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "storm",
    title: "Connection storm: more clients than the database can bear",
    about: "each request updates a random row twice; what changes is how many clients are connected",
    unit: "requests",
    variants: variants! {
        "updates", "all clients at once", |sizes| Storm::new(Mode::Updates, sizes);
        "advisory-lock", "the same, queued inside the database by an advisory lock per slot, ten slots",
            |sizes| Storm::new(Mode::AdvisoryLock, sizes);
        "idle", "ten clients work, the others are connected and idle", |sizes| Storm::new(Mode::Idle, sizes);
    },
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
    /// An update for each of [`ADDED`].
    updates: [Statement; 2],
    advisory_lock: Statement,
    verifier: Mutex<Verifier>,
}

impl Storm {
    fn new(mode: Mode, sizes: &Sizes) -> Self {
        let update = |number, added| {
            let sql = format!("UPDATE {SCHEMA}.test_8000 SET cnt = cnt + {added} WHERE id = $1");
            Statement::new(number, sql, sizes.protocol)
        };
        let [one, two] = ADDED;
        Self {
            mode,
            rows: sizes.rows(ROWS, ROWS_FULL),
            updates: [update(0, one), update(1, two)],
            advisory_lock: Statement::new(2, "SELECT pg_advisory_xact_lock($1)", sizes.protocol),
            verifier: Mutex::default(),
        }
    }

    /// Records an increment before and after `work` makes it.
    async fn recorded(&self, added: u64, work: impl Future<Output = Result<()>>) -> Result<()> {
        lock(&self.verifier).sent += added;
        let answer = work.await;
        lock(&self.verifier).answered(added, &answer);
        answer
    }

    /// Executes both updates in one transaction that holds the advisory lock of the slot.
    async fn transaction(&self, conn: &mut Connection, id: Value<'_>, slot: usize) -> Result<()> {
        let slot = [Value::Int(slot as i64)];
        conn.execute("BEGIN").await?;
        conn.run(&self.advisory_lock, &slot, |_| ()).await?;
        for update in &self.updates {
            conn.run(update, &[id], |_| ()).await?;
        }
        conn.execute("COMMIT").await
    }
}

impl Workload for Storm {
    type Memory = ();

    async fn prepare(&mut self, conn: &mut Connection) -> Result<()> {
        let rows = self.rows;
        let definition = format!(
            "CREATE TABLE {SCHEMA}.test_8000 (id int PRIMARY KEY, cnt int DEFAULT 0); \
             INSERT INTO {SCHEMA}.test_8000 (id) SELECT generate_series(1, {rows})"
        );
        tables::recreate(conn, "test_8000", &definition).await?;
        let vacuum = format!("VACUUM ANALYZE {SCHEMA}.test_8000");
        conn.execute(&vacuum).await
    }

    async fn turn(&self, client: &mut Client<()>, session: &mut Session) -> Result<Turn> {
        if self.mode == Mode::Idle && client.number >= ACTIVE {
            return Ok(Turn::StayConnected);
        }
        let conn = session.connection().await?;
        let id = Value::Int(client.rng.random_range(1..=self.rows).cast_signed());
        if self.mode == Mode::AdvisoryLock {
            let work = self.transaction(conn, id, client.number % ACTIVE);
            self.recorded(ADDED.iter().sum(), work).await?;
            return Ok(Turn::Done);
        }
        for (update, added) in self.updates.iter().zip(ADDED) {
            let work = async { conn.run(update, &[id], |_| ()).await.map(drop) };
            self.recorded(added, work).await?;
        }
        Ok(Turn::Done)
    }

    async fn check(&self, conn: &mut Connection, outcome: Outcome) -> Result<CheckResult> {
        let sql = format!("SELECT coalesce(sum(cnt), 0) FROM {SCHEMA}.test_8000");
        let added = conn.number(&sql).await?;
        let verifier = lock(&self.verifier);
        let mut check = verifier.compare(added);
        // The load counts requests in doubt; the verifier counts increments in doubt.
        check.holds &= verifier.open() <= outcome.unknown * ADDED.iter().sum::<u64>();
        Ok(check)
    }

    fn active_clients(&self, clients: usize) -> usize {
        match self.mode {
            Mode::Idle => clients.min(ACTIVE),
            Mode::Updates | Mode::AdvisoryLock => clients,
        }
    }
}
