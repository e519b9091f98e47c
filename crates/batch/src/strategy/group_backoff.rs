//! After the statement for members on different rows has failed, the groups of its template use another statement for a while,
//! which neither waits for a row that another session has locked nor fails because of one member.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of groups that use the other statement after a failure.
const GROUPS: u32 = 1_000;

/// Number of groups that still use the other statement.
#[derive(Debug, Default)]
pub(super) struct GroupBackoff(AtomicU32);

impl GroupBackoff {
    /// Starts after a failure.
    pub(super) fn begin(&self) {
        self.0.store(GROUPS, Ordering::Relaxed);
    }

    /// Whether the next group uses the other statement. Counts that group.
    pub(super) fn is_on(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let counted = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        counted.is_ok()
    }
}
