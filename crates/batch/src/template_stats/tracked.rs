//! A template with statistics of its own.

use super::counts::TemplateStats;
use super::metric_names::NameGrant;
use paceline_relay::template::Template;
use std::sync::Arc;

/// A template with statistics of its own. Metrics show only what it counted since it has a name.
#[derive(Debug)]
pub(super) struct TrackedTemplate {
    pub(super) stats: Arc<TemplateStats>,
    pub(super) name: Option<Arc<NameGrant>>,
    /// The statistics from before it had a name.
    pub(super) unnamed: Option<Arc<TemplateStats>>,
    /// Number of its requests when templates were last forgotten.
    pub(super) requests_then: u64,
}

impl TrackedTemplate {
    pub(super) fn new(template: &Arc<Template>, name: Option<Arc<NameGrant>>) -> Self {
        Self {
            stats: TemplateStats::of(template),
            name,
            unnamed: None,
            requests_then: 0,
        }
    }

    pub(super) fn requests(&self) -> u64 {
        let unnamed = self.unnamed.as_ref().map_or(0, |stats| stats.requests());
        self.stats.requests() + unnamed
    }
}
