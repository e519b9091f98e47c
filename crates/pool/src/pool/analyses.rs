//! The facts that a pool has got from PostgreSQL: analyses of templates, statements that PostgreSQL has accepted, and the parameters that
//! it reports under settings.

use crate::clock;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::template_stats::{NameQuota, StatsByTemplate, TemplateStats};
use paceline_relay::server::AcceptedParse;
use paceline_relay::settings::SessionSettings;
use paceline_relay::template::Template;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Maximum number of analyses per pool.
const ANALYSES_MAX: usize = 8_192;

/// Maximum number of accepted statements that a pool remembers.
const ACCEPTED_MAX: usize = 8_192;

/// Maximum number of settings whose parameters a pool remembers.
const PARAMETERS_MAX: usize = 1_024;

/// After this time a template that cannot be grouped is analyzed again.
const REFUSAL_LASTS: Duration = Duration::from_secs(60);

/// After this time PostgreSQL is asked again about a template that shards execute, if it could not answer.
const RETRIED_AFTER: Duration = Duration::from_secs(10);

/// After this time, templates that can be grouped are analyzed again, too: a publication may contain their tables.
const PLANS_LAST: Duration = Duration::from_secs(600);

/// A template under settings, by their ids.
type AnalysisKey = (u64, u64);

/// The facts that a pool has got from PostgreSQL.
pub(super) struct Analyses {
    by_template: FxHashMap<AnalysisKey, TemplateEntry>,
    /// Statistics by template.
    pub(super) stats: StatsByTemplate,
    /// The time at which the last accepted `Parse` of each statement was written.
    accepted: FxHashMap<AnalysisKey, u64>,
    /// By the id of the settings.
    parameters: FxHashMap<u64, ReportedParameters>,
    /// The parameters are those of an earlier generation; the next connection may lead to another server.
    pub(super) parameters_are_old: bool,
    /// The time at which plans were forgotten last.
    plans_since: Instant,
}

/// The parameters that PostgreSQL reports under settings.
struct ReportedParameters {
    values: Vec<(String, String)>,
    /// While these exist, no other settings get their id.
    _settings: Arc<SessionSettings>,
}

struct TemplateEntry {
    progress: AnalysisProgress,
    /// The result before, if shards may use it.
    last: Option<LastAnalysis>,
    /// `None` if the statistics were dropped.
    stats: Weak<TemplateStats>,
}

/// A result that has expired.
struct LastAnalysis {
    result: Arc<TemplateAnalysis>,
    /// Whether PostgreSQL could not answer in time when it was asked again. Before that, statements wait for its answer.
    is_used: bool,
}

enum AnalysisProgress {
    /// A client analyzes the template after its own request.
    Pending,
    /// PostgreSQL is being asked since this time.
    Running(u64),
    Done(DoneAnalysis),
    /// Since this time PostgreSQL has not been asked again, although it could not answer. Shards use the last result.
    Delayed(Instant),
}

struct DoneAnalysis {
    result: Arc<TemplateAnalysis>,
    since: Instant,
    /// The time at which PostgreSQL was asked, in the numbers of
    /// [`Templates::new_id`](paceline_relay::template::Templates::new_id).
    begun: u64,
}

/// The state of a template's analysis when a request arrives.
pub enum AnalysisState {
    /// The result of the analysis.
    Done(Arc<TemplateAnalysis>),
    /// Another client will analyze the template.
    Pending,
    /// PostgreSQL is being asked now.
    Running,
    /// The caller must analyze the template by a [`AnalysisTask`](crate::analysis::AnalysisTask).
    Needed,
}

impl TemplateEntry {
    /// `None` if PostgreSQL must be asked again. `redefined`: the time before which no statement may have been found to be a read for
    /// replicas.
    fn analysis(&self, redefined: u64) -> Option<AnalysisState> {
        match &self.progress {
            AnalysisProgress::Pending => Some(AnalysisState::Pending),
            AnalysisProgress::Running(_) => Some(AnalysisState::Running),
            AnalysisProgress::Delayed(since) => {
                let waits = clock::elapsed(*since) < RETRIED_AFTER;
                waits.then_some(AnalysisState::Pending)
            }
            AnalysisProgress::Done(done) => {
                let result = &done.result;
                let is_recent = result.plan.is_ok() || clock::elapsed(done.since) < REFUSAL_LASTS;
                let holds = is_recent && !(result.reads_on_replicas && done.begun < redefined);
                holds.then(|| AnalysisState::Done(Arc::clone(result)))
            }
        }
    }

    /// The result that shards may use if PostgreSQL cannot answer again.
    fn into_last(self) -> Option<LastAnalysis> {
        match self.progress {
            AnalysisProgress::Done(done) => {
                let result = done.result;
                let last = LastAnalysis {
                    result,
                    is_used: false,
                };
                last.result.portable_table.is_some().then_some(last)
            }
            AnalysisProgress::Pending
            | AnalysisProgress::Running(_)
            | AnalysisProgress::Delayed(_) => self.last,
        }
    }
}

impl Analyses {
    pub(super) fn new(names: &Arc<NameQuota>) -> Self {
        Self {
            by_template: FxHashMap::default(),
            stats: StatsByTemplate::new(Arc::clone(names)),
            accepted: FxHashMap::default(),
            parameters: FxHashMap::default(),
            parameters_are_old: false,
            plans_since: clock::now(),
        }
    }

    /// Forgets what another server need not confirm.
    pub(super) fn clear(&mut self) {
        self.by_template.clear();
        self.accepted.clear();
    }

    /// Forgets plans that may be out of date, all at once, so that no request has to read the clock.
    pub(super) fn forget_old_plans(&mut self, now: Instant) {
        if now.duration_since(self.plans_since) < PLANS_LAST {
            return;
        }
        self.plans_since = now;
        let has_plan = |progress: &AnalysisProgress| match progress {
            AnalysisProgress::Done(done) => done.result.plan.is_ok(),
            AnalysisProgress::Pending
            | AnalysisProgress::Running(_)
            | AnalysisProgress::Delayed(_) => false,
        };
        self.by_template
            .retain(|_, entry| !has_plan(&entry.progress));
    }

    /// A connection of the current generation was opened.
    pub(super) fn server_reached(&mut self) {
        if std::mem::take(&mut self.parameters_are_old) {
            self.parameters.clear();
        }
    }

    pub(super) fn of(
        &mut self,
        template: &Arc<Template>,
        settings: u64,
        redefined: u64,
    ) -> (AnalysisState, Arc<TemplateStats>) {
        let key = (template.id, settings);
        if let Some(entry) = self.by_template.get_mut(&key)
            && let Some(analysis) = entry.analysis(redefined)
        {
            let stats = entry.stats.upgrade().filter(|stats| stats.is_current());
            let stats = stats.unwrap_or_else(|| self.stats.of(template));
            entry.stats = Arc::downgrade(&stats);
            return (analysis, stats);
        }
        let expired = self.by_template.remove(&key);
        if self.by_template.len() >= ANALYSES_MAX {
            self.by_template.clear();
        }
        let stats = self.stats.of(template);
        let entry = TemplateEntry {
            progress: AnalysisProgress::Pending,
            last: expired.and_then(TemplateEntry::into_last),
            stats: Arc::downgrade(&stats),
        };
        self.by_template.insert(key, entry);
        (AnalysisState::Needed, stats)
    }

    /// `now`: the time, in the numbers of [`Templates::new_id`](paceline_relay::template::Templates::new_id).
    pub(super) fn started(&mut self, template: u64, settings: u64, now: u64) {
        // If the entry was dropped meanwhile, the next client asks again.
        if let Some(entry) = self.by_template.get_mut(&(template, settings)) {
            entry.progress = AnalysisProgress::Running(now);
        }
    }

    pub(super) fn set(&mut self, template: u64, settings: u64, result: TemplateAnalysis) {
        if let Some(entry) = self.by_template.get_mut(&(template, settings)) {
            let begun = match &entry.progress {
                AnalysisProgress::Pending | AnalysisProgress::Delayed(_) => 0,
                AnalysisProgress::Running(begun) => *begun,
                AnalysisProgress::Done(done) => done.begun,
            };
            entry.progress = AnalysisProgress::Done(DoneAnalysis {
                result: Arc::new(result),
                since: clock::now(),
                begun,
            });
            entry.last = None;
        }
    }

    /// Forgets an analysis. The next client asks again.
    pub(super) fn forget(&mut self, template: u64, settings: u64) {
        self.by_template.remove(&(template, settings));
    }

    /// An analysis has ended without a result. The next client asks again, after a while if shards use the last result.
    pub(super) fn failed(&mut self, template: u64, settings: u64) {
        self.use_last(template, settings);
        match self.by_template.get_mut(&(template, settings)) {
            Some(entry) if entry.last.is_some() => {
                entry.progress = AnalysisProgress::Delayed(clock::now());
            }
            _ => self.forget(template, settings),
        }
    }

    /// PostgreSQL has not answered in time: shards use the last result, if there is one, until it has.
    pub(super) fn use_last(&mut self, template: u64, settings: u64) {
        let entry = self.by_template.get_mut(&(template, settings));
        if let Some(last) = entry.and_then(|entry| entry.last.as_mut()) {
            last.is_used = true;
        }
    }

    /// The last result of an analysis that is being repeated, if shards use it meanwhile.
    pub(super) fn last(&self, template: u64, settings: u64) -> Option<Arc<TemplateAnalysis>> {
        let last = self.by_template.get(&(template, settings))?.last.as_ref();
        let used = last.filter(|last| last.is_used);
        used.map(|last| Arc::clone(&last.result))
    }

    /// The result of an analysis that is done and need not be repeated. As opposed to [`Analyses::of`], does not ask the caller to analyze the
    /// template.
    pub(super) fn in_force(
        &self,
        template: u64,
        settings: u64,
        redefined: u64,
    ) -> Option<Arc<TemplateAnalysis>> {
        let entry = self.by_template.get(&(template, settings))?;
        match entry.analysis(redefined)? {
            AnalysisState::Done(analysis) => Some(analysis),
            AnalysisState::Pending | AnalysisState::Running | AnalysisState::Needed => None,
        }
    }

    /// The result of an analysis that is done.
    pub(super) fn done(&self, template: u64, settings: u64) -> Option<&Arc<TemplateAnalysis>> {
        match &self.by_template.get(&(template, settings))?.progress {
            AnalysisProgress::Done(done) => Some(&done.result),
            AnalysisProgress::Pending
            | AnalysisProgress::Running(_)
            | AnalysisProgress::Delayed(_) => None,
        }
    }

    /// The results of all analyses that are done, by template.
    pub(super) fn all_done(&self) -> impl Iterator<Item = (u64, Arc<TemplateAnalysis>)> {
        let entries = self.by_template.iter();
        entries.filter_map(|((template, _), entry)| match &entry.progress {
            AnalysisProgress::Done(done) => Some((*template, Arc::clone(&done.result))),
            AnalysisProgress::Pending
            | AnalysisProgress::Running(_)
            | AnalysisProgress::Delayed(_) => None,
        })
    }

    pub(super) fn add_accepted(&mut self, parses: &[AcceptedParse]) {
        if self.accepted.len() >= ACCEPTED_MAX {
            self.accepted.clear();
        }
        for parse in parses {
            let key = (parse.statement.template(), parse.statement.settings());
            let written = self.accepted.entry(key).or_default();
            *written = parse.written.max(*written);
        }
    }

    pub(super) fn has_accepted(&self, template: u64, settings: u64, after: u64) -> bool {
        let written = self.accepted.get(&(template, settings));
        written.is_some_and(|written| *written > after)
    }

    pub(super) fn parameters(&self, settings: u64) -> Option<Vec<(String, String)>> {
        let reported = self.parameters.get(&settings)?;
        Some(reported.values.clone())
    }

    pub(super) fn set_parameters(
        &mut self,
        settings: &Arc<SessionSettings>,
        parameters: Vec<(String, String)>,
    ) {
        if self.parameters.len() >= PARAMETERS_MAX {
            self.parameters.clear();
        }
        let reported = ReportedParameters {
            values: parameters,
            _settings: Arc::clone(settings),
        };
        self.parameters.insert(settings.id, reported);
    }
}
