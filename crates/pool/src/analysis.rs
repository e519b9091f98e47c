//! Analysis of templates. The first client that uses a template asks PostgreSQL about it, on the server connection that has just
//! served the client, after the client has its answer.

mod catalog;
mod declared;
mod describe;
mod named_tables;
mod plan;
mod portable;
mod reasons;
mod silence;
mod template;

pub use reasons::{NO_SHAPE, OTHER_CALL};
pub use template::{analyze, why_parsed_alone};

use crate::pool::{Pool, PooledServer};
use crate::server::{ServerConn, ServerError};
use catalog::is_busy;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::strategy::PlannedRequest;
use paceline_relay::server::PrimaryColumns;
use paceline_relay::settings::SessionSettings;
use paceline_relay::template::Template;
use paceline_sql::Statement;
use reasons::NOT_DESCRIBED;
use std::sync::Arc;

/// The analysis of a template, which one client has taken on. If this is dropped without a result, the next client may analyze
/// the template.
pub struct AnalysisTask {
    pool: Arc<Pool>,
    template: Arc<Template>,
    settings: Arc<SessionSettings>,
    /// The places of the columns on the coordinator, if the template is analyzed on a shard.
    columns: Option<Arc<PrimaryColumns>>,
    result: Option<TemplateAnalysis>,
}

impl Drop for AnalysisTask {
    fn drop(&mut self) {
        self.pool
            .end_analysis(&self.template, self.settings.id, self.result.take());
    }
}

impl AnalysisTask {
    /// An analysis of the template of this request, under its settings.
    pub fn new(pool: &Arc<Pool>, request: &PlannedRequest) -> Self {
        Self {
            pool: Arc::clone(pool),
            template: Arc::clone(&request.template),
            settings: Arc::clone(&request.settings),
            columns: request
                .shard
                .as_ref()
                .map(|shard| Arc::clone(&shard.table.columns)),
            result: None,
        }
    }

    /// Runs the analysis in the background, on the connection that has just served the template.
    pub fn run(self, mut server: Box<PooledServer>) {
        server.release_rows();
        self.pool
            .analysis_started(self.template.id, self.settings.id);
        tokio::spawn(self.ask(server));
    }

    /// Runs the analysis on a connection that serves no other client meanwhile.
    pub(crate) async fn run_apart(self, server: Box<PooledServer>) {
        self.pool
            .analysis_started(self.template.id, self.settings.id);
        self.ask(server).await;
    }

    async fn ask(mut self, mut server: Box<PooledServer>) {
        let Some(conn) = server.conn() else {
            return;
        };
        let (template, settings) = (&self.template, &self.settings);
        conn.side.primary_columns.clone_from(&self.columns);
        let answer = ask(conn, template, settings, &self.pool).await;
        conn.side.primary_columns = None;
        match answer {
            Ok(result) => {
                // The statement has just run here, before it was known that it calls such a function.
                let may_change = result
                    .as_ref()
                    .is_some_and(|known| known.may_change_session == Some(true));
                conn.side.needs_reset |= may_change;
                self.result = result;
                let pool = Arc::clone(&self.pool);
                let (template, settings) = (self.template.id, self.settings.id);
                drop(self);
                // Before the connection takes the next request.
                pool.decide_again(template, settings).await;
                server.give_back();
            }
            Err(error) => tracing::debug!(%error, "the analysis of a template failed"),
        }
    }
}

/// Asks PostgreSQL about a template. `None`: there is no answer now.
async fn ask(
    conn: &mut ServerConn,
    template: &Template,
    settings: &Arc<SessionSettings>,
    pool: &Pool,
) -> Result<Option<TemplateAnalysis>, ServerError> {
    let Some(statement) = &template.statement else {
        return Ok(Some(TemplateAnalysis::refused(NOT_DESCRIBED)));
    };
    let shared = &pool.shared;
    let (templates, config) = (&shared.templates, Arc::clone(&shared.config()));
    let declared = &config.declared;
    let mut analyzed = analyze(conn, template, statement, settings, templates, declared).await;
    if let Ok(analysis) = &mut analyzed {
        let on_subscribers = analysis.reads_on_replicas && config.has_subscribers();
        let on_shards = pool.has_shards() && statement.relations.len() == 1;
        if on_subscribers || on_shards {
            // Boxed: it is rare, and every analysis would pay for its state.
            let asking = Box::pin(ask_portable(conn, template, statement, on_shards));
            match asking.await {
                Ok((is_portable, table)) => {
                    analysis.reads_on_subscribers = on_subscribers && is_portable;
                    analysis.portable_table = table;
                }
                Err(error) => analyzed = Err(error),
            }
        }
    }
    match analyzed {
        Ok(analysis) => {
            pool.log_if_captured(template, &analysis);
            Ok(Some(analysis))
        }
        Err(ServerError::Refused(error)) if is_busy(&error) => Ok(None),
        // A concurrent DDL statement or a missing privilege; the template is not grouped.
        Err(ServerError::Refused(_)) => Ok(Some(TemplateAnalysis::refused(NOT_DESCRIBED))),
        Err(error) => Err(error),
    }
}

/// Whether a statement has the same meaning on other servers with its tables, and for shards its only table.
async fn ask_portable(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    on_shards: bool,
) -> Result<(bool, Option<u32>), ServerError> {
    let is_portable = portable::is_portable(conn, template, statement).await?;
    let table = match is_portable && on_shards {
        true => portable::only_table(conn, statement).await?,
        false => None,
    };
    Ok((is_portable, table))
}

/// The only table of a statement that has the same meaning on other servers with the same table; `None` for other statements.
///
/// # Errors
/// The server rejects a question, or the connection is lost.
pub async fn portable_table(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
) -> Result<Option<u32>, ServerError> {
    let may = statement.relations.len() == 1;
    match may && portable::is_portable(conn, template, statement).await? {
        true => portable::only_table(conn, statement).await,
        false => Ok(None),
    }
}
