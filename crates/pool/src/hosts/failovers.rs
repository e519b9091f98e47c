//! Lost commits: counts the commits that the primary acknowledges, and compares them with the switch point of each new timeline.
//! [`paceline_cluster::CommitLog`] has the arithmetic.
//!
//! After a promotion the next probe of the new primary reads the history of its timeline. If the monitor may not read it, the bounds
//! are those that follow from the positions of the promoted host before and after.

use paceline_cluster::{
    AskedAt, CommitCounter, CommitLog, HostAddress, LostCommits, Lsn, ReplacedTimeline,
    SwitchPoint, Timeline, WalPosition,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Maximum number of rows of `SHOW FAILOVERS` for each entry of the configuration.
const FAILOVERS_MAX: usize = 64;

/// The commits of one database that a promotion has lost.
#[derive(Debug, Clone)]
pub struct Failover {
    /// The time at which the new primary was found.
    pub at: SystemTime,
    /// The database.
    pub database: String,
    /// The old primary.
    pub host_before: Option<HostAddress>,
    /// The new one.
    pub host: HostAddress,
    /// The timeline of the old primary.
    pub timeline_before: Timeline,
    /// That of the new one.
    pub timeline: Timeline,
    /// The position at which the new timeline left the old one.
    pub switch: SwitchPoint,
    /// Acknowledged commits past that.
    pub missing: LostCommits,
}

/// The commits of one database that all promotions together have lost.
#[derive(Debug, Clone, Copy, Default)]
pub struct FailoverTotals {
    /// Promotions that were compared.
    pub failovers: u64,
    /// Acknowledged commits that are missing.
    pub missing: LostCommits,
}

/// The commits of the databases of some hosts, and those that promotions have lost.
#[derive(Debug, Default)]
pub(super) struct Failovers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    log: CommitLog,
    /// The number of commits when the primary was last asked for its position.
    asked_at: u64,
    /// The last primary.
    primary: Option<HostAddress>,
    pending: Option<Pending>,
    /// The last ones, the oldest first.
    compared: VecDeque<Failover>,
    totals: BTreeMap<String, FailoverTotals>,
}

/// A promotion that has not been compared yet.
#[derive(Debug)]
struct Pending {
    commits: ReplacedTimeline,
    at: SystemTime,
    host_before: Option<HostAddress>,
    host: HostAddress,
    timeline: Timeline,
    /// Limits of the switch point that hold without the history.
    limits: SwitchPoint,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Connections to the old primary may still acknowledge commits.
    Following,
    /// They are closed. The next probe asks for the history.
    Followed,
    /// The history was asked for.
    Asked,
}

impl Failovers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the commits of a database.
    pub(super) fn counter(&self, database: &str) -> Arc<CommitCounter> {
        self.lock().log.counter(database)
    }

    /// Whether commits were acknowledged since the primary was last asked for its position.
    pub(super) fn has_new_commits(&self) -> bool {
        let state = self.lock();
        state.log.acknowledged() != state.asked_at
    }

    /// A question to the primary is about to be sent.
    pub(super) fn ask(&self) -> AskedAt {
        let state = &mut *self.lock();
        state.asked_at = state.log.acknowledged();
        state.log.ask()
    }

    /// The primary has answered it.
    pub(super) fn answered(&self, asked: &AskedAt, position: WalPosition) {
        self.lock().log.answered(asked, position);
    }

    /// A primary was found, and has got no request yet. `limits` returns limits of the position at which the new timeline left the old
    /// one.
    pub(super) fn primary_found(
        &self,
        entry: &str,
        host: HostAddress,
        timeline: Timeline,
        limits: impl FnOnce(Timeline) -> SwitchPoint,
    ) {
        let state = &mut *self.lock();
        let host_before = state.primary.replace(host.clone());
        if let Some(commits) = state.log.primary_found(timeline) {
            // The last promotion, if its history has not arrived.
            state.compare(entry, None);
            state.pending = Some(Pending {
                limits: limits(commits.timeline),
                commits,
                at: SystemTime::now(),
                host_before,
                host,
                timeline,
                progress: Progress::Following,
            });
        } else if let Some(pending) = &mut state.pending
            && pending.progress == Progress::Following
        {
            // No request reached the primary that was found in between.
            pending.limits = limits(pending.commits.timeline);
            (pending.host, pending.timeline) = (host, timeline);
        }
    }

    /// All pools have left the old primary, and none uses the new one yet.
    pub(super) fn followed(&self) {
        let state = &mut *self.lock();
        state.log.followed();
        if let Some(pending) = &mut state.pending
            && pending.progress == Progress::Following
        {
            pending.progress = Progress::Followed;
        }
    }

    /// The timelines before and after a promotion that has not been compared.
    pub(super) fn awaited(&self) -> Option<(Timeline, Timeline)> {
        let state = self.lock();
        let pending = state.pending.as_ref()?;
        Some((pending.commits.timeline, pending.timeline))
    }

    /// The new primary was probed; `switch` is the switch point, if the history of its timeline is known.
    pub(super) fn probed(&self, entry: &str, switch: Option<Lsn>) {
        let state = &mut *self.lock();
        let Some(pending) = &mut state.pending else {
            return;
        };
        match (pending.progress, switch) {
            (Progress::Following, _) => {}
            (Progress::Followed, None) => pending.progress = Progress::Asked,
            (Progress::Followed | Progress::Asked, switch) => state.compare(entry, switch),
        }
    }

    /// The last comparisons, the oldest first.
    pub(super) fn compared(&self) -> Vec<Failover> {
        self.lock().compared.iter().cloned().collect()
    }

    /// The lost commits of all promotions, by database.
    pub(super) fn totals(&self, entry: &str) -> BTreeMap<String, FailoverTotals> {
        let mut totals = self.lock().totals.clone();
        // The entry of all databases is none itself.
        if entry != "*" {
            totals.entry(entry.to_owned()).or_default();
        }
        totals
    }
}

impl State {
    fn compare(&mut self, entry: &str, switch: Option<Lsn>) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let switch = switch.map_or(pending.limits, SwitchPoint::exactly);
        let mut lost = pending.commits.lost(switch);
        if lost.is_empty() {
            lost.push((entry.to_owned(), LostCommits::default()));
        }
        for (database, missing) in lost {
            let totals = self.totals.entry(database.clone()).or_default();
            totals.failovers += 1;
            totals.missing.at_least += missing.at_least;
            totals.missing.at_most += missing.at_most;
            let failover = Failover {
                at: pending.at,
                database,
                host_before: pending.host_before.clone(),
                host: pending.host.clone(),
                timeline_before: pending.commits.timeline,
                timeline: pending.timeline,
                switch,
                missing,
            };
            failover.log();
            self.compared.push_back(failover);
        }
        let surplus = self.compared.len().saturating_sub(FAILOVERS_MAX);
        self.compared.drain(..surplus);
    }
}

impl Failover {
    /// The switch point as text; `None` if nothing is known of it.
    #[must_use]
    pub fn switch_point(&self) -> Option<String> {
        let SwitchPoint { at_least, at_most } = self.switch;
        match (at_least == at_most, at_most == Lsn::MAX) {
            (true, _) => Some(at_most.to_string()),
            (false, false) => Some(format!("{at_least} to {at_most}")),
            (false, true) => None,
        }
    }

    fn log(&self) {
        /// The levels differ, and a level is a constant.
        macro_rules! log {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    database = self.database,
                    host = %self.host,
                    timeline_before = self.timeline_before.0,
                    timeline = self.timeline.0,
                    switch_point = self.switch_point().as_deref().unwrap_or("unknown"),
                    missing_min = self.missing.at_least,
                    missing_max = self.missing.at_most,
                    $message
                )
            };
        }
        match self.missing {
            LostCommits { at_most: 0, .. } => {
                log!(info, "the promotion has lost no acknowledged commit");
            }
            LostCommits { at_least: 0, .. } => {
                log!(warn, "the promotion may have lost acknowledged commits");
            }
            LostCommits { .. } => log!(error, "the promotion has lost acknowledged commits"),
        }
    }
}
