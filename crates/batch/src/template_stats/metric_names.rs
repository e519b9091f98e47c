//! NameQuota of templates in metrics: each is a set of time series somewhere else, so their number has a limit for the whole
//! process, and only who is used often gets one. Who has none is counted with the others of its pool. What was counted
//! under a name stays there until nobody has the name any more, so no sum ever falls. No value that a text holds is in
//! its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Templates that have names, all pools together.
pub const NAMES_MAX: usize = 1_000;

/// A template that travels alone has a name after this many units; one that travels with others, after the first group.
pub const NAMED_AFTER_REQUESTS: u64 = 100;

/// What metrics call the templates that have no name.
pub const OTHER: &str = "other";

/// The names that are left.
#[derive(Debug)]
pub struct NameQuota(AtomicUsize);

impl Default for NameQuota {
    fn default() -> Self {
        Self(AtomicUsize::new(NAMES_MAX))
    }
}

impl NameQuota {
    /// One of them; `None`: there is none left.
    pub(super) fn take(self: &Arc<Self>) -> Option<NameGrant> {
        let one_less = |left: usize| left.checked_sub(1);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.ok().map(|_| NameGrant(Arc::clone(self)))
    }
}

/// The right to a name; given back when it goes.
#[derive(Debug)]
pub(super) struct NameGrant(Arc<NameQuota>);

impl Drop for NameGrant {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}
