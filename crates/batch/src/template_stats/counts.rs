//! Counters of one template in one pool.

use super::metric_names::{NAMED_AFTER_REQUESTS, OTHER};
use crate::line::Strategy;
use paceline_relay::template::Template;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Why a unit that left with a group came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fallback {
    /// A member's error undid the group, or stopped it before this one.
    Error,
    /// A lock, or a statement, took longer than a group waits.
    Timeout,
    /// DDL has changed the table since the catalog was asked.
    Ddl,
    /// Its row is missing, or an outsider has locked it.
    Busy,
    /// There was no row for it, and PostgreSQL may raise an error all the same.
    NoRow,
    /// PostgreSQL refuses the group's statement, not a member.
    Refused,
    /// One at a time would have come out otherwise.
    Uncertain,
    /// A read in front of it took too long.
    Stalled,
    /// The answer that it would have shared is too long to be kept.
    TooLong,
    /// The group could not be put together: its settings are refused, or its queues differ after all.
    Unfit,
    /// The connection was lost under a read.
    Lost,
}

impl Fallback {
    /// Each, and what users call it.
    pub(super) const NAMES: [(Self, &str); 11] = [
        (Self::Error, "error"),
        (Self::Timeout, "timeout"),
        (Self::Ddl, "ddl"),
        (Self::Busy, "busy"),
        (Self::NoRow, "no_row"),
        (Self::Refused, "refused"),
        (Self::Uncertain, "uncertain"),
        (Self::Stalled, "stalled"),
        (Self::TooLong, "too_long"),
        (Self::Unfit, "unfit"),
        (Self::Lost, "lost"),
    ];
}

/// The units of a template that travelled by one strategy.
#[derive(Debug, Default)]
pub(super) struct GroupCounts {
    pub(super) requests: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) largest_group: AtomicU64,
    pub(super) rows_written: AtomicU64,
    pub(super) commits_saved: AtomicU64,
    /// In the order of [`Fallback::NAMES`].
    pub(super) fallbacks: [AtomicU64; Fallback::NAMES.len()],
}

/// What was counted of a template's units that travelled by one strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStats {
    /// Answered this way.
    pub requests: u64,
    /// That answered at least one of them.
    pub groups: u64,
    /// Most units in one group.
    pub largest_group: u64,
    /// `None`: each member's own statement ran.
    pub rows_written: Option<u64>,
    /// `None`: reads.
    pub commits_saved: Option<u64>,
    /// How many came back, by reason; only reasons that there were.
    pub fallbacks: Vec<(&'static str, u64)>,
}

/// Counts of one template in one pool.
#[derive(Debug, Default)]
pub struct TemplateStats {
    /// `None`: of all templates that are not counted by themselves.
    pub(super) template: Option<Arc<Template>>,
    /// Used so often since it was asked last that its template should have a name.
    pub(super) earns_name: AtomicBool,
    /// Another one will count the template's next units.
    pub(super) forgotten: AtomicBool,
    pub(super) alone: AtomicU64,
    pub(super) would_have_grouped: AtomicU64,
    pub(super) pipeline: GroupCounts,
    pub(super) share: GroupCounts,
    pub(super) chain: GroupCounts,
    pub(super) fold: GroupCounts,
    pub(super) take: GroupCounts,
    pub(super) merge: GroupCounts,
}

impl TemplateStats {
    pub(super) fn of(template: &Arc<Template>) -> Arc<Self> {
        Arc::new(Self {
            template: Some(Arc::clone(template)),
            ..Self::default()
        })
    }

    /// A unit travels alone.
    pub fn count_alone(&self) {
        let before = self.alone.fetch_add(1, Ordering::Relaxed);
        if (before + 1).is_multiple_of(NAMED_AFTER_REQUESTS) {
            self.earns_name.store(true, Ordering::Relaxed);
        }
    }

    /// A unit must wait that could travel with others if it had a hint or the switch were on.
    pub fn count_would_have_grouped(&self) {
        self.would_have_grouped.fetch_add(1, Ordering::Relaxed);
    }

    /// A unit left with a group and came back.
    pub fn count_fallback(&self, strategy: Strategy, why: Fallback) {
        if let Some(count) = self.group_counts(strategy).fallbacks.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What its template is; `None`: it counts several.
    pub fn template(&self) -> Option<&Arc<Template>> {
        self.template.as_ref()
    }

    /// The template's next unit counts on it; else [`StatsByTemplate::of`] tells on which.
    pub fn is_current(&self) -> bool {
        !self.forgotten.load(Ordering::Relaxed) && !self.earns_name.load(Ordering::Relaxed)
    }

    pub(super) fn group_counts(&self, strategy: Strategy) -> &GroupCounts {
        match strategy {
            Strategy::Pipeline => &self.pipeline,
            Strategy::Share => &self.share,
            Strategy::Chain => &self.chain,
            Strategy::Fold => &self.fold,
            Strategy::Take => &self.take,
            Strategy::Merge => &self.merge,
        }
    }

    /// Units that travelled alone.
    pub fn alone(&self) -> u64 {
        load(&self.alone)
    }

    /// Units that had to wait and would have travelled with others.
    pub fn would_have_grouped(&self) -> u64 {
        load(&self.would_have_grouped)
    }

    /// What was counted of one strategy; `None`: nothing.
    pub fn group_stats(&self, strategy: Strategy) -> Option<GroupStats> {
        let group_counts = self.group_counts(strategy);
        let fallbacks = group_counts.fallbacks();
        if load(&group_counts.requests) == 0 && fallbacks.is_empty() {
            return None;
        }
        let one_statement = matches!(strategy, Strategy::Fold | Strategy::Take | Strategy::Merge);
        Some(GroupStats {
            requests: load(&group_counts.requests),
            groups: load(&group_counts.groups),
            largest_group: load(&group_counts.largest_group),
            rows_written: one_statement.then(|| load(&group_counts.rows_written)),
            commits_saved: (!strategy.reads()).then(|| load(&group_counts.commits_saved)),
            fallbacks,
        })
    }

    /// All its units.
    pub fn requests(&self) -> u64 {
        let group_counts =
            Strategy::ALL.map(|strategy| load(&self.group_counts(strategy).requests));
        load(&self.alone) + group_counts.iter().sum::<u64>()
    }

    /// Adds what another one has counted.
    pub(super) fn add(&self, other: &Self) {
        add(&self.alone, load(&other.alone));
        add(&self.would_have_grouped, load(&other.would_have_grouped));
        for strategy in Strategy::ALL {
            self.group_counts(strategy)
                .add(other.group_counts(strategy));
        }
    }
}

impl GroupCounts {
    pub(super) fn fallbacks(&self) -> Vec<(&'static str, u64)> {
        let counts = Fallback::NAMES.iter().zip(&self.fallbacks);
        let named = counts.map(|((_, name), count)| (*name, load(count)));
        named.filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn add(&self, other: &Self) {
        add(&self.requests, load(&other.requests));
        add(&self.groups, load(&other.groups));
        let largest = load(&other.largest_group);
        self.largest_group.fetch_max(largest, Ordering::Relaxed);
        add(&self.rows_written, load(&other.rows_written));
        add(&self.commits_saved, load(&other.commits_saved));
        for (count, more) in self.fallbacks.iter().zip(&other.fallbacks) {
            add(count, load(more));
        }
    }
}

pub(super) fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

pub(super) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

impl TemplateStats {
    /// What metrics call its template, or all that have no name.
    pub fn name(&self) -> &str {
        self.template().map_or(OTHER, |template| template.name())
    }
}
