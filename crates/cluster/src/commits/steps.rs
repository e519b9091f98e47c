//! Pairs of a position and a count. Both rise from pair to pair.
//!
//! Each pair is a statement by itself, so pairs may be dropped: the bounds become wider.

use crate::position::Lsn;

/// Maximum number of pairs. Older ones are further apart.
const STEPS_MAX: usize = 128;

/// The pairs.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<(Lsn, u64)>);

impl Steps {
    /// Adds the fact that `count` commits are at or before the position. Of several positions for one count, keeps the lowest.
    pub(super) fn keep_at(&mut self, position: Lsn, count: u64) {
        self.drop_past(position);
        match self.0.last_mut() {
            Some((_, last)) if *last == count => {}
            Some((at, last)) if *at == position => *last = count,
            _ => self.push(position, count),
        }
    }

    /// Adds the fact that all commits after the first `count` are past the position. Of several positions for one count, keeps
    /// the highest.
    pub(super) fn raise_to(&mut self, position: Lsn, count: u64) {
        self.drop_past(position);
        match self.0.last_mut() {
            Some((at, _)) if *at == position => {}
            Some((at, last)) if *last == count => *at = position,
            _ => self.push(position, count),
        }
    }

    /// The count of the last pair that is not past the position.
    pub(super) fn last_up_to(&self, position: Lsn) -> Option<u64> {
        let mut latest_first = self.0.iter().rev();
        let found = latest_first.find(|(at, _)| *at <= position);
        found.map(|(_, count)| *count)
    }

    /// The count of the first pair that is not before the position.
    pub(super) fn first_from(&self, position: Lsn) -> Option<u64> {
        let found = self.0.iter().find(|(at, _)| *at >= position);
        found.map(|(_, count)| *count)
    }

    /// The server has crashed and started again: its log is shorter than it was.
    fn drop_past(&mut self, position: Lsn) {
        while self.0.pop_if(|(at, _)| *at > position).is_some() {}
    }

    fn push(&mut self, position: Lsn, count: u64) {
        if self.0.len() >= STEPS_MAX {
            let mut place = 0;
            self.0.retain(|_| {
                place += 1;
                place > STEPS_MAX / 2 || place % 2 == 1
            });
        }
        self.0.push((position, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_position_is_kept_for_a_count() {
        let mut within = Steps::default();
        let mut past = Steps::default();
        for (position, count) in [(10, 1), (20, 1), (30, 2), (30, 3)] {
            within.keep_at(Lsn(position), count);
            past.raise_to(Lsn(position), count);
        }
        assert_eq!(within.0, [(Lsn(10), 1), (Lsn(30), 3)]);
        assert_eq!(past.0, [(Lsn(20), 1), (Lsn(30), 2)]);
        assert_eq!(within.last_up_to(Lsn(9)), None);
        assert_eq!(within.last_up_to(Lsn(29)), Some(1));
        assert_eq!(past.first_from(Lsn(20)), Some(1));
        assert_eq!(past.first_from(Lsn(21)), Some(2));
        assert_eq!(past.first_from(Lsn(31)), None);
    }

    #[test]
    fn a_shorter_log_drops_what_lay_past_its_end() {
        let mut past = Steps::default();
        past.raise_to(Lsn(10), 1);
        past.raise_to(Lsn(30), 2);
        past.raise_to(Lsn(20), 3);
        assert_eq!(past.0, [(Lsn(10), 1), (Lsn(20), 3)]);
    }

    #[test]
    fn old_pairs_are_thinned_out() {
        let mut within = Steps::default();
        for count in 1..=10_000 {
            within.keep_at(Lsn(count), count);
        }
        assert!(within.0.len() <= STEPS_MAX);
        assert_eq!(within.0.first(), Some(&(Lsn(1), 1)));
        let newest = within.0.iter().rev().take(STEPS_MAX / 2 - 1);
        let newest: Vec<u64> = newest.map(|(_, count)| *count).collect();
        assert!(newest.iter().rev().is_sorted());
        assert_eq!(newest.last(), Some(&(10_000 - STEPS_MAX as u64 / 2 + 2)));
    }
}
