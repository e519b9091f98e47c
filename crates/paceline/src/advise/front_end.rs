//! Reads the counts of a running Paceline from its admin console.

use crate::cli::Advise;
use crate::server_address::connect;
use anyhow::anyhow;
use paceline_advise::Finding;
use paceline_advise::front_end::{TemplateCounts, evaluate};
use paceline_pool::server::{ResultRows, ServerConn};
use std::collections::HashMap;
use tokio::time::{Instant, sleep};

/// The names of the console.
const CONSOLES: [&str; 2] = ["pgbouncer", "paceline"];

/// The columns of `SHOW GROUPS` that are read; their order does not change (docs/stability.md).
mod column {
    pub(super) const DATABASE: usize = 0;
    pub(super) const USER: usize = 1;
    pub(super) const TEMPLATE: usize = 2;
    pub(super) const UNITS: usize = 4;
    pub(super) const WOULD_HAVE_GROUPED: usize = 12;
    pub(super) const MEAN_MS: usize = 16;
}

/// The counts of a template since the start.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    units: f64,
    would_have_grouped: f64,
    milliseconds: f64,
}

/// The connection to the console.
pub(super) struct FrontEnd {
    conn: ServerConn,
}

impl FrontEnd {
    /// Logs in, if the URL leads to the console of a Paceline.
    ///
    /// # Errors
    /// The server cannot be reached, or rejects the login.
    pub(super) async fn connect(arguments: &Advise) -> anyhow::Result<Option<Self>> {
        let database = arguments.upstream.dbname.as_deref();
        if !database.is_some_and(|name| CONSOLES.contains(&name)) {
            return Ok(None);
        }
        let mut conn = connect(&arguments.upstream).await?;
        // PostgreSQL has no such parameter.
        let is_console = conn.query("SHOW STATE").await.is_ok();
        Ok(is_console.then_some(Self { conn }))
    }

    /// Compares the counts over the time of the observation.
    ///
    /// # Errors
    /// The connection is lost, or the console rejects the command.
    pub(super) async fn observe(&mut self, arguments: &Advise) -> anyhow::Result<Vec<Finding>> {
        let began = Instant::now();
        let before = self.totals().await?;
        sleep(arguments.interval).await;
        let after = self.totals().await?;
        let seconds = began.elapsed().as_secs_f64();
        let counts = after.into_iter().map(|((database, user, template), now)| {
            let key = (database.clone(), user, template.clone());
            let then = before.get(&key).copied().unwrap_or_default();
            let units = now.units - then.units;
            let milliseconds = (now.milliseconds - then.milliseconds).max(0.0);
            TemplateCounts {
                database,
                template,
                per_second: units / seconds,
                would_have_grouped: (now.would_have_grouped - then.would_have_grouped) / seconds,
                milliseconds: if units > 0.0 {
                    milliseconds / units
                } else {
                    0.0
                },
            }
        });
        Ok(evaluate(&counts.collect::<Vec<_>>()))
    }

    async fn totals(&mut self) -> anyhow::Result<HashMap<(String, String, String), Totals>> {
        // These errors contain their sources already.
        let results = self.conn.query("SHOW GROUPS").await;
        let results = results.map_err(|error| anyhow!("{error}"))?;
        let rows: ResultRows = results.into_iter().next_back().unwrap_or_default();
        let mut totals: HashMap<(String, String, String), Totals> = HashMap::new();
        for row in rows {
            let text = |column: usize| row.get(column).cloned().flatten().unwrap_or_default();
            let number = |column: usize| text(column).parse::<f64>().unwrap_or(0.0);
            let key = (
                text(column::DATABASE),
                text(column::USER),
                text(column::TEMPLATE),
            );
            let sums = totals.entry(key).or_default();
            let units = number(column::UNITS);
            sums.units += units;
            sums.would_have_grouped += number(column::WOULD_HAVE_GROUPED);
            sums.milliseconds += units * number(column::MEAN_MS);
        }
        Ok(totals)
    }
}
