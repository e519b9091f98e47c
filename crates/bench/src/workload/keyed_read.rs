//! Keyed read: all 10,000 fares of one route at once (SCENARIOS 5). A unit is one read whose rows were counted and whose bytes
//! were compared with those of its key.

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

/// The scenario.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "keyed-read",
    title: "Keyed read: the fares of a route",
    about: "every client reads all 10,000 rows of one key",
    unit: "reads",
    variants: &[
        Variant {
            name: "hot-keys",
            about: "rows of a key lie together; few keys are asked for most often",
            build: |sizes| KeyedRead::build(Layout::Clustered, Choose::ByPowerLaw, sizes),
        },
        Variant {
            name: "clustered",
            about: "rows of a key lie together; every key is asked for equally often",
            build: |sizes| KeyedRead::build(Layout::Clustered, Choose::Evenly, sizes),
        },
        Variant {
            name: "scattered",
            about: "rows of a key are strewn over the whole table",
            build: |sizes| KeyedRead::build(Layout::Scattered, Choose::Evenly, sizes),
        },
        Variant {
            name: "updates",
            about: "fillfactor 80, and every 16th client changes random rows meanwhile",
            build: |sizes| KeyedRead::build(Layout::Spacious, Choose::Evenly, sizes),
        },
        Variant {
            name: "jsonb",
            about: "all rows of a key in one jsonb",
            build: |sizes| KeyedRead::build(Layout::Jsonb, Choose::Evenly, sizes),
        },
        Variant {
            name: "binary",
            about: "clustered, answers in binary (as text by the simple protocol, which knows no other)",
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

/// Rows of the demonstration's table.
const ROWS_SMALL: u64 = 1_000_000;
/// Rows with `--full`. The source has 1,000,000,000: 76 GB, hours to fill. A read touches as many blocks as there.
const ROWS_FULL: u64 = 10_000_000;
/// Of the power law by which keys are hot.
const EXPONENT: f64 = 1.5;
/// One client in so many changes rows where there are changes at all.
const CHANGER_EVERY: usize = 16;

/// How clients choose the key that they ask for.
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
    /// Known once the tables are there.
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

    /// What every read of each key must bring.
    fn expected(&self) -> Expected {
        let format = match self.read.is_in_binary() {
            true => Format::Binary,
            false => Format::Text,
        };
        Expected {
            rows: self.fares.rows_of_answer(),
            sums: (!self.fares.changes()).then(|| expected_sums::sums(&self.fares, format)),
        }
    }

    /// Reads every key once: that brings the table into memory, so that every target finds it there.
    async fn warm(&self, conn: &mut Connection) -> Result<(), Failure> {
        for key in 1..=self.fares.keys {
            conn.run(&self.read, &[Value::Int(key)], |_| ()).await?;
        }
        Ok(())
    }
}

/// The lab knows only one way to write a time.
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
        match self.fares.changes() {
            true => clients - clients / CHANGER_EVERY,
            false => clients,
        }
    }

    fn client(&self, number: usize, rng: StdRng) -> Box<dyn Client> {
        // The last of each 16, so that a single client reads.
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
            let told = Outcome {
                acknowledged: self.verifier.changes.load(Ordering::Relaxed),
                unknown: outcome.unknown,
            };
            Ok(Check {
                holds: reads.holds && told.explains(made.unsigned_abs()),
                says: format!(
                    "{}; {} changes are in the table, {} were acknowledged{}",
                    reads.says,
                    show::count(made.unsigned_abs()),
                    show::count(told.acknowledged),
                    told.besides()
                ),
            })
        })
    }
}
