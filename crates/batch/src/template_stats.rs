//! Statistics of the requests of each template in a pool: how they were executed, what groups have saved, and why requests
//! returned to the line. A request carries the statistics of its template, so that counting takes no lock and no lookup.
//! [`StatsByTemplate`] is only used for templates that are new to the pool.

mod counts;
mod group_sizes;
mod metric_names;
mod show_groups;
mod snapshot;
#[cfg(test)]
mod tests;
mod tracked;

pub use counts::{Fallback, GroupStats, TemplateStats};
pub use group_sizes::{GroupSizes, SIZE_BOUNDS, SizeHistogram};
pub use metric_names::{NAMED_AFTER_REQUESTS, NAMES_MAX, NameQuota, OTHER};
pub use show_groups::{TemplateNaming, TemplateRow, show_groups};
pub use snapshot::StatsSnapshot;

use crate::strategy::Strategy;
use counts::{add, micros};
use metric_names::NameGrant;
use paceline_relay::template::Template;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracked::TrackedTemplate;

/// Maximum number of templates per pool with statistics of their own. Of more, the least used are counted together.
pub const TEMPLATES_MAX: usize = 1_000;

/// The answered members of a group by template. They are counted when the group ends.
#[derive(Debug, Default)]
pub struct AnsweredMembers(Vec<AnsweredPart>);

/// The answered members of one template.
#[derive(Debug)]
struct AnsweredPart {
    stats: Arc<TemplateStats>,
    requests: u64,
    micros: u64,
}

impl AnsweredMembers {
    /// Adds a member that was answered after `took`.
    pub fn add(&mut self, stats: &Arc<TemplateStats>, took: Duration) {
        let micros = micros(took);
        let mut parts = self.0.iter_mut();
        match parts.find(|part| Arc::ptr_eq(&part.stats, stats)) {
            Some(part) => {
                part.requests += 1;
                part.micros += micros;
            }
            None => self.0.push(AnsweredPart {
                stats: Arc::clone(stats),
                requests: 1,
                micros,
            }),
        }
    }

    /// Counts the members when the group ends, and returns their number. `rows` is the number of row versions that the group's
    /// statement has written; `committed` says that all members shared one commit.
    pub fn count(&mut self, strategy: Strategy, rows: u64, committed: bool) -> u64 {
        let mut all = 0;
        // The commit, and the rows of the statement, count for the first template.
        let mut commits = 1;
        let mut rows = rows;
        for part in self.0.drain(..) {
            let AnsweredPart {
                stats,
                requests,
                micros,
            } = part;
            all += requests;
            let group_counts = stats.group_counts(strategy);
            stats.earns_name.store(true, Ordering::Relaxed);
            add(&group_counts.requests, requests);
            add(&group_counts.micros, micros);
            add(&group_counts.groups, 1);
            group_counts
                .largest_group
                .fetch_max(requests, Ordering::Relaxed);
            if committed {
                add(
                    &group_counts.commits_saved,
                    requests - std::mem::take(&mut commits),
                );
                add(&group_counts.rows_written, std::mem::take(&mut rows));
            }
        }
        all
    }
}

/// The statistics of a pool by template. No count is ever lost, not even one that is added to forgotten statistics.
#[derive(Debug, Default)]
pub struct StatsByTemplate {
    /// By the id of the template.
    known: HashMap<u64, TrackedTemplate>,
    /// Forgotten statistics that requests in flight may still change. They belong to `others` after the last of these requests.
    leaving: Vec<Arc<TemplateStats>>,
    others: Arc<TemplateStats>,
    names: Arc<NameQuota>,
    /// The names in use. MultiRowUpsert templates may have one name.
    named: HashMap<String, Weak<NameGrant>>,
}

impl StatsByTemplate {
    /// Takes the names of templates from `names`.
    pub fn new(names: Arc<NameQuota>) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// The statistics in which the next request of a template counts.
    pub fn of(&mut self, template: &Arc<Template>) -> Arc<TemplateStats> {
        if let Some(shown) = self.known.get(&template.id) {
            let earns_name = shown.stats.earns_name.swap(false, Ordering::Relaxed);
            if !earns_name || shown.name.is_some() {
                return Arc::clone(&shown.stats);
            }
            return self.track_by_name(template);
        }
        if self.known.len() >= TEMPLATES_MAX {
            self.forget_half();
        }
        let named = self.named.get(template.name());
        let shown = TrackedTemplate::new(template, named.and_then(Weak::upgrade));
        let stats = Arc::clone(&shown.stats);
        self.known.insert(template.id, shown);
        stats
    }

    /// Starts statistics under a name in metrics, if one is left, because the template has been used often enough. Earlier counts
    /// remain in the sum of all templates without a name, which must not fall.
    fn track_by_name(&mut self, template: &Arc<Template>) -> Arc<TemplateStats> {
        let name = self.name(template.name());
        let shown = self.known.entry(template.id);
        let shown = shown.or_insert_with(|| TrackedTemplate::new(template, None));
        if name.is_some() {
            let unnamed = std::mem::replace(&mut shown.stats, TemplateStats::of(template));
            unnamed.forgotten.store(true, Ordering::Relaxed);
            (shown.name, shown.unnamed) = (name, Some(unnamed));
        }
        Arc::clone(&shown.stats)
    }

    fn name(&mut self, text: &str) -> Option<Arc<NameGrant>> {
        if let Some(name) = self.named.get(text).and_then(Weak::upgrade) {
            return Some(name);
        }
        let name = Arc::new(self.names.take()?);
        self.named.insert(text.to_owned(), Arc::downgrade(&name));
        Some(name)
    }

    /// Forgets the half of the templates that was used least since the last time. Templates of one name are forgotten together,
    /// judged by the most used of them, because the sum under a name must not fall.
    fn forget_half(&mut self) {
        let mut by_name: HashMap<&str, (u64, Vec<u64>)> = HashMap::new();
        for (id, shown) in &mut self.known {
            let requests = shown.requests();
            let used = requests - std::mem::replace(&mut shown.requests_then, requests);
            let (most, ids) = by_name.entry(shown.stats.name()).or_default();
            *most = used.max(*most);
            ids.push(*id);
        }
        let mut by_use: Vec<(u64, Option<u64>, Vec<u64>)> = Vec::with_capacity(by_name.len());
        by_use.extend(
            by_name
                .into_values()
                .map(|(used, ids)| (used, ids.iter().min().copied(), ids)),
        );
        by_use.sort_unstable();
        let mut ids = by_use.into_iter().map(|(.., ids)| ids);
        while self.known.len() > TEMPLATES_MAX / 2
            && let Some(ids) = ids.next()
        {
            ids.iter().for_each(|id| self.forget(*id));
        }
        self.named.retain(|_, name| name.strong_count() > 0);
        self.merge_unused();
    }

    fn forget(&mut self, id: u64) {
        if let Some(TrackedTemplate { stats, unnamed, .. }) = self.known.remove(&id) {
            stats.forgotten.store(true, Ordering::Relaxed);
            self.leaving.extend(unnamed.into_iter().chain([stats]));
        }
    }

    /// Adds forgotten statistics that no request holds any more to the sum of the others.
    fn merge_unused(&mut self) {
        for stats in std::mem::take(&mut self.leaving) {
            match Arc::try_unwrap(stats) {
                Ok(stats) => self.others.add(&stats),
                Err(held) => self.leaving.push(held),
            }
        }
    }

    /// All statistics at this moment. The caller can read them without a lock; counts that change meanwhile are neither lost nor
    /// doubled.
    pub fn snapshot(&self) -> StatsSnapshot {
        let others = self.leaving.iter().chain([&self.others]);
        StatsSnapshot::new(self.known.values(), others)
    }
}
