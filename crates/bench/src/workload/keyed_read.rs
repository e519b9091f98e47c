//! Keyed read: all 10,000 fares of a route in one read (SCENARIOS 5). A unit is a read whose number of rows and bytes were
//! compared with those of its key.

mod clients;
mod expected_sums;
mod fares;
mod verifier;

#[cfg(test)]
mod tests;

use super::client::{Client, Pending};
use super::scenario::{Check, Outcome, ROWS_MAX, Scenario, Sizes, Variant, Workload};
use crate::connection::{Connection, Failure};
use crate::power_law::PowerLaw;
use crate::show;
use crate::statement::{Statement, Value};
use clients::{Changer, Keys, Reader};
use expected_sums::Format;
use fares::{Fares, Layout};
use rand::rngs::StdRng;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verifier::{Expected, Verifier};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "keyed-read",
    title: "Keyed read: the fares of a route",
    about: "every client reads all 10,000 rows of one key",
    unit: "reads",
    variants: &[
        Variant {
            name: "hot-keys",
            about: "rows of a key are contiguous; few keys are read most often",
            build: |sizes| KeyedRead::build(Layout::Clustered, Choose::ByPowerLaw, sizes),
        },
        Variant {
            name: "clustered",
            about: "rows of a key are contiguous; every key is read equally often",
            build: |sizes| KeyedRead::build(Layout::Clustered, Choose::Evenly, sizes),
        },
        Variant {
            name: "scattered",
            about: "rows of a key are distributed over the whole table",
            build: |sizes| KeyedRead::build(Layout::Scattered, Choose::Evenly, sizes),
        },
        Variant {
            name: "updates",
            about: "fillfactor 80, and every 16th client changes random rows at the same time",
            build: |sizes| KeyedRead::build(Layout::Spacious, Choose::Evenly, sizes),
        },
        Variant {
            name: "jsonb",
            about: "all rows of a key in one jsonb",
            build: |sizes| KeyedRead::build(Layout::Jsonb, Choose::Evenly, sizes),
        },
        Variant {
            name: "binary",
            about: "clustered, answers in binary (text in the simple protocol, which has no binary format)",
            build: |sizes| {
                let read = KeyedRead::new(Layout::Clustered, Choose::Evenly, sizes);
                Box::new(KeyedRead {
                    read: read.read.clone().in_binary(),
                    ..read
                })
            },
        },
    ],
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

/// How clients choose keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choose {
    Evenly,
    ByPowerLaw,
}

struct KeyedRead {
    fares: Fares,
    choose: Choose,
    read: Statement,
    change: Statement,
    /// Set when the tables are prepared.
    verifier: Arc<Verifier>,
}

impl KeyedRead {
    fn build(layout: Layout, choose: Choose, sizes: &Sizes) -> Box<dyn Workload> {
        Box::new(Self::new(layout, choose, sizes))
    }

    fn new(layout: Layout, choose: Choose, sizes: &Sizes) -> Self {
        let fares = Fares::of(layout, sizes.rows(ROWS_SMALL, ROWS_FULL));
        Self {
            choose,
            read: Statement::new(0, fares.read(), sizes.protocol),
            change: Statement::new(1, fares.change(), sizes.protocol),
            verifier: Arc::default(),
            fares,
        }
    }

    /// The expected answer for each key.
    fn expected(&self) -> Expected {
        let format = if self.read.is_in_binary() {
            Format::Binary
        } else {
            Format::Text
        };
        Expected {
            rows: self.fares.rows_of_answer(),
            sums: (!self.fares.changes()).then(|| expected_sums::sums(&self.fares, format)),
        }
    }

    /// Reads every key once, so that the table is in memory for every target.
    async fn warm(&self, conn: &mut Connection) -> Result<(), Failure> {
        for key in 1..=self.fares.keys {
            conn.run(&self.read, &[Value::Int(key)], |_| ()).await?;
        }
        Ok(())
    }
}

/// The expected rows use the ISO date style.
async fn expect_iso(conn: &mut Connection) -> Result<(), Failure> {
    let rows = conn.query("SHOW DateStyle").await?;
    let style = rows.first().and_then(|row| row.first()?.as_deref());
    match style.unwrap_or_default() {
        iso if iso.starts_with("ISO") => Ok(()),
        other => Err(Failure::Refused {
            sqlstate: "22023".to_owned(),
            message: format!(
                "answers come with DateStyle {other}, and the check knows ISO; let the lab's user have it: ALTER ROLE … SET DateStyle = 'ISO'"
            ),
        }),
    }
}

impl Workload for KeyedRead {
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, Result<(), Failure>> {
        Box::pin(async move {
            expect_iso(conn).await?;
            self.fares.fill(conn).await?;
            let changes_before = self.fares.changes_made(conn).await?;
            self.verifier = Arc::new(Verifier::new(self.expected(), changes_before));
            self.warm(conn).await
        })
    }

    fn active_clients(&self, clients: usize) -> usize {
        if self.fares.changes() {
            clients - clients / CHANGER_EVERY
        } else {
            clients
        }
    }

    fn client(&self, number: usize, rng: StdRng) -> Box<dyn Client> {
        // The last of 16 clients, so that a single client reads.
        if self.fares.changes() && number % CHANGER_EVERY == CHANGER_EVERY - 1 {
            return Box::new(Changer {
                statement: self.change.clone(),
                rows: self.fares.rows(),
                verifier: Arc::clone(&self.verifier),
                rng,
            });
        }
        let law = PowerLaw::new(self.fares.keys.unsigned_abs(), EXPONENT);
        let keys = match law.filter(|_| self.choose == Choose::ByPowerLaw) {
            Some(law) => Keys::ByPowerLaw(law),
            None => Keys::UpTo(self.fares.keys),
        };
        Box::new(Reader {
            statement: self.read.clone(),
            keys,
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
            let reads = self.verifier.check(outcome);
            if !self.fares.changes() {
                return Ok(reads);
            }
            let made = self.fares.changes_made(conn).await? - self.verifier.changes_before;
            let changes = Outcome {
                acknowledged: self.verifier.changes.load(Ordering::Relaxed),
                unknown: outcome.unknown,
            };
            Ok(Check {
                holds: reads.holds && changes.explains(made.unsigned_abs()),
                says: format!(
                    "{}; {} changes are in the table, {} were acknowledged{}",
                    reads.says,
                    show::count(made.unsigned_abs()),
                    show::count(changes.acknowledged),
                    changes.in_doubt()
                ),
            })
        })
    }
}
