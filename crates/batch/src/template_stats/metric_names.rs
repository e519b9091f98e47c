//! Names of templates in metrics. Each name is a set of time series in the monitoring system, so their number is limited for the
//! whole process, and only templates that are used often get one. The others of a pool are counted together. Counts under a name
//! remain until no template has the name any more, so that no sum falls. No value from a text is part of a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of names in all pools.
pub const NAMES_MAX: usize = 1_000;

/// A template gets a name after this many requests that were executed alone, or after its first group.
pub const NAMED_AFTER_REQUESTS: u64 = 100;

/// The name in metrics of all templates without a name.
pub const OTHER: &str = "other";

/// Number of names that are left.
#[derive(Debug)]
pub struct NameQuota(AtomicUsize);

impl Default for NameQuota {
    fn default() -> Self {
        Self(AtomicUsize::new(NAMES_MAX))
    }
}

impl NameQuota {
    /// Takes a name. `None` if none is left.
    pub(super) fn take(self: &Arc<Self>) -> Option<NameGrant> {
        let one_less = |left: usize| left.checked_sub(1);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.ok().map(|_| NameGrant(Arc::clone(self)))
    }
}

/// The right to a name, which is returned on drop.
#[derive(Debug)]
pub(super) struct NameGrant(Arc<NameQuota>);

impl Drop for NameGrant {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}
