//! Access of clients to the facts that the pool has got from PostgreSQL.

use super::{AnalysisState, Inner, Pool};
use crate::server::ServerConn;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::template_stats::TemplateStats;
use paceline_relay::server::AcceptedParse;
use paceline_relay::settings::SessionSettings;
use paceline_relay::template::Template;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time that a request waits for a running analysis of its template.
const ANALYSIS_AWAITED_MAX: Duration = Duration::from_millis(50);

/// Maximum time that a request that may run on a shard waits for the analysis of its template.
const SHARD_ANALYSIS_AWAITED_MAX: Duration = Duration::from_secs(1);

impl Pool {
    /// The state of a template's analysis under these settings, and its statistics.
    pub fn analysis(
        &self,
        template: &Arc<Template>,
        settings: u64,
    ) -> (AnalysisState, Arc<TemplateStats>) {
        // Computed before the lock is taken: it reads the whole text.
        template.name();
        let mut inner = self.lock();
        let redefined = self.redefined(&inner);
        inner.analyses.of(template, settings, redefined)
    }

    /// The time before which no statement may have been found to be a read for replicas; 0 without replicas.
    pub(super) fn redefined(&self, inner: &Inner) -> u64 {
        match inner.servers.hosts {
            Some(_) => self.shared.last_redefinition(),
            None => 0,
        }
    }

    /// Notes that PostgreSQL is being asked about a template.
    pub(crate) fn analysis_started(&self, template: u64, settings: u64) {
        let now = self.shared.templates.new_id();
        self.lock().analyses.started(template, settings, now);
    }

    /// Waits for a running analysis. After a short time, returns [`AnalysisState::Pending`] instead. Without the result, requests on
    /// one row would occupy all connections of the pool.
    pub async fn analysis_soon(&self, template: &Arc<Template>, settings: u64) -> AnalysisState {
        let ended = self.analysis_when(template, settings, |state| {
            !matches!(state, AnalysisState::Running)
        });
        let analysis = tokio::time::timeout(ANALYSIS_AWAITED_MAX, ended).await;
        analysis.unwrap_or(AnalysisState::Pending)
    }

    /// Waits for the analysis that another client has taken on, also if it has not begun: until then the coordinator would execute
    /// statements that run on shards. If it takes too long or fails, shards use the last result ([`Pool::last_analysis`]).
    pub async fn analysis_ended(&self, template: &Arc<Template>, settings: u64) -> AnalysisState {
        let ended = self.analysis_when(template, settings, |state| {
            matches!(state, AnalysisState::Done(_) | AnalysisState::Needed)
                || self.last_analysis(template.id, settings).is_some()
        });
        let analysis = tokio::time::timeout(SHARD_ANALYSIS_AWAITED_MAX, ended).await;
        analysis.unwrap_or_else(|_| {
            self.lock().analyses.use_last(template.id, settings);
            AnalysisState::Pending
        })
    }

    async fn analysis_when(
        &self,
        template: &Arc<Template>,
        settings: u64,
        is_wanted: impl Fn(&AnalysisState) -> bool,
    ) -> AnalysisState {
        loop {
            let analyzed = self.signals.analyzed.notified();
            let state = self.analysis(template, settings).0;
            if is_wanted(&state) {
                return state;
            }
            analyzed.await;
        }
    }

    /// The last result of an analysis that cannot be repeated now. Shards use it until it has been: PostgreSQL does not answer while
    /// the table is locked, and statements that wait for the lock may occupy all connections.
    pub fn last_analysis(&self, template: u64, settings: u64) -> Option<Arc<TemplateAnalysis>> {
        self.lock().analyses.last(template, settings)
    }

    /// Ends an analysis. `None`: there is no result, and a later client asks again. Under the lock under which a new decision of
    /// operators forgets analyses, so that none with an old decision remains.
    pub(crate) fn end_analysis(
        &self,
        template: &Template,
        settings: u64,
        mut result: Option<TemplateAnalysis>,
    ) {
        let mut inner = self.lock();
        if let Some(analysis) = &mut result {
            analysis.permission = self.permission(template, analysis);
        }
        match result {
            Some(result) => inner.analyses.set(template.id, settings, result),
            None => inner.analyses.failed(template.id, settings),
        }
        drop(inner);
        self.signals.analyzed.notify_waiters();
    }

    /// Replaces an analysis. `None`: the next client asks again.
    pub(crate) fn set_analysis(
        &self,
        template: u64,
        settings: u64,
        result: Option<TemplateAnalysis>,
    ) {
        let mut inner = self.lock();
        match result {
            Some(result) => inner.analyses.set(template, settings, result),
            None => inner.analyses.forget(template, settings),
        }
        drop(inner);
        self.signals.analyzed.notify_waiters();
    }

    /// Forgets all analyses: the configuration declares other functions.
    pub(crate) fn forget_analyses(&self) {
        self.lock().analyses.clear();
    }

    /// Whether the template calls functions that may change the session; `None` if that is not known.
    pub fn changes_session(&self, template: u64, settings: u64) -> Option<bool> {
        let inner = self.lock();
        let analysis = inner.analyses.done(template, settings);
        analysis.and_then(|analysis| analysis.may_change_session)
    }

    /// Notes that PostgreSQL has accepted these statements under their settings.
    pub fn add_accepted(&self, parses: &[AcceptedParse]) {
        self.lock().analyses.add_accepted(parses);
    }

    /// Whether PostgreSQL has accepted this statement under these settings, by a `Parse` that was written after this time.
    pub fn has_accepted(&self, template: u64, settings: u64, after: u64) -> bool {
        self.lock().analyses.has_accepted(template, settings, after)
    }

    /// The parameters that PostgreSQL reports to a client with these settings, if they are known.
    pub fn parameters(&self, settings: u64) -> Option<Vec<(String, String)>> {
        self.lock().analyses.parameters(settings)
    }

    /// Remembers these parameters, unless the connection that reported them is to be replaced.
    pub fn set_parameters(
        &self,
        settings: &Arc<SessionSettings>,
        parameters: Vec<(String, String)>,
        conn: &ServerConn,
    ) {
        let mut inner = self.lock();
        if inner.servers.is_current(conn) {
            inner.analyses.set_parameters(settings, parameters);
        }
    }
}
