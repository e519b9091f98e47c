//! After a statement for members on rows of their own has failed, groups go another way for a while: one that neither waits
//! for an outsider nor fails with a member.

use std::sync::atomic::{AtomicU32, Ordering};

/// As many groups of the template go the other way.
const GROUPS: u32 = 1_000;

/// How many are left.
#[derive(Debug, Default)]
pub(super) struct GroupBackoff(AtomicU32);

impl GroupBackoff {
    /// Such a statement has failed.
    pub(super) fn begin(&self) {
        self.0.store(GROUPS, Ordering::Relaxed);
    }

    /// Does the next group go the other way? Counts it.
    pub(super) fn is_on(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let counted = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        counted.is_ok()
    }
}
