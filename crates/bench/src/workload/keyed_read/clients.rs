//! The clients that read, and those that change rows at the same time.

use super::verifier::{self, Verifier};
use crate::connection::Failure;
use crate::power_law::PowerLaw;
use crate::session::Session;
use crate::statement::{Statement, Value};
use crate::workload::client::{Client, Pending, Turn};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a reader chooses keys.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys {
    /// Uniformly from 1 to this key.
    UpTo(i64),
    /// By a power law; the first key is the most frequent.
    ByPowerLaw(PowerLaw),
}

impl Keys {
    fn draw(self, rng: &mut StdRng) -> i64 {
        match self {
            Self::UpTo(last) => rng.random_range(1..=last),
            Self::ByPowerLaw(law) => law.draw(rng),
        }
    }
}

/// Reads all rows of a key.
pub(super) struct Reader {
    pub(super) statement: Statement,
    pub(super) keys: Keys,
    pub(super) verifier: Arc<Verifier>,
    pub(super) rng: StdRng,
}

impl Client for Reader {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let key = self.keys.draw(&mut self.rng);
            let conn = session.connection().await?;
            let values = [Value::Int(key)];
            let mut sum = 0;
            let answer = conn
                .run(&self.statement, &values, |row| verifier::add(&mut sum, row))
                .await?;
            self.verifier.compare(key, answer.rows, sum);
            Ok(Turn::Done)
        })
    }
}

/// Changes a random row. A change is not a unit of work; the verifier counts it.
pub(super) struct Changer {
    pub(super) statement: Statement,
    /// Number of rows; they are numbered from 1.
    pub(super) rows: i64,
    pub(super) verifier: Arc<Verifier>,
    pub(super) rng: StdRng,
}

impl Client for Changer {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let row = self.rng.random_range(1..=self.rows);
            let conn = session.connection().await?;
            let values = [Value::Int(row)];
            let answer = conn.run(&self.statement, &values, |_| ()).await?;
            let changes = &self.verifier.changes;
            changes.fetch_add(answer.affected, Ordering::Relaxed);
            Ok(Turn::Idle)
        })
    }
}
