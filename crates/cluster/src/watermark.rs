//! The position that a client, or all clients of a process, have seen. A read for them needs a server that contains the position.
//! A watermark only rises.

use crate::history::TimelineHistories;
use crate::position::{Lsn, Position};

/// The highest position seen so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watermark(Option<Position>);

impl Watermark {
    /// The position; `None` before the first one.
    #[must_use]
    pub fn position(self) -> Option<Position> {
        self.0
    }

    /// Raises the watermark to `seen`, and returns whether `seen` is of the same system; if not, nothing changes.
    ///
    /// The result is on the higher timeline of the two. If the log of the lower timeline is known to end there earlier, only the
    /// shared part counts: the rest was lost with the promotion. If that is not known, the whole LSN counts: a read may then wait
    /// longer than necessary, but never sees less.
    pub fn raise(&mut self, seen: Position, histories: &TimelineHistories) -> bool {
        let Some(before) = self.0 else {
            self.0 = Some(seen);
            return true;
        };
        if before.system != seen.system {
            return false;
        }
        let timeline = before.timeline.max(seen.timeline);
        let carried = |position: Position| {
            let shared = histories.shared_up_to(position.timeline, timeline);
            position.lsn.min(shared.unwrap_or(Lsn::MAX))
        };
        self.0 = Some(Position {
            timeline,
            lsn: carried(before).max(carried(seen)),
            ..before
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::TimelineHistory;
    use crate::position::{SystemId, Timeline};

    fn at(timeline: u32, lsn: u64) -> Position {
        Position {
            system: SystemId(7),
            timeline: Timeline(timeline),
            lsn: Lsn(lsn),
        }
    }

    fn raised(from: Position, seen: Position, histories: &TimelineHistories) -> Option<Position> {
        let mut watermark = Watermark(Some(from));
        watermark.raise(seen, histories).then_some(watermark.0?)
    }

    #[test]
    fn a_watermark_rises() {
        let none = TimelineHistories::default();
        let mut watermark = Watermark::default();
        assert_eq!(watermark.position(), None);
        assert!(watermark.raise(at(1, 10), &none));
        assert!(watermark.raise(at(1, 5), &none));
        assert_eq!(watermark.position(), Some(at(1, 10)));
    }

    #[test]
    fn another_system_changes_nothing() {
        let elsewhere = Position {
            system: SystemId(8),
            ..at(1, 99)
        };
        assert_eq!(
            raised(at(1, 10), elsewhere, &TimelineHistories::default()),
            None
        );
    }

    #[test]
    fn a_promotion_takes_what_lay_beyond_it() {
        let mut known = TimelineHistories::default();
        known.add(TimelineHistory::parse(Timeline(2), "1 0/32").unwrap());
        assert_eq!(raised(at(1, 90), at(2, 60), &known), Some(at(2, 60)));
        assert_eq!(raised(at(1, 48), at(2, 45), &known), Some(at(2, 48)));
        assert_eq!(raised(at(2, 45), at(1, 90), &known), Some(at(2, 50)));
        let unknown = TimelineHistories::default();
        assert_eq!(raised(at(1, 90), at(2, 60), &unknown), Some(at(2, 90)));
    }
}
