//! Commits that clients were told of, by their positions, so that a promotion can be compared with them.
//!
//! Paceline does not see the position of a commit record, but an LSN before the commit was sent and one after its answer. The
//! record ends between the two. So the number of commits beyond a switch point has a lower and an upper bound.

use crate::position::{Lsn, Timeline};
use std::collections::VecDeque;

/// Maximum number of entries. If there are more, neighbours become one entry, and the bounds move apart.
const ENTRIES_MAX: usize = 4096;

/// Commits whose records end after `after` and at or before `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Commits {
    after: Lsn,
    until: Lsn,
    count: u64,
}

/// The commits of one database that clients were told of.
#[derive(Debug, Clone, Default)]
pub struct AcknowledgedCommits {
    timeline: Option<Timeline>,
    entries: VecDeque<Commits>,
}

/// How many acknowledged commits lie beyond a switch point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beyond {
    /// At least so many.
    pub least: u64,
    /// At most so many.
    pub most: u64,
}

impl AcknowledgedCommits {
    /// Adds `count` commits whose records end after `after` and at or before `until`. Commits on a higher timeline replace those
    /// on a lower one, so the caller compares at the promotion, before the first commit on the new timeline. Commits on a lower
    /// timeline than the last are ignored.
    pub fn add(&mut self, timeline: Timeline, after: Lsn, until: Lsn, count: u64) {
        if self.timeline < Some(timeline) {
            self.timeline = Some(timeline);
            self.entries.clear();
        }
        if self.timeline > Some(timeline) || count == 0 {
            return;
        }
        self.entries.push_back(Commits {
            after: after.min(until),
            until,
            count,
        });
        if self.entries.len() > ENTRIES_MAX {
            self.halve();
        }
    }

    /// Forgets commits at or before `lsn`: every server that may be promoted has them.
    pub fn forget_up_to(&mut self, lsn: Lsn) {
        self.entries.retain(|entry| entry.until > lsn);
    }

    /// The timeline of these commits; `None` if there are none.
    #[must_use]
    pub fn timeline(&self) -> Option<Timeline> {
        self.timeline
    }

    /// The commits beyond `switch_point`, at which a new timeline left that of these commits.
    #[must_use]
    pub fn beyond(&self, switch_point: Lsn) -> Beyond {
        let count = |lost: &dyn Fn(&Commits) -> bool| {
            let lost = self.entries.iter().filter(|entry| lost(entry));
            lost.map(|entry| entry.count).sum()
        };
        Beyond {
            least: count(&|entry| entry.after >= switch_point && entry.until > switch_point),
            most: count(&|entry| entry.until > switch_point),
        }
    }

    /// Makes one entry of every two neighbours.
    fn halve(&mut self) {
        let mut entries = std::mem::take(&mut self.entries).into_iter();
        while let Some(mut entry) = entries.next() {
            if let Some(next) = entries.next() {
                entry.after = entry.after.min(next.after);
                entry.until = entry.until.max(next.until);
                entry.count += next.count;
            }
            self.entries.push_back(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: Timeline = Timeline(1);

    #[test]
    fn the_bounds_are_apart_by_what_contains_the_switch_point() {
        let mut commits = AcknowledgedCommits::default();
        for (after, until, count) in [(0, 10, 1), (10, 20, 2), (20, 30, 4), (30, 40, 8)] {
            commits.add(FIRST, Lsn(after), Lsn(until), count);
        }
        for (switch, least, most) in [(0, 15, 15), (20, 12, 12), (25, 8, 12), (40, 0, 0)] {
            assert_eq!(
                commits.beyond(Lsn(switch)),
                Beyond { least, most },
                "{switch}"
            );
        }
        commits.forget_up_to(Lsn(20));
        assert_eq!(
            commits.beyond(Lsn::ZERO),
            Beyond {
                least: 12,
                most: 12
            }
        );
    }

    #[test]
    fn a_higher_timeline_begins_anew() {
        let mut commits = AcknowledgedCommits::default();
        commits.add(FIRST, Lsn(0), Lsn(10), 1);
        commits.add(Timeline(2), Lsn(10), Lsn(20), 1);
        commits.add(FIRST, Lsn(20), Lsn(30), 1);
        assert_eq!(commits.timeline(), Some(Timeline(2)));
        assert_eq!(commits.beyond(Lsn::ZERO), Beyond { least: 1, most: 1 });
    }

    proptest! {
        #![proptest_config(paceline_testing::cases(64))]

        /// However many entries became one.
        #[test]
        fn the_truth_is_between_the_bounds(
            steps in prop::collection::vec((1u64..50, 0u64..50), 1..9000),
            switch in 0u64..300_000,
        ) {
            let mut commits = AcknowledgedCommits::default();
            let (mut end, mut lost) = (0, 0);
            for (step, slack) in steps {
                let before = end;
                end += step;
                lost += u64::from(end > switch);
                commits.add(FIRST, Lsn(before), Lsn(end + slack), 1);
            }
            let beyond = commits.beyond(Lsn(switch));
            prop_assert!(beyond.least <= lost && lost <= beyond.most, "{lost} {beyond:?}");
            prop_assert!(commits.entries.len() <= ENTRIES_MAX);
        }
    }
}
