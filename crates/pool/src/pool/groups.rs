//! How the templates of a pool are grouped (`SHOW GROUPS`).

#[cfg(test)]
mod tests;

use super::Pool;
use paceline_batch::learned::Learned;
use paceline_batch::prospect::Prospect;
use paceline_batch::tally::{self, Called, Seen, TemplateStats};
use paceline_relay::local_show::ShowTable;
use std::collections::HashMap;
use std::sync::Arc;

const NOT_ANALYZED: &str = "PostgreSQL has not been asked about it yet";

impl Pool {
    /// The rows of `SHOW GROUPS`.
    pub fn groups(&self, called: Called) -> ShowTable {
        let seen = self
            .template_stats()
            .into_iter()
            .map(|(stats, learned)| Seen {
                why_alone: self.why_alone(&stats, learned.as_deref()),
                tally: stats,
            });
        tally::table(seen.collect(), called, self.stats.transactions_begun())
    }

    /// The statistics of all templates, each with its analysis.
    fn template_stats(&self) -> Vec<(Arc<TemplateStats>, Option<Arc<Learned>>)> {
        let inner = self.lock();
        let learned: HashMap<u64, Arc<Learned>> = inner.analyses.all_done().collect();
        let census = inner.analyses.stats.census();
        drop(inner);
        let of = |stats: &TemplateStats| learned.get(&stats.template()?.id).map(Arc::clone);
        let all = census.by_template().into_iter();
        all.map(|stats| (Arc::clone(&stats), of(&stats))).collect()
    }

    fn why_alone(&self, stats: &TemplateStats, learned: Option<&Learned>) -> Option<String> {
        let template = stats.template()?;
        let Some(learned) = learned else {
            return Some(NOT_ANALYZED.to_owned());
        };
        let hinted = template.hints().commit_on_success;
        Prospect::of(template, learned.into(), self.policy(), hinted).why_alone()
    }
}
