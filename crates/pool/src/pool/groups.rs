//! The grouping of the templates of a pool (`SHOW GROUPS`).

#[cfg(test)]
mod tests;

use super::Pool;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::explain::Forecast;
use paceline_batch::template_stats::{self, TemplateNaming, TemplateRow, TemplateStats};
use paceline_relay::local_show::ShowTable;
use std::collections::HashMap;
use std::sync::Arc;

const NOT_ANALYZED: &str = "PostgreSQL has not been asked about it yet";

impl Pool {
    /// The rows of `SHOW GROUPS`.
    pub fn groups(&self, called: TemplateNaming) -> ShowTable {
        let seen = self
            .template_stats()
            .into_iter()
            .map(|(stats, analysis)| TemplateRow {
                why_alone: self.why_alone(&stats, analysis.as_deref()),
                stats,
            });
        template_stats::show_groups(seen.collect(), called, self.stats.transactions_begun())
    }

    /// The statistics of all templates, each with its analysis.
    fn template_stats(&self) -> Vec<(Arc<TemplateStats>, Option<Arc<TemplateAnalysis>>)> {
        let inner = self.lock();
        let analyses: HashMap<u64, Arc<TemplateAnalysis>> = inner.analyses.all_done().collect();
        let snapshot = inner.analyses.stats.snapshot();
        drop(inner);
        let of = |stats: &TemplateStats| analyses.get(&stats.template()?.id).map(Arc::clone);
        let all = snapshot.by_template().into_iter();
        all.map(|stats| (Arc::clone(&stats), of(&stats))).collect()
    }

    fn why_alone(
        &self,
        stats: &TemplateStats,
        analysis: Option<&TemplateAnalysis>,
    ) -> Option<String> {
        let template = stats.template()?;
        let Some(analysis) = analysis else {
            return Some(NOT_ANALYZED.to_owned());
        };
        let hinted = template.hints().commit_on_success;
        Forecast::of(template, analysis.into(), self.policy(), hinted).why_alone()
    }
}
