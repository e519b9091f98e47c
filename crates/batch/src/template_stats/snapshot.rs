//! What a pool has counted, at one moment: for people by template, for metrics by name. Who counts on is not held up.

use super::counts::TemplateStats;
use super::tracked::TrackedTemplate;
use std::sync::Arc;

/// A template that is shown by itself.
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

    /// All that it has counted.
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

/// The tallies of a pool at one moment.
#[derive(Debug)]
pub struct StatsSnapshot {
    /// In no order.
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

    /// All of each template that is shown by itself, and the sum of all others.
    pub fn by_template(self) -> Vec<Arc<TemplateStats>> {
        let sum = self.sum_of_others();
        let known = self.known.into_iter().map(SnapshotEntry::whole);
        known.chain([Arc::new(sum)]).collect()
    }

    /// Those that have names, what they counted since then, and the sum of all others.
    pub fn by_name(self) -> Vec<Arc<TemplateStats>> {
        let sum = self.sum_of_others();
        let mut all = Vec::with_capacity(self.known.len() + 1);
        for seat in self.known {
            seat.unnamed.iter().for_each(|stats| sum.add(stats));
            match seat.is_named {
                true => all.push(seat.stats),
                false => sum.add(&seat.stats),
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
