//! The commits that a primary has acknowledged, and how many of them a promotion has lost.
//!
//! Paceline does not know the position of a commit in the log. It knows the positions of the primary at the times at which it was
//! asked, and counts around these:
//!
//! - A commit that was acknowledged before a question began is before the *insert* position of its answer.
//! - A commit that was sent after an answer had arrived is past the *flush* position of that answer. (The insert position may fall
//!   if the server crashes and starts again.)
//!
//! If the new timeline leaves the old one at a known position, the former gives an upper bound for the number of missing commits, the
//! latter a lower bound. A commit that may have written nothing counts for the upper bound only, and so does one that was under way
//! while two positions arrived.

mod counter;
mod steps;
#[cfg(test)]
mod tests;

pub use counter::{CommitCounter, SentAt};

use crate::position::{Lsn, Timeline};
use counter::Present;
use std::collections::BTreeMap;
use std::sync::Arc;
use steps::Steps;

/// The commits of all databases of one cluster, since its present primary was found.
#[derive(Debug, Default)]
pub struct CommitLog {
    present: Arc<Present>,
    databases: BTreeMap<String, DatabaseCommits>,
    /// The timeline of the commits; `None` before the first primary.
    timeline: Option<Timeline>,
    /// The flush position in the last answer.
    flushed: Option<Lsn>,
    /// The primary was replaced, and its successor has got no request yet.
    is_closed: bool,
}

#[derive(Debug)]
struct DatabaseCommits {
    counter: Arc<CommitCounter>,
    /// The number of acknowledged commits at the beginning.
    before: u64,
    /// Acknowledged commits that have written, and were sent before the last question but one, or before the last one.
    certain: u64,
    /// For each position, a number of acknowledged commits that are at or before it.
    within: Steps,
    /// For each position, a number of certain commits after which all others are past it.
    past: Steps,
}

/// Positions of a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalPosition {
    /// `pg_current_wal_insert_lsn()`
    pub inserted: Lsn,
    /// `pg_current_wal_flush_lsn()`
    pub flushed: Lsn,
}

/// The time at which a question for the position of the primary began, and the number of commits that were acknowledged before.
#[derive(Debug)]
pub struct AskedAt {
    sent_at: SentAt,
    acknowledged: BTreeMap<String, u64>,
}

/// The position at which a timeline leaves the one before it, within known limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchPoint {
    /// Not before this position.
    pub at_least: Lsn,
    /// Not past this position.
    pub at_most: Lsn,
}

/// The number of acknowledged commits that a promotion has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostCommits {
    /// Commits that are certainly missing.
    pub at_least: u64,
    /// Those, and commits that may be missing.
    pub at_most: u64,
}

/// The commits on a timeline that another one has replaced.
#[derive(Debug)]
pub struct ReplacedTimeline {
    /// The timeline.
    pub timeline: Timeline,
    term: u32,
    databases: BTreeMap<String, DatabaseCommits>,
}

impl SwitchPoint {
    /// From the history file of the new timeline.
    #[must_use]
    pub fn exactly(position: Lsn) -> Self {
        Self {
            at_least: position,
            at_most: position,
        }
    }
}

impl CommitLog {
    /// Counts the commits of a database.
    pub fn counter(&mut self, database: &str) -> Arc<CommitCounter> {
        if let Some(known) = self.databases.get(database) {
            return Arc::clone(&known.counter);
        }
        let counter = Arc::new(CommitCounter::new(&self.present));
        let commits = DatabaseCommits::new(&counter, 0);
        self.databases.insert(database.to_owned(), commits);
        counter
    }

    /// The number of commits that the present primary has acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        let term = self.present.load().term();
        let each = self.databases.values();
        each.map(|commits| commits.acknowledged(term)).sum()
    }

    /// A question for the position of the primary is about to be sent.
    #[must_use]
    pub fn ask(&self) -> AskedAt {
        let sent_at = self.present.load();
        let databases = self.databases.iter();
        let acknowledged = databases.map(|(name, commits)| {
            let count = commits.acknowledged(sent_at.term());
            (name.clone(), count)
        });
        AskedAt {
            sent_at,
            acknowledged: acknowledged.collect(),
        }
    }

    /// The primary has answered the question.
    pub fn answered(&mut self, asked: &AskedAt, position: WalPosition) {
        if self.is_closed || asked.sent_at.term() != self.present.load().term() {
            return;
        }
        self.drop_unused();
        let next = self.present.load().next_question();
        for (name, commits) in &mut self.databases {
            commits.end_count(self.flushed, next);
            if let Some(acknowledged) = asked.acknowledged.get(name) {
                commits.within.keep_at(position.inserted, *acknowledged);
            }
        }
        self.flushed = Some(position.flushed);
        self.present.store(next);
    }

    /// A primary was found. If it is on another timeline than the one before it, returns the commits on that one. Then nothing is
    /// counted as certain before [`CommitLog::followed`].
    pub fn primary_found(&mut self, timeline: Timeline) -> Option<ReplacedTimeline> {
        let before = self.timeline.replace(timeline);
        let before = before.filter(|before| *before != timeline)?;
        if self.is_closed {
            return None;
        }
        self.is_closed = true;
        let present = self.present.load();
        let next = present.next_question();
        let flushed = self.flushed.take();
        let mut databases = BTreeMap::new();
        for (name, commits) in &mut self.databases {
            commits.end_count(flushed, next);
            commits.end_count(None, next.next_question());
            let empty = DatabaseCommits::new(&commits.counter, 0);
            databases.insert(name.clone(), std::mem::replace(commits, empty));
        }
        Some(ReplacedTimeline {
            timeline: before,
            term: present.term(),
            databases,
        })
    }

    /// Requests go to the new primary from now on.
    pub fn followed(&mut self) {
        if !std::mem::take(&mut self.is_closed) {
            return;
        }
        let next = self.present.load().next_term();
        for commits in self.databases.values_mut() {
            commits.before = commits.counter.acknowledged_in(next.term());
            commits.counter.take_certain(next);
            commits.counter.take_certain(next.next_question());
        }
        self.present.store(next);
    }

    /// Drops databases that no pool leads to any more and that have lost nothing.
    fn drop_unused(&mut self) {
        let term = self.present.load().term();
        self.databases.retain(|_, commits| {
            Arc::strong_count(&commits.counter) > 1 || commits.acknowledged(term) > 0
        });
    }
}

impl DatabaseCommits {
    fn new(counter: &Arc<CommitCounter>, before: u64) -> Self {
        Self {
            counter: Arc::clone(counter),
            before,
            certain: 0,
            within: Steps::default(),
            past: Steps::default(),
        }
    }

    /// Ends the count of the certain commits that were sent before the last question. Later ones are past the position in its answer.
    fn end_count(&mut self, flushed: Option<Lsn>, next: SentAt) {
        self.certain += self.counter.take_certain(next);
        if let Some(flushed) = flushed {
            self.past.raise_to(flushed, self.certain);
        }
    }

    fn acknowledged(&self, term: u32) -> u64 {
        let count = self.counter.acknowledged_in(term);
        count.saturating_sub(self.before)
    }

    fn lost(&self, term: u32, switch: SwitchPoint) -> LostCommits {
        let kept = self.within.last_up_to(switch.at_least).unwrap_or(0);
        let before = self.past.first_from(switch.at_most);
        LostCommits {
            at_least: before.map_or(0, |before| self.certain.saturating_sub(before)),
            at_most: self.acknowledged(term).saturating_sub(kept),
        }
    }
}

impl ReplacedTimeline {
    /// The lost commits of each database that had any commit. Commits that the old primary acknowledges after this call are missing.
    #[must_use]
    pub fn lost(&self, switch: SwitchPoint) -> Vec<(String, LostCommits)> {
        let databases = self.databases.iter();
        let with_commits = databases.filter(|(_, commits)| commits.acknowledged(self.term) > 0);
        with_commits
            .map(|(name, commits)| (name.clone(), commits.lost(self.term, switch)))
            .collect()
    }
}
