//! The statistics of one pool at the moment of a scrape, read once, for all metrics.

use paceline_batch::strategy::Strategy;
use paceline_batch::template_stats::{GroupStats, SizeHistogram, StatsSnapshot, TemplateStats};
use paceline_pool::labels::PoolLabels;
use paceline_pool::pool::{Pool, PoolLoad};
use paceline_pool::stats::{Stats, Totals};
use std::sync::Arc;

pub(crate) struct PoolSample<'a> {
    pub(crate) labels: &'a PoolLabels,
    pub(crate) load: PoolLoad,
    /// For counts that a single metric reads.
    pub(crate) stats: &'a Stats,
    pub(crate) totals: Totals,
    pub(crate) templates: Vec<TemplateSample>,
    /// By template and strategy.
    pub(crate) groups: Vec<StrategySample>,
    /// SizeHistogram of groups by strategy.
    pub(crate) sizes: Vec<(&'static str, SizeHistogram)>,
    /// Requests that were neither a single read nor a single write, and transactions.
    pub(crate) leases: u64,
    /// Requests that `max_queued` has refused.
    pub(crate) refused: u64,
}

/// The counts of a template.
pub(crate) struct TemplateSample {
    /// The value of the label `template`.
    pub(crate) name: String,
    pub(crate) requests: u64,
    pub(crate) solo: u64,
    /// Requests whose time is known.
    pub(crate) timed: u64,
    /// Microseconds that these were on a server.
    pub(crate) micros: u64,
    /// Requests that a hint or `hotspot_for_autocommit` would have grouped.
    pub(crate) missed: u64,
}

/// The counts of a template under one strategy.
pub(crate) struct StrategySample {
    pub(crate) template: String,
    pub(crate) strategy: &'static str,
    pub(crate) counted: GroupStats,
}

impl<'a> PoolSample<'a> {
    /// `None` if no client has logged in: such a pool has counted nothing, and clients can name any pool without logging in.
    pub(crate) fn read(pool: &'a Pool) -> Option<Self> {
        Self::new(pool, StatsSnapshot::by_name)
    }

    /// As [`PoolSample::read`], but each template counts under its name from its first request on. Such sums may fall.
    pub(crate) fn by_template(pool: &'a Pool) -> Option<Self> {
        Self::new(pool, StatsSnapshot::by_template)
    }

    fn new(
        pool: &'a Pool,
        templates: fn(StatsSnapshot) -> Vec<Arc<TemplateStats>>,
    ) -> Option<Self> {
        let labels = pool.labels.get()?;
        let (load, snapshot) = pool.load();
        let stats = &pool.stats;
        let sizes = |strategy: Strategy| Some((strategy.name(), stats.sizes.of(strategy)?));
        let mut sample = Self {
            labels,
            load,
            stats,
            totals: stats.totals(),
            templates: Vec::new(),
            groups: Vec::new(),
            sizes: Strategy::ALL.into_iter().filter_map(sizes).collect(),
            leases: stats.transactions_begun(),
            refused: pool.refused(),
        };
        for template in templates(snapshot) {
            sample.read_template(&template);
        }
        Some(sample)
    }

    fn read_template(&mut self, stats: &TemplateStats) {
        let name = stats.name();
        let group = |strategy: Strategy| {
            Some(StrategySample {
                template: name.to_owned(),
                strategy: strategy.name(),
                counted: stats.group_stats(strategy)?,
            })
        };
        let groups = Strategy::ALL.into_iter().filter_map(group);
        self.groups.extend(groups);
        self.templates.push(TemplateSample {
            name: name.to_owned(),
            requests: stats.requests(),
            solo: stats.alone(),
            timed: stats.timed(),
            micros: stats.micros(),
            missed: stats.would_have_grouped(),
        });
    }
}
