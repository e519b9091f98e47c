//! Timeline history files (`00000002.history`), and the order of positions on several timelines.
//!
//! A history file lists the ancestors of a timeline and the LSN at which each was left. Up to that LSN, both timelines have the
//! same log. See PostgreSQL's manual, "Continuous Archiving and Point-in-Time Recovery", "Timelines".

use crate::position::{Lsn, Position, Timeline};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use thiserror::Error;

/// Maximum size of a history file. One line per promotion; PostgreSQL has no limit.
const BYTES_MAX: usize = 1 << 20;

/// The ancestors of one timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineHistory {
    timeline: Timeline,
    /// Each ancestor, from the oldest on, with the LSN at which its successor begins.
    ancestors: Vec<(Timeline, Lsn)>,
}

/// The reason why a text is not the history of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HistoryError {
    /// The text is longer than any history.
    #[error("the history file is longer than {BYTES_MAX} bytes")]
    Size,
    /// The first part of a line.
    #[error("line {0} of the history file does not begin with the number of a timeline")]
    Timeline(usize),
    /// The second part of a line.
    #[error("line {0} of the history file does not have the LSN at which its timeline was left")]
    SwitchPoint(usize),
    /// Timelines out of order.
    #[error(
        "line {0} of the history file names a timeline that is not higher than the one before it"
    )]
    Order(usize),
    /// LSNs out of order.
    #[error("line {0} of the history file has a lower LSN than the line before it")]
    Backwards(usize),
    /// An ancestor that is not older.
    #[error("line {0} of the history file names a timeline that is not lower than the file's own")]
    Descendant(usize),
}

impl TimelineHistory {
    /// Reads the history file of `timeline`.
    ///
    /// # Errors
    /// Any [`HistoryError`].
    pub fn parse(timeline: Timeline, text: &str) -> Result<Self, HistoryError> {
        if text.len() > BYTES_MAX {
            return Err(HistoryError::Size);
        }
        let mut ancestors: Vec<(Timeline, Lsn)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = entry(line, number)?;
            check_order(ancestors.last(), entry, number)?;
            if entry.0 >= timeline {
                return Err(HistoryError::Descendant(number));
            }
            ancestors.push(entry);
        }
        Ok(Self {
            timeline,
            ancestors,
        })
    }

    /// The timeline whose history this is.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.timeline
    }

    /// The parent, and the LSN at which this timeline begins; `None` for a timeline without ancestors.
    #[must_use]
    pub fn parent(&self) -> Option<(Timeline, Lsn)> {
        self.ancestors.last().copied()
    }

    /// The LSN at which this history leaves `ancestor`; `None` if `ancestor` is none.
    #[must_use]
    pub fn switch_point(&self, ancestor: Timeline) -> Option<Lsn> {
        let mut entries = self.ancestors.iter();
        entries
            .find(|(timeline, _)| *timeline == ancestor)
            .map(|(_, lsn)| *lsn)
    }
}

fn entry(line: &str, number: usize) -> Result<(Timeline, Lsn), HistoryError> {
    let mut words = line.split_ascii_whitespace();
    let timeline = words.next().and_then(|word| word.parse().ok());
    let lsn = words.next().and_then(|word| word.parse().ok());
    Ok((
        timeline.ok_or(HistoryError::Timeline(number))?,
        lsn.ok_or(HistoryError::SwitchPoint(number))?,
    ))
}

fn check_order(
    before: Option<&(Timeline, Lsn)>,
    entry: (Timeline, Lsn),
    number: usize,
) -> Result<(), HistoryError> {
    match before {
        Some((timeline, _)) if *timeline >= entry.0 => Err(HistoryError::Order(number)),
        Some((_, lsn)) if *lsn > entry.1 => Err(HistoryError::Backwards(number)),
        _ => Ok(()),
    }
}

/// The histories that could be read. Timeline 1 has no ancestors and needs no file.
#[derive(Debug, Clone, Default)]
pub struct TimelineHistories(BTreeMap<Timeline, TimelineHistory>);

impl TimelineHistories {
    /// Keeps a history. The history of a timeline never changes, so a second one for the same timeline is ignored.
    pub fn add(&mut self, history: TimelineHistory) {
        self.0.entry(history.timeline).or_insert(history);
    }

    /// Whether the history of `timeline` is known, so that the monitor need not read its file.
    #[must_use]
    pub fn knows(&self, timeline: Timeline) -> bool {
        self.path(timeline).is_some()
    }

    /// The LSN up to which two timelines have the same log: [`Lsn::MAX`] if they are one; `None` if that is not known.
    #[must_use]
    pub fn shared_up_to(&self, one: Timeline, other: Timeline) -> Option<Lsn> {
        if one == other {
            return Some(Lsn::MAX);
        }
        let mut shared = Lsn::ZERO;
        for (one, other) in self.path(one)?.zip(self.path(other)?) {
            if one.0 != other.0 {
                return Some(shared);
            }
            shared = one.1.min(other.1);
            if one.1 != other.1 {
                return Some(shared);
            }
        }
        Some(shared)
    }

    /// The LSN at which `descendant` left `ancestor`; if it does not descend from `ancestor`, the LSN up to which both have the same
    /// log. `None` if that is not known.
    #[must_use]
    pub fn left_at(&self, ancestor: Timeline, descendant: Timeline) -> Option<Lsn> {
        let history = self.0.get(&descendant);
        let switch = history.and_then(|history| history.switch_point(ancestor));
        switch.or_else(|| self.shared_up_to(ancestor, descendant))
    }

    /// The order of two positions. `None` if they are of different systems, if the switch point between their timelines is not
    /// known, or if each is past it, so that neither history contains the other.
    #[must_use]
    pub fn compare(&self, one: Position, other: Position) -> Option<Ordering> {
        if one.system != other.system {
            return None;
        }
        let shared = self.shared_up_to(one.timeline, other.timeline)?;
        let comparable = one.lsn.min(other.lsn) <= shared;
        comparable.then(|| one.lsn.cmp(&other.lsn))
    }

    /// Whether a server that has replayed up to `replayed` contains everything before `needed`. `false` if that is not known.
    #[must_use]
    pub fn contains(&self, replayed: Position, needed: Position) -> bool {
        let order = self.compare(needed, replayed);
        order.is_some_and(Ordering::is_le)
    }

    /// The ancestors of a timeline and itself, from the oldest on, each with the LSN at which it ends.
    fn path(&self, timeline: Timeline) -> Option<impl Iterator<Item = (Timeline, Lsn)>> {
        let ancestors = match self.0.get(&timeline) {
            Some(history) => history.ancestors.as_slice(),
            None if timeline == Timeline(1) => &[],
            None => return None,
        };
        Some(ancestors.iter().copied().chain([(timeline, Lsn::MAX)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::SystemId;

    fn parse(timeline: u32, text: &str) -> Result<TimelineHistory, HistoryError> {
        TimelineHistory::parse(Timeline(timeline), text)
    }

    fn at(timeline: u32, lsn: u64) -> Position {
        Position {
            system: SystemId(7),
            timeline: Timeline(timeline),
            lsn: Lsn(lsn),
        }
    }

    #[test]
    fn a_file_is_read() {
        let text = "1\t0/16B3748\tno recovery target specified\n\n# a comment\n2\t0/2000000\tbefore 2026-01-01 00:00:00\n";
        let history = parse(3, text).unwrap();
        assert_eq!(history.timeline(), Timeline(3));
        assert_eq!(history.parent(), Some((Timeline(2), Lsn(0x200_0000))));
        assert_eq!(history.switch_point(Timeline(1)), Some(Lsn(0x16B_3748)));
        assert_eq!(history.switch_point(Timeline(3)), None);
        assert_eq!(parse(1, "").unwrap().parent(), None);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, error) in [
            ("x\t0/1", HistoryError::Timeline(1)),
            ("1", HistoryError::SwitchPoint(1)),
            ("1\t01", HistoryError::SwitchPoint(1)),
            ("\n1\t0/1\n1\t0/2", HistoryError::Order(3)),
            ("1\t0/2\n2\t0/1", HistoryError::Backwards(2)),
            ("1\t0/1\n5\t0/2", HistoryError::Descendant(2)),
        ] {
            assert_eq!(parse(5, text), Err(error), "{text}");
        }
        assert_eq!(
            parse(2, &"#".repeat(BYTES_MAX + 1)),
            Err(HistoryError::Size)
        );
    }

    /// Timeline 2 left 1 at 50. Timeline 3 left 2 at 70, timeline 4 left 1 at 30.
    fn histories() -> TimelineHistories {
        let mut histories = TimelineHistories::default();
        for (timeline, text) in [(2, "1 0/32"), (3, "1 0/32\n2 0/46"), (4, "1 0/1E")] {
            histories.add(parse(timeline, text).unwrap());
        }
        histories
    }

    #[test]
    fn timelines_share_the_log_up_to_their_fork() {
        let histories = histories();
        let shared = |one, other| histories.shared_up_to(Timeline(one), Timeline(other));
        for (one, other, lsn) in [
            (1, 2, 50),
            (1, 3, 50),
            (2, 3, 70),
            (2, 4, 30),
            (3, 4, 30),
            (1, 4, 30),
        ] {
            assert_eq!(shared(one, other), Some(Lsn(lsn)), "{one} {other}");
            assert_eq!(shared(other, one), Some(Lsn(lsn)), "{other} {one}");
        }
        assert_eq!(shared(9, 9), Some(Lsn::MAX));
        assert_eq!(shared(1, 9), None);
    }

    #[test]
    fn positions_on_two_timelines_are_comparable_if_one_contains_the_other() {
        let histories = histories();
        let compare = |one, other| histories.compare(one, other);
        assert_eq!(compare(at(1, 40), at(2, 60)), Some(Ordering::Less));
        assert_eq!(compare(at(2, 60), at(1, 40)), Some(Ordering::Greater));
        assert_eq!(compare(at(1, 50), at(2, 50)), Some(Ordering::Equal));
        assert_eq!(compare(at(1, 51), at(2, 60)), None);
        assert_eq!(compare(at(1, 40), at(9, 60)), None);
        let elsewhere = Position {
            system: SystemId(8),
            ..at(1, 40)
        };
        assert_eq!(compare(elsewhere, at(1, 40)), None);
    }

    #[test]
    fn a_server_contains_what_it_replayed_on_the_shared_log() {
        let histories = histories();
        let contains = |replayed, needed| histories.contains(replayed, needed);
        assert!(contains(at(1, 40), at(1, 40)));
        assert!(!contains(at(1, 39), at(1, 40)));
        assert!(contains(at(2, 60), at(1, 50)));
        assert!(!contains(at(2, 60), at(1, 51)), "lost by the promotion");
        assert!(
            contains(at(1, 60), at(2, 45)),
            "both have it from timeline 1"
        );
        assert!(!contains(at(1, 60), at(2, 55)), "another 55");
        assert!(!contains(at(9, 60), at(1, 1)), "not known");
    }
}
