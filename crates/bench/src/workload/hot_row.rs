//! Hot row: hundreds of clients take pieces from one stock (SCENARIOS 1). A unit is an acknowledged update.

mod verifier;

use super::client::{Client, Pending, Turn};
use super::scenario::{Check, Outcome, Scenario, Sizes, Variant, Workload};
use super::tables::{self, SCHEMA};
use super::values;
use crate::connection::{Connection, Failure};
use crate::session::Session;
use crate::statement::{Statement, Value};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::Arc;
use verifier::Verifier;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "hot-row",
    title: "Hot row: a flash sale",
    about: "every client takes one piece from the stock of the same article",
    unit: "updates",
    variants: &[
        Variant {
            name: "hinted",
            about: "UPDATE with the hint COMMIT_ON_SUCCESS",
            build: |sizes| HotRow::build(HINTED, 1, sizes),
        },
        Variant {
            name: "un-hinted",
            about: "the same UPDATE without a hint",
            build: |sizes| HotRow::build(PLAIN, 1, sizes),
        },
        Variant {
            name: "guarded",
            about: "with a guard (AND qty >= 1) and RETURNING",
            build: |sizes| HotRow::build(GUARDED, 1, sizes),
        },
        Variant {
            name: "8-rows",
            about: "hinted, eight articles",
            build: |sizes| HotRow::build(HINTED, 8, sizes),
        },
        Variant {
            name: "64-rows",
            about: "hinted, 64 articles",
            build: |sizes| HotRow::build(HINTED, 64, sizes),
        },
    ],
    clients: &[256],
    clients_full: &[256],
    // Each variant defines its number of articles.
    rows: None,
};

const HINTED: &str =
    "UPDATE /*+ COMMIT_ON_SUCCESS */ paceline_lab.stock SET qty = qty - 1 WHERE id = $1";
const PLAIN: &str = "UPDATE paceline_lab.stock SET qty = qty - 1 WHERE id = $1";
const GUARDED: &str = "UPDATE /*+ COMMIT_ON_SUCCESS */ paceline_lab.stock SET qty = qty - 1 \
     WHERE id = $1 AND qty >= 1 RETURNING qty";

/// Initial stock of each article; more than any run takes.
const STOCK: u64 = 1_000_000_000;

struct HotRow {
    statement: Statement,
    /// Whether the statement returns the remaining stock.
    returns: bool,
    articles: u32,
    verifier: Arc<Verifier>,
}

impl HotRow {
    fn build(sql: &'static str, articles: u32, sizes: &Sizes) -> Box<dyn Workload> {
        Box::new(Self {
            statement: Statement::new(0, sql, sizes.protocol),
            returns: sql == GUARDED,
            articles,
            verifier: Arc::new(Verifier::new(articles as usize, STOCK)),
        })
    }
}

impl Workload for HotRow {
    fn prepare<'a>(&'a mut self, conn: &'a mut Connection) -> Pending<'a, Result<(), Failure>> {
        Box::pin(async move {
            // The hot rows of the last run have left dead versions: each run starts with a new table.
            tables::drop_table(conn, "stock").await?;
            let articles = self.articles;
            conn.query(&format!(
                "CREATE TABLE {SCHEMA}.stock (id int PRIMARY KEY, qty bigint NOT NULL); \
                 INSERT INTO {SCHEMA}.stock SELECT g, {STOCK} FROM generate_series(1, {articles}) g"
            ))
            .await?;
            Ok(())
        })
    }

    fn client(&self, _number: usize, rng: StdRng) -> Box<dyn Client> {
        Box::new(Buyer {
            statement: self.statement.clone(),
            returns: self.returns,
            articles: self.articles.into(),
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
            let rows = conn
                .query(&format!("SELECT id, qty FROM {SCHEMA}.stock"))
                .await?;
            let left: Vec<_> = rows.iter().filter_map(|row| article(row)).collect();
            Ok(self.verifier.compare(&left, outcome))
        })
    }
}

/// Number and remaining stock of an article.
fn article(row: &[Option<String>]) -> Option<(i64, i64)> {
    let [Some(id), Some(qty)] = row else {
        return None;
    };
    Some((id.parse().ok()?, qty.parse().ok()?))
}

struct Buyer {
    statement: Statement,
    returns: bool,
    articles: i64,
    verifier: Arc<Verifier>,
    rng: StdRng,
}

impl Client for Buyer {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let article = self.rng.random_range(1..=self.articles);
            let conn = session.connection().await?;
            let values = [Value::Int(article)];
            let mut left = None;
            self.verifier.sent();
            let answer = conn
                .run(&self.statement, &values, |row| left = values::single(row))
                .await?;
            if answer.affected != 1 {
                self.verifier.missed();
                return Ok(Turn::Idle);
            }
            self.verifier.acknowledged(article);
            if self.returns {
                self.verifier.returned(article, left);
            }
            Ok(Turn::Done)
        })
    }
}
