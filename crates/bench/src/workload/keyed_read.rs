//! Keyed read: all 10,000 fares of a route in one read (SCENARIOS 5). A unit is a read whose number of rows and bytes were
//! compared with those of its key.

mod expected_sums;
mod fares;
mod own_changes;
mod verifier;

#[cfg(test)]
mod tests;

use super::interface::{Client, Outcome, Turn, Workload, lock};
use super::known::CheckedReads;
use super::scenario::{ROWS_MAX, Scenario, Sizes, variants};
use crate::connection::{Connection, Failure, Result};
use crate::power_law::PowerLaw;
use crate::record::CheckResult;
use crate::session::Session;
use crate::show;
use crate::statement::{Statement, Value};
use fares::{Fares, Layout};
use own_changes::{ClientKeys, FirstRow};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::Mutex;
use verifier::{Expected, Verifier};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "keyed-read",
    title: "Keyed read: the fares of a route",
    about: "every client reads all 10,000 rows of one key",
    unit: "reads",
    variants: variants! {
        "hot-keys", "rows of a key are contiguous; few keys are read most often",
            |sizes| KeyedRead { is_skewed: true, ..KeyedRead::new(Layout::Clustered, sizes) };
        "clustered", "rows of a key are contiguous; every key is read equally often",
            |sizes| KeyedRead::new(Layout::Clustered, sizes);
        "scattered", "rows of a key are distributed over the whole table",
            |sizes| KeyedRead::new(Layout::Scattered, sizes);
        "updates", "fillfactor 80, and every 16th client changes random rows at the same time",
            |sizes| KeyedRead::new(Layout::Spacious, sizes);
        "jsonb", "all rows of a key in one jsonb", |sizes| KeyedRead::new(Layout::Jsonb, sizes);
        "binary", "clustered, answers in binary (text in the simple protocol, which has no binary format)",
            |sizes| KeyedRead::new(Layout::Clustered, sizes).in_binary();
        "thin-link", "clustered, over a link of 100 Mbit/s that the lab imitates: alone, and between two Pacelines, compressed or not", on ThinLink,
            |sizes| KeyedRead::new(Layout::Clustered, sizes);
        "replicas", "every key is read equally often; one turn of 16 changes a key, which the client reads next", on Replicated,
            |sizes| KeyedRead::new(Layout::Spacious, sizes).with_own_changes(sizes);
        "sharded", "clustered, each key on one of two shards", on Sharded, by [("fares", "typeid")],
            |sizes| KeyedRead::new(Layout::Clustered, sizes);
    },
    clients: &[64],
    clients_full: &[64, 100],
    rows: Some((1, ROWS_MAX)),
};

/// Rows of the table in the demonstration.
const ROWS_SMALL: u64 = 1_000_000;
/// Rows with `--full`. The source has 1,000,000,000 (76 GB, hours to load); a read accesses the same number of blocks.
const ROWS_FULL: u64 = 10_000_000;
/// Exponent of the power law of the keys.
const EXPONENT: f64 = 1.5;
/// In the variant with changes, one client of this number changes rows.
const CHANGER_EVERY: usize = 16;

struct KeyedRead {
    fares: Fares,
    /// By popularity; the first key is the most frequent.
    keys: PowerLaw,
    /// Whether clients choose keys by popularity; otherwise they choose uniformly.
    is_skewed: bool,
    read: Statement,
    change: Statement,
    /// The reads of clients that change keys themselves; `None` if other clients do, or none.
    own_changes: Option<CheckedReads>,
    /// Set when the tables are prepared.
    verifier: Mutex<Verifier>,
}

impl KeyedRead {
    fn new(layout: Layout, sizes: &Sizes) -> Self {
        let fares = Fares::of(layout, sizes.rows(ROWS_SMALL, ROWS_FULL));
        Self {
            keys: PowerLaw::new(fares.keys.unsigned_abs(), EXPONENT),
            is_skewed: false,
            read: Statement::new(0, fares.read(), sizes.protocol),
            change: Statement::new(1, fares.change(), sizes.protocol),
            own_changes: None,
            verifier: Mutex::default(),
            fares,
        }
    }

    fn in_binary(mut self) -> Self {
        self.read = self.read.in_binary();
        self
    }

    fn with_own_changes(mut self, sizes: &Sizes) -> Self {
        self.change = Statement::new(1, self.fares.change_returning(), sizes.protocol);
        self.own_changes = Some(CheckedReads::default());
        self
    }

    /// Draws a key.
    fn key(&self, rng: &mut StdRng) -> i64 {
        match self.is_skewed {
            true => self.keys.draw(rng),
            false => rng.random_range(1..=self.fares.keys),
        }
    }

    /// Whether some clients change rows, and read none.
    fn has_changers(&self) -> bool {
        self.fares.changes() && self.own_changes.is_none()
    }

    /// Changes a random row. A change is not a unit of work; the verifier counts it.
    async fn change(&self, client: &mut Client<ClientKeys>, session: &mut Session) -> Result<Turn> {
        let row = client.rng.random_range(1..=self.fares.rows());
        let conn = session.connection().await?;
        let answer = conn.run(&self.change, &[Value::Int(row)], |_| ()).await?;
        lock(&self.verifier).changes += answer.affected;
        Ok(Turn::Idle)
    }

    /// Changes a random key, which the client then knows.
    async fn change_key(
        &self,
        Client { rng, memory, .. }: &mut Client<ClientKeys>,
        session: &mut Session,
    ) -> Result<Turn> {
        let key = self.key(rng);
        let conn = session.connection().await?;
        let place = (key, self.fares.first_row(key));
        let changes = memory.change(conn, &self.change, place).await?;
        lock(&self.verifier).changes += changes;
        Ok(Turn::Idle)
    }

    /// Reads a key, and compares the answer with the one that is expected.
    async fn read(&self, key: i64, memory: &mut ClientKeys, session: &mut Session) -> Result<Turn> {
        let conn = session.connection().await?;
        let (values, mut sum) = ([Value::Int(key)], 0);
        let mut first_row = self
            .own_changes
            .as_ref()
            .map(|_| FirstRow::new(self.fares.first_row(key)));
        let on_row = |row: &[u8]| {
            verifier::add(&mut sum, row);
            first_row.iter_mut().for_each(|first| first.look(row));
        };
        let answer = conn.run(&self.read, &values, on_row).await?;
        lock(&self.verifier).compare(key, answer.rows, sum);
        if let Some((reads, first_row)) = self.own_changes.as_ref().zip(first_row) {
            first_row.compare(key, memory, reads);
        }
        Ok(Turn::Done)
    }
}

/// The expected rows use the ISO date style.
async fn expect_iso(conn: &mut Connection) -> Result<()> {
    let style = conn.value("SHOW DateStyle").await?.unwrap_or_default();
    if style.starts_with("ISO") {
        return Ok(());
    }
    Err(Failure::refused(
        "22023",
        format!(
            "answers come with DateStyle {style}, and the check knows ISO; let the lab's user have it: ALTER ROLE … SET DateStyle = 'ISO'"
        ),
    ))
}

impl Workload for KeyedRead {
    type Memory = ClientKeys;

    async fn prepare(&mut self, conn: &mut Connection) -> Result<()> {
        expect_iso(conn).await?;
        self.fares.fill(conn).await?;
        let changes_before = self.fares.changes_made(conn).await?;
        let is_binary = self.read.is_in_binary();
        let expected = Expected {
            rows: self.fares.rows_of_answer(),
            sums: (!self.fares.changes()).then(|| expected_sums::sums(&self.fares, is_binary)),
        };
        self.verifier = Mutex::new(Verifier::new(expected, changes_before));
        // Reads every key once, so that the table is in memory for every target.
        for key in 1..=self.fares.keys {
            conn.run(&self.read, &[Value::Int(key)], |_| ()).await?;
        }
        Ok(())
    }

    async fn turn(&self, client: &mut Client<ClientKeys>, session: &mut Session) -> Result<Turn> {
        // The last of 16 clients changes rows, so that a single client reads.
        if self.has_changers() && client.number % CHANGER_EVERY == CHANGER_EVERY - 1 {
            return self.change(client, session).await;
        }
        if self.own_changes.is_some() && client.memory.is_to_change(&mut client.rng) {
            return self.change_key(client, session).await;
        }
        let key = client.memory.next();
        let key = key.unwrap_or_else(|| self.key(&mut client.rng));
        self.read(key, &mut client.memory, session).await
    }

    async fn check(&self, conn: &mut Connection, outcome: Outcome) -> Result<CheckResult> {
        let mut check = lock(&self.verifier).check(outcome);
        if !self.fares.changes() {
            return Ok(check);
        }
        let made = self.fares.changes_made(conn).await?;
        let verifier = lock(&self.verifier);
        let made = made - verifier.changes_before;
        let changes = Outcome {
            acknowledged: verifier.changes,
            unknown: outcome.unknown,
        };
        check.holds &= changes.explains(made);
        check.says += &format!(
            "; {} changes are in the table, {} were acknowledged{}",
            show::count(made.unsigned_abs()),
            show::count(changes.acknowledged),
            changes.in_doubt()
        );
        if let Some(reads) = &self.own_changes {
            check.holds &= reads.stale() == 0;
            check.says += &format!("; {}", reads.says());
        }
        Ok(check)
    }

    fn reads(&self) -> Option<&CheckedReads> {
        self.own_changes.as_ref()
    }

    fn active_clients(&self, clients: usize) -> usize {
        if self.has_changers() {
            clients - clients / CHANGER_EVERY
        } else {
            clients
        }
    }
}
