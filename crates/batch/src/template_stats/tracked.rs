//! The counts of a template that is shown by itself.

use super::counts::TemplateStats;
use super::metric_names::NameGrant;
use paceline_relay::template::Template;
use std::sync::Arc;

/// A template that is shown by itself; in metrics only what was counted since it has a name.
#[derive(Debug)]
pub(super) struct TrackedTemplate {
    pub(super) stats: Arc<TemplateStats>,
    pub(super) name: Option<Arc<NameGrant>>,
    /// What it counted before it had a name.
    pub(super) unnamed: Option<Arc<TemplateStats>>,
    /// Its units when some were forgotten last.
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
