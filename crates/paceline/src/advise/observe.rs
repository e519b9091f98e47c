//! Reads an observation: counters, samples of sessions, counters again, and the catalog's facts about the busiest tables.

use crate::cli::Advise;
use crate::server_address::connect;
use anyhow::{Context, anyhow};
use paceline_advise::observation::{Counters, Facts, Observation, Session, StatementCounters};
use paceline_advise::queries;
use paceline_pool::server::{ResultRows, ServerConn};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::Instant;

/// Samples of sessions in one observation: the share of a pattern is known to about two percent.
const SAMPLES: u32 = 100;

/// The shortest time between two samples. A sample costs the server less than a millisecond for hundreds of sessions.
const SAMPLE_PAUSE_MIN: Duration = Duration::from_millis(20);

/// Maximum number of tables about which the catalog is asked.
const TABLES_MAX: usize = 20;

/// A connection that only reads.
pub(super) struct Observer {
    conn: ServerConn,
    pinned_after: Duration,
    /// The schema of `pg_stat_statements`; `None` if it is not installed.
    statements: Option<String>,
}

impl Observer {
    /// Logs in.
    ///
    /// # Errors
    /// The server cannot be reached, or rejects the login.
    pub(super) async fn connect(arguments: &Advise) -> anyhow::Result<Self> {
        let mut observer = Self {
            conn: connect(&arguments.upstream).await?,
            pinned_after: arguments.pinned_after,
            statements: None,
        };
        observer.ask(queries::PREPARE).await?;
        observer.statements = observer.read(queries::STATEMENTS_SCHEMA).await?;
        Ok(observer)
    }

    /// Observes the server for this time.
    ///
    /// # Errors
    /// The server rejects a question, or the connection is lost.
    pub(super) async fn observe(&mut self, time: Duration) -> anyhow::Result<Observation> {
        let began = Instant::now();
        let before: Counters = self.read(queries::COUNTERS).await?;
        let statements_before = self.statements().await;
        let pause = (time / SAMPLES).max(SAMPLE_PAUSE_MIN);
        let mut samples: Vec<Vec<Session>> = Vec::new();
        while began.elapsed() < time {
            samples.push(self.read(queries::SESSIONS).await?);
            tokio::time::sleep(pause).await;
        }
        let after: Counters = self.read(queries::COUNTERS).await?;
        let statements_after = self.statements().await;
        let facts: Facts = self
            .read(&queries::facts(&busiest(&before, &after)))
            .await?;
        Ok(Observation {
            before,
            after,
            statements_before,
            statements_after,
            samples,
            facts,
            pinned_after: self.pinned_after.as_secs_f64(),
        })
    }

    /// The counts of `pg_stat_statements`; none if the library is not loaded, or the role may not read them.
    async fn statements(&mut self) -> Vec<StatementCounters> {
        let Some(schema) = &self.statements else {
            return Vec::new();
        };
        let read = self.read(&queries::statements(&schema.clone())).await;
        read.unwrap_or_default()
    }

    async fn read<T: DeserializeOwned>(&mut self, sql: &str) -> anyhow::Result<T> {
        let rows = self.ask(sql).await?;
        let text = rows.into_iter().flatten().flatten().next();
        let text = text.context("the server answers with no row")?;
        serde_json::from_str(&text).context("the server's answer cannot be read")
    }

    async fn ask(&mut self, sql: &str) -> anyhow::Result<ResultRows> {
        // These errors contain their sources already.
        let results = self
            .conn
            .query(sql)
            .await
            .map_err(|error| anyhow!("{error}"))?;
        Ok(results.into_iter().next_back().unwrap_or_default())
    }
}

/// The tables with most work between two readings.
fn busiest(before: &Counters, after: &Counters) -> Vec<u32> {
    let work_before = |id: u32| {
        let then = before.tables.iter().find(|table| table.id == id);
        then.map_or(0, |then| {
            then.blocks + then.inserted + then.updated + then.deleted
        })
    };
    let mut tables: Vec<(i64, u32)> = after
        .tables
        .iter()
        .map(|now| {
            let work = now.blocks + now.inserted + now.updated + now.deleted;
            (work - work_before(now.id), now.id)
        })
        .collect();
    tables.sort_unstable_by(|one, other| other.cmp(one));
    let busy = tables.into_iter().filter(|(work, _)| *work > 0);
    busy.take(TABLES_MAX).map(|(_, id)| id).collect()
}
