//! Hot row: hundreds of clients take pieces from one stock (SCENARIOS 1). A unit is an acknowledged update.

mod verifier;

use super::interface::{Client, Outcome, Turn, Workload, lock};
use super::scenario::{Scenario, Sizes, variants};
use super::tables::{self, SCHEMA};
use super::values;
use crate::connection::{Connection, Result};
use crate::record::CheckResult;
use crate::session::Session;
use crate::statement::{Protocol, Statement, Value};
use rand::RngExt;
use std::sync::Mutex;
use verifier::Verifier;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "hot-row",
    title: "Hot row: a flash sale",
    about: "every client takes one piece from the stock of the same article",
    unit: "updates",
    variants: variants! {
        "hinted", "UPDATE with the hint COMMIT_ON_SUCCESS", |sizes| HotRow::new(HINTED, 1, sizes);
        "un-hinted", "the same UPDATE without a hint", |sizes| HotRow::new(PLAIN, 1, sizes);
        "guarded", "with a guard (AND qty >= 1) and RETURNING", |sizes| HotRow::new(GUARDED, 1, sizes);
        "8-rows", "hinted, eight articles", |sizes| HotRow::new(HINTED, 8, sizes);
        "64-rows", "hinted, 64 articles", |sizes| HotRow::new(HINTED, 64, sizes);
        "sharded", "the UPDATE without a hint, of one article on a shard", on Sharded, by [("stock", "id")],
            |sizes| HotRow::new(PLAIN, 1, sizes);
    },
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
    verifier: Mutex<Verifier>,
}

impl HotRow {
    fn new(sql: &'static str, articles: u32, sizes: &Sizes) -> Self {
        Self {
            statement: Statement::new(0, sql, sizes.protocol),
            returns: sql == GUARDED,
            articles,
            verifier: Mutex::new(Verifier::new(articles as usize, STOCK)),
        }
    }
}

impl Workload for HotRow {
    type Memory = ();

    async fn prepare(&mut self, conn: &mut Connection) -> Result<()> {
        let articles = self.articles;
        let definition = format!(
            "CREATE TABLE {SCHEMA}.stock (id int PRIMARY KEY, qty bigint NOT NULL); \
             INSERT INTO {SCHEMA}.stock SELECT g, {STOCK} FROM generate_series(1, {articles}) g"
        );
        tables::recreate(conn, "stock", &definition).await
    }

    async fn turn(&self, buyer: &mut Client<()>, session: &mut Session) -> Result<Turn> {
        let article = buyer.rng.random_range(1..=i64::from(self.articles));
        let conn = session.connection().await?;
        let values = [Value::Int(article)];
        let mut left = None;
        lock(&self.verifier).sent += 1;
        let answer = conn
            .run(&self.statement, &values, |row| left = values::single(row))
            .await?;
        let mut verifier = lock(&self.verifier);
        if answer.affected != 1 {
            verifier.missed += 1;
            return Ok(Turn::Idle);
        }
        verifier.acknowledged(article);
        if self.returns {
            verifier.returned(article, left);
        }
        Ok(Turn::Done)
    }

    async fn check(&self, conn: &mut Connection, outcome: Outcome) -> Result<CheckResult> {
        let sql = format!("SELECT id, qty FROM {SCHEMA}.stock");
        let (stock, mut left) = (Statement::new(0, sql, Protocol::Simple), Vec::new());
        conn.run(&stock, &[], |row| left.extend(values::row(row)))
            .await?;
        Ok(lock(&self.verifier).compare(&left, outcome))
    }
}
