//! What a pool shows of how its templates travel (`SHOW GROUPS`).

#[cfg(test)]
mod tests;

use super::Pool;
use super::known::Stage;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::explain::Forecast;
use paceline_batch::template_stats::{self, TemplateNaming, TemplateRow, TemplateStats};
use paceline_relay::show::Table;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const NOT_LEARNED: &str = "PostgreSQL has not been asked about it yet";

impl Pool {
    /// How each template travels.
    pub(crate) fn groups(&self, called: TemplateNaming) -> Table {
        let seen = self
            .tallies()
            .into_iter()
            .map(|(tally, learned)| TemplateRow {
                why_alone: self.why_alone(&tally, learned.as_deref()),
                stats: tally,
            });
        template_stats::show_groups(seen.collect(), called, self.leases.load(Ordering::Relaxed))
    }

    /// The tallies, each with what is known of its template.
    fn tallies(&self) -> Vec<(Arc<TemplateStats>, Option<Arc<TemplateAnalysis>>)> {
        let inner = self.lock();
        let learned = inner.learned.iter().filter_map(|((id, _), known)| {
            let Stage::Learned(learned, _) = &known.stage else {
                return None;
            };
            Some((*id, Arc::clone(learned)))
        });
        let learned: HashMap<u64, Arc<TemplateAnalysis>> = learned.collect();
        let census = inner.tallies.snapshot();
        drop(inner);
        let of = |tally: &TemplateStats| learned.get(&tally.template()?.id).map(Arc::clone);
        let all = census.by_template().into_iter();
        all.map(|tally| (Arc::clone(&tally), of(&tally))).collect()
    }

    fn why_alone(
        &self,
        tally: &TemplateStats,
        learned: Option<&TemplateAnalysis>,
    ) -> Option<String> {
        let template = tally.template()?;
        let Some(learned) = learned else {
            return Some(NOT_LEARNED.to_owned());
        };
        let hinted = template.hints().commit_on_success;
        Forecast::of(template, learned.into(), self.policy(), hinted).why_alone()
    }
}
