//! Statistics of one template.

use super::metric_names::{NAMED_AFTER_REQUESTS, OTHER};
use crate::strategy::{Execution, Strategy};
use paceline_relay::template::Template;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The reason why a request that had left with a group returned to the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fallback {
    /// The error of a member undid the group, or stopped it before this member.
    Error,
    /// The wait for a lock, or a statement, exceeded the limit of a group.
    Timeout,
    /// DDL has changed the table since the catalog analysis.
    Ddl,
    /// The row does not exist, or another session has locked it.
    Busy,
    /// The member got no row, and PostgreSQL may raise an error in such a case.
    NoRow,
    /// PostgreSQL rejects the statement of the group.
    Refused,
    /// Without the group, the result might have been another.
    Uncertain,
    /// A read before this one in the pipeline took too long.
    Stalled,
    /// The shared answer was too long to buffer.
    TooLong,
    /// The group could not be built: the server rejects its settings, or its queues differ.
    Unfit,
    /// The connection was lost during a read.
    Lost,
    /// A replica had not replayed what the read needs.
    Stale,
}

impl Fallback {
    /// All reasons, with the names that users see.
    pub(super) const NAMES: [(Self, &str); 12] = [
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
        (Self::Stale, "stale"),
    ];
}

/// Counters of one template and one strategy.
#[derive(Debug, Default)]
pub(super) struct GroupCounts {
    pub(super) requests: AtomicU64,
    pub(super) micros: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) largest_group: AtomicU64,
    pub(super) rows_written: AtomicU64,
    pub(super) commits_saved: AtomicU64,
    /// In the order of [`Fallback::NAMES`].
    pub(super) fallbacks: [AtomicU64; Fallback::NAMES.len()],
}

/// Statistics of one template and one strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStats {
    /// Answered requests.
    pub requests: u64,
    /// Microseconds that they were on a server, each as long as its group.
    pub micros: u64,
    /// Groups that answered at least one of them.
    pub groups: u64,
    /// Maximum number of answered requests in one group.
    pub largest_group: u64,
    /// `None` if the members' own statements are executed.
    pub rows_written: Option<u64>,
    /// `None` for reads.
    pub commits_saved: Option<u64>,
    /// Number of requests that returned to the line, by reason, without reasons that did not occur.
    pub fallbacks: Vec<(&'static str, u64)>,
}

/// Requests of a database with shards.
#[derive(Debug, Default)]
pub(super) struct ShardCounts {
    answered: AtomicU64,
    refused: AtomicU64,
    reason: Mutex<Option<String>>,
}

/// Statistics of one template in one pool.
#[derive(Debug, Default)]
pub struct TemplateStats {
    /// `None` if these are the statistics of all templates without statistics of their own.
    pub(super) template: Option<Arc<Template>>,
    /// Whether the template has been used often enough for a name in metrics since this was last checked.
    pub(super) earns_name: AtomicBool,
    /// Whether the next requests of the template count elsewhere.
    pub(super) forgotten: AtomicBool,
    pub(super) alone: AtomicU64,
    pub(super) alone_micros: AtomicU64,
    /// Requests alone whose time is known: it is when they end.
    pub(super) alone_timed: AtomicU64,
    pub(super) would_have_grouped: AtomicU64,
    pub(super) shards: ShardCounts,
    /// In the order of [`Strategy::ALL`].
    pub(super) groups: [GroupCounts; Strategy::ALL.len()],
}

impl TemplateStats {
    pub(super) fn of(template: &Arc<Template>) -> Arc<Self> {
        Arc::new(Self {
            template: Some(Arc::clone(template)),
            ..Self::default()
        })
    }

    /// Counts a request that is executed alone.
    pub fn count_alone(&self) {
        let before = self.alone.fetch_add(1, Ordering::Relaxed);
        if (before + 1).is_multiple_of(NAMED_AFTER_REQUESTS) {
            self.earns_name.store(true, Ordering::Relaxed);
        }
    }

    /// Counts the time that a request alone was on a server.
    pub fn count_alone_time(&self, took: Duration) {
        add(&self.alone_micros, micros(took));
        add(&self.alone_timed, 1);
    }

    /// Counts a request that must wait alone, but could join a group with a hint or with `hotspot_for_autocommit`.
    pub fn count_would_have_grouped(&self) {
        self.would_have_grouped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that a shard has answered.
    pub fn count_on_shard(&self) {
        add(&self.shards.answered, 1);
    }

    /// Counts a request that the coordinator executes although its database has shards. `why` is asked for now and then; `None`: its
    /// table is not sharded.
    pub fn count_on_coordinator(&self, why: impl FnOnce() -> Option<String>) {
        let before = self.shards.refused.fetch_add(1, Ordering::Relaxed);
        if (before + 1).is_power_of_two() {
            *self.shards.lock_reason() = why();
        }
    }

    /// Counts a request that left with a group and returned to the line.
    pub fn count_fallback(&self, strategy: Strategy, reason: Fallback) {
        let counts = self.group_counts(strategy);
        if let Some(count) = counts.fallbacks.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The template. `None` if these are the statistics of several.
    pub fn template(&self) -> Option<&Arc<Template>> {
        self.template.as_ref()
    }

    /// The name of the template in metrics, or that of all templates without a name.
    pub fn name(&self) -> &str {
        self.template().map_or(OTHER, |template| template.name())
    }

    /// Whether the template's next request counts here. Otherwise
    /// [`StatsByTemplate::of`](super::StatsByTemplate::of) returns the statistics to use.
    pub fn is_current(&self) -> bool {
        !self.forgotten.load(Ordering::Relaxed) && !self.earns_name.load(Ordering::Relaxed)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the array has an element for each strategy"
    )]
    pub(super) fn group_counts(&self, strategy: Strategy) -> &GroupCounts {
        &self.groups[strategy as usize]
    }

    /// Number of requests that were executed alone.
    #[must_use]
    pub fn alone(&self) -> u64 {
        load(&self.alone)
    }

    /// Microseconds that these requests were on a server.
    #[must_use]
    pub fn alone_micros(&self) -> u64 {
        load(&self.alone_micros)
    }

    /// Number of requests alone whose time is known.
    #[must_use]
    pub fn alone_timed(&self) -> u64 {
        load(&self.alone_timed)
    }

    /// Number of requests that had to wait alone, but could have joined a group with a hint or a switch.
    #[must_use]
    pub fn would_have_grouped(&self) -> u64 {
        load(&self.would_have_grouped)
    }

    /// The statistics of one strategy. `None` if nothing was counted.
    pub fn group_stats(&self, strategy: Strategy) -> Option<GroupStats> {
        let counts = self.group_counts(strategy);
        let fallbacks = counts.fallbacks();
        if load(&counts.requests) == 0 && fallbacks.is_empty() {
            return None;
        }
        let execution = strategy.properties().execution;
        let one_statement = execution == Execution::OneStatement;
        let writes = execution != Execution::MemberReads;
        Some(GroupStats {
            requests: load(&counts.requests),
            micros: load(&counts.micros),
            groups: load(&counts.groups),
            largest_group: load(&counts.largest_group),
            rows_written: one_statement.then(|| load(&counts.rows_written)),
            commits_saved: writes.then(|| load(&counts.commits_saved)),
            fallbacks,
        })
    }

    /// Number of all requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let grouped = self.groups.iter().map(|counts| load(&counts.requests));
        load(&self.alone) + grouped.sum::<u64>()
    }

    /// Microseconds that all requests were on a server.
    #[must_use]
    pub fn micros(&self) -> u64 {
        let grouped = self.groups.iter().map(|counts| load(&counts.micros));
        self.alone_micros() + grouped.sum::<u64>()
    }

    /// Number of requests whose time is known.
    #[must_use]
    pub fn timed(&self) -> u64 {
        let grouped = self.groups.iter().map(|counts| load(&counts.requests));
        self.alone_timed() + grouped.sum::<u64>()
    }

    /// Adds the counts of `other`.
    pub(super) fn add(&self, other: &Self) {
        add(&self.alone, load(&other.alone));
        add(&self.alone_micros, load(&other.alone_micros));
        add(&self.alone_timed, load(&other.alone_timed));
        add(&self.would_have_grouped, load(&other.would_have_grouped));
        self.shards.add(&other.shards);
        for (counts, more) in self.groups.iter().zip(&other.groups) {
            counts.add(more);
        }
    }
}

impl ShardCounts {
    fn lock_reason(&self) -> MutexGuard<'_, Option<String>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of requests that shards have answered.
    pub(super) fn answered(&self) -> u64 {
        load(&self.answered)
    }

    /// The reason why the coordinator has executed a request.
    pub(super) fn reason(&self) -> Option<String> {
        self.lock_reason().clone()
    }

    fn add(&self, other: &Self) {
        add(&self.answered, load(&other.answered));
        add(&self.refused, load(&other.refused));
        if let Some(reason) = other.reason() {
            *self.lock_reason() = Some(reason);
        }
    }
}

impl GroupCounts {
    fn fallbacks(&self) -> Vec<(&'static str, u64)> {
        let counts = Fallback::NAMES.iter().zip(&self.fallbacks);
        let named = counts.map(|((_, name), count)| (*name, load(count)));
        named.filter(|(_, count)| *count > 0).collect()
    }

    fn add(&self, other: &Self) {
        add(&self.requests, load(&other.requests));
        add(&self.micros, load(&other.micros));
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

/// Microseconds, for a count.
pub(super) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

pub(super) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}
