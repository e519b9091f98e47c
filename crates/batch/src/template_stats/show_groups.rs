//! `SHOW GROUPS`: the statistics of a pool as a table with a row per template and strategy.

use super::{GroupStats, TemplateStats};
use crate::strategy::Strategy;
use paceline_relay::local_show::ShowTable;
use paceline_relay::template::shortened;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of characters of a template.
pub(super) const TEMPLATE_CHARS_MAX: usize = 300;

/// The text for templates without statistics of their own.
pub(super) const OTHERS: &str = "(other templates)";

/// The text for requests that are no single read or write.
pub(super) const LEASES: &str = "(transactions, and what is not one read or write)";

/// The columns, as described in docs/groups.md.
pub(super) const COLUMNS: [&str; 15] = [
    "template",
    "strategy",
    "units",
    "groups",
    "mean_group",
    "largest_group",
    "travelled_together",
    "rows_written",
    "commits_saved",
    "fallbacks",
    "would_have_grouped",
    "reason",
    "on_shards",
    "coordinator_reason",
    "mean_ms",
];

/// Statistics of a template, and why its requests run alone even if they must wait.
#[derive(Debug)]
pub struct TemplateRow {
    /// The statistics.
    pub stats: Arc<TemplateStats>,
    /// `None` if they do not.
    pub why_alone: Option<String>,
}

/// The identification of templates in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateNaming {
    /// By their text, for users who may have written it.
    Text,
    /// By their names in metrics ([`TemplateStats::name`]), for other users, because a text may contain values.
    MetricName,
}

/// Builds the table; rows with the most requests come first. `leases` is the number of requests that were no single read or
/// write.
pub fn show_groups(seen: Vec<TemplateRow>, called: TemplateNaming, leases: u64) -> ShowTable {
    let mut rows: Vec<GroupsRow> = together(seen, called)
        .into_iter()
        .flat_map(GroupsRow::of_template)
        .collect();
    if leases > 0 {
        rows.push(GroupsRow {
            template: LEASES.to_owned(),
            strategy: "lease",
            requests: leases,
            ..GroupsRow::default()
        });
    }
    rows.sort_by(|a, b| {
        let order = b.requests.cmp(&a.requests);
        order.then_with(|| (&a.template, a.strategy).cmp(&(&b.template, b.strategy)))
    });
    ShowTable {
        command: "SHOW",
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.into_iter().map(GroupsRow::into_values).collect(),
    }
}

/// Adds up templates with the same text or name: they have literals of other types, or were parsed again after DDL.
fn together(seen: Vec<TemplateRow>, called: TemplateNaming) -> BTreeMap<String, TemplateRow> {
    let mut sums: BTreeMap<String, TemplateRow> = BTreeMap::new();
    for TemplateRow { stats, why_alone } in seen {
        let text = match (stats.template(), called) {
            (Some(template), TemplateNaming::Text) => template.text.clone(),
            (Some(template), TemplateNaming::MetricName) => template.name().to_owned(),
            (None, _) => OTHERS.to_owned(),
        };
        let sum = sums.entry(text).or_insert_with(|| TemplateRow {
            stats: Arc::default(),
            why_alone: None,
        });
        sum.stats.add(&stats);
        sum.why_alone = why_alone.or(sum.why_alone.take());
    }
    sums
}

/// A row before it is text.
#[derive(Debug, Default)]
struct GroupsRow {
    template: String,
    strategy: &'static str,
    requests: u64,
    /// Requests whose time is known, and the sum of their times in microseconds.
    timed: (u64, u64),
    /// `None` if the strategy has no groups.
    groups: Option<GroupStats>,
    /// The part of the template's requests that left with others.
    share: Option<f64>,
    would_have_grouped: Option<u64>,
    reason: Option<String>,
    on_shards: Option<u64>,
    coordinator_reason: Option<String>,
}

impl GroupsRow {
    /// The rows of a template.
    fn of_template((text, seen): (String, TemplateRow)) -> Vec<Self> {
        let stats = &seen.stats;
        let (all, alone) = (stats.requests(), stats.alone());
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let share = (all > 0).then(|| (all - alone) as f64 / all as f64);
        let template = shortened(&text, TEMPLATE_CHARS_MAX);
        let on_shards = Some(stats.shards.answered()).filter(|requests| *requests > 0);
        let coordinator_reason = stats.shards.reason();
        let together = Strategy::ALL.into_iter().filter_map(|strategy| {
            let group_stats = stats.group_stats(strategy)?;
            Some(Self {
                template: template.clone(),
                strategy: strategy.name(),
                requests: group_stats.requests,
                timed: (group_stats.requests, group_stats.micros),
                groups: Some(group_stats),
                share,
                on_shards,
                coordinator_reason: coordinator_reason.clone(),
                ..Self::default()
            })
        });
        let mut rows: Vec<Self> = together.collect();
        let would_have_grouped = stats.would_have_grouped();
        if alone > 0 || would_have_grouped > 0 {
            rows.push(Self {
                template,
                strategy: "solo",
                requests: alone,
                timed: (stats.alone_timed(), stats.alone_micros()),
                share,
                would_have_grouped: Some(would_have_grouped),
                reason: seen.why_alone,
                on_shards,
                coordinator_reason,
                ..Self::default()
            });
        }
        rows
    }

    fn into_values(self) -> Vec<Option<String>> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let groups = self.groups.as_ref();
        let (timed, micros) = self.timed;
        let mean_ms = (timed > 0).then(|| mean_ms(micros, timed));
        vec![
            Some(self.template),
            Some(self.strategy.to_owned()),
            Some(self.requests.to_string()),
            number(groups.map(|g| g.groups)),
            groups.map(mean),
            number(groups.map(|g| g.largest_group)),
            self.share.map(|share| format!("{share:.3}")),
            number(groups.and_then(|g| g.rows_written)),
            number(groups.and_then(|g| g.commits_saved)),
            groups.map(fallbacks),
            number(self.would_have_grouped),
            self.reason,
            number(self.on_shards),
            self.coordinator_reason,
            mean_ms,
        ]
    }
}

fn mean(group_stats: &GroupStats) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
    let mean = group_stats.requests as f64 / group_stats.groups.max(1) as f64;
    format!("{mean:.1}")
}

fn mean_ms(micros: u64, requests: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mean = micros as f64 / requests as f64 / 1_000.0;
    format!("{mean:.3}")
}

/// `error=3 timeout=1`
fn fallbacks(group_stats: &GroupStats) -> String {
    let named = group_stats.fallbacks.iter();
    let parts: Vec<String> = named
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    parts.join(" ")
}
