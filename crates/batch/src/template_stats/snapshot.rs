//! The statistics of a pool at one moment: by template for users, by name for metrics. Requests that count meanwhile do not wait.

use super::counts::TemplateStats;
use super::tracked::TrackedTemplate;
use std::sync::Arc;

/// A template with statistics of its own.
#[derive(Debug)]
struct SnapshotEntry {
    stats: Arc<TemplateStats>,
    unnamed: Option<Arc<TemplateStats>>,
    is_named: bool,
}

impl SnapshotEntry {
    fn of(shown: &TrackedTemplate) -> Self {
        Self {
            stats: Arc::clone(&shown.stats),
            unnamed: shown.unnamed.as_ref().map(Arc::clone),
            is_named: shown.name.is_some(),
        }
    }

    /// Its statistics, including those from before it had a name.
    fn whole(self) -> Arc<TemplateStats> {
        let Some(unnamed) = self.unnamed else {
            return self.stats;
        };
        let sum = TemplateStats {
            template: self.stats.template.clone(),
            ..TemplateStats::default()
        };
        sum.add(&unnamed);
        sum.add(&self.stats);
        Arc::new(sum)
    }
}

/// The statistics of a pool at one moment.
#[derive(Debug)]
pub struct StatsSnapshot {
    /// In no particular order.
    known: Vec<SnapshotEntry>,
    others: Vec<Arc<TemplateStats>>,
}

impl StatsSnapshot {
    pub(super) fn new<'a>(
        known: impl Iterator<Item = &'a TrackedTemplate>,
        others: impl Iterator<Item = &'a Arc<TemplateStats>>,
    ) -> Self {
        Self {
            known: known.map(SnapshotEntry::of).collect(),
            others: others.map(Arc::clone).collect(),
        }
    }

    /// The statistics of each template, and the sum of all others.
    pub fn by_template(self) -> Vec<Arc<TemplateStats>> {
        let sum = self.sum_of_others();
        let known = self.known.into_iter().map(SnapshotEntry::whole);
        known.chain([Arc::new(sum)]).collect()
    }

    /// The statistics of templates with names, since they have them, and the sum of all others.
    pub fn by_name(self) -> Vec<Arc<TemplateStats>> {
        let sum = self.sum_of_others();
        let mut all = Vec::with_capacity(self.known.len() + 1);
        for entry in self.known {
            entry.unnamed.iter().for_each(|stats| sum.add(stats));
            match entry.is_named {
                true => all.push(entry.stats),
                false => sum.add(&entry.stats),
            }
        }
        all.push(Arc::new(sum));
        all
    }

    fn sum_of_others(&self) -> TemplateStats {
        let sum = TemplateStats::default();
        self.others.iter().for_each(|stats| sum.add(stats));
        sum
    }
}
