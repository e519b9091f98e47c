//! The distribution of the members of a group over rows, for which a template may have different statements.
//!
//! After the statement for members on different rows has failed, the groups of its template use another statement for a while, which
//! neither waits for a row that another session has locked nor fails because of one member.

use std::sync::atomic::{AtomicU32, Ordering};

/// The distribution of the members of a group over rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowSpread {
    /// All members on one row.
    OneRow,
    /// MultiRowUpsert rows, some of which may have several members.
    ManyRows,
    /// Each member on a row of its own, for which the template has a statement.
    OneEach,
}

impl RowSpread {
    /// The spread of this number of members over this number of rows. `one_each` says whether the template has a statement for
    /// [`RowSpread::OneEach`].
    pub(super) fn of(rows: usize, members: usize, one_each: bool, backoff: &GroupBackoff) -> Self {
        if rows == 1 {
            return Self::OneRow;
        }
        match rows == members && one_each && !backoff.is_on() {
            true => Self::OneEach,
            false => Self::ManyRows,
        }
    }
}

/// Number of groups that use the other statement after a failure.
const GROUPS: u32 = 1_000;

/// Number of groups of a template that still use the other statement.
#[derive(Debug, Default)]
pub(super) struct GroupBackoff(AtomicU32);

impl GroupBackoff {
    /// Starts after a failure.
    pub(super) fn begin(&self) {
        self.0.store(GROUPS, Ordering::Relaxed);
    }

    /// Whether the next group uses the other statement. Counts that group.
    fn is_on(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let counted = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        counted.is_ok()
    }
}
