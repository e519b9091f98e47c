//! The connection to the admin console.

use crate::server_address::connect;
use anyhow::{Context, anyhow};
use paceline_admin::snapshot::Snapshot;
use paceline_config::Upstream;
use paceline_pool::server::{ResultRows, ServerConn};
use std::time::Duration;
use tokio::time::timeout;

/// A row of `SHOW CLIENTS`.
pub(super) type ClientRow = Vec<Option<String>>;

/// The state at one moment.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) snapshot: Snapshot,
    /// The clients; `None` if they were not asked for.
    pub(super) clients: Option<Vec<ClientRow>>,
}

/// After this time without an answer, the connection counts as lost.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// The connection to the admin console; it is opened again if it is lost.
pub(super) struct Console {
    upstream: Upstream,
    conn: Option<ServerConn>,
}

impl Console {
    /// Logs in.
    ///
    /// # Errors
    /// The console cannot be reached, or rejects the login.
    pub(super) async fn connect(upstream: Upstream) -> anyhow::Result<Self> {
        let conn = Some(connect(&upstream).await?);
        Ok(Self { upstream, conn })
    }

    /// Asks for the state.
    ///
    /// # Errors
    /// The connection is lost, the console rejects the command, or its answer is that of another version.
    pub(super) async fn read(&mut self, with_clients: bool) -> anyhow::Result<Update> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => connect(&self.upstream).await?,
        };
        let rows = ask(&mut conn, "SHOW SNAPSHOT").await?;
        let text = rows.into_iter().flatten().flatten().next();
        let text = text.context("the console answers with no row")?;
        let snapshot = serde_json::from_str(&text)
            .context("the snapshot cannot be read; is the server another version of Paceline?")?;
        let clients = match with_clients {
            true => Some(ask(&mut conn, "SHOW CLIENTS").await?),
            false => None,
        };
        self.conn = Some(conn);
        Ok(Update { snapshot, clients })
    }
}

async fn ask(conn: &mut ServerConn, command: &str) -> anyhow::Result<ResultRows> {
    let results = timeout(ANSWER_TIME_MAX, conn.query(command)).await;
    let results = results.context("the console does not answer")?;
    // These errors contain their sources already.
    let results = results.map_err(|error| anyhow!("{error}"))?;
    Ok(results.into_iter().next_back().unwrap_or_default())
}
