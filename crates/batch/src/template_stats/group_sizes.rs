//! How large groups were, by strategy, in buckets: one addition per group, without a lock.

use super::counts::{add, load};
use crate::strategy::Strategy;
use std::sync::atomic::AtomicU64;

/// The largest group of each bucket; a further one takes all that are larger.
pub const SIZE_BOUNDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

const BUCKETS: usize = SIZE_BOUNDS.len() + 1;

/// The groups of a pool.
#[derive(Debug, Default)]
pub struct GroupSizes([Buckets; Strategy::ALL.len()]);

#[derive(Debug, Default)]
struct Buckets {
    groups: [AtomicU64; BUCKETS],
    requests: AtomicU64,
}

/// The groups of one strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeHistogram {
    /// How many had a size of each bucket; those of smaller buckets are not among them.
    pub groups: [u64; BUCKETS],
    /// The units in all of them.
    pub requests: u64,
}

impl GroupSizes {
    /// A group has answered so many units. One that answered none is no group.
    pub fn count(&self, strategy: Strategy, requests: u64) {
        let bucket = SIZE_BOUNDS.partition_point(|bound| *bound < requests);
        if let Some(buckets) = self.0.get(strategy as usize)
            && let Some(groups) = buckets.groups.get(bucket)
            && requests > 0
        {
            add(groups, 1);
            add(&buckets.requests, requests);
        }
    }

    /// What was counted of one strategy; `None`: nothing.
    pub fn of(&self, strategy: Strategy) -> Option<SizeHistogram> {
        let buckets = self.0.get(strategy as usize)?;
        let sizes = SizeHistogram {
            groups: std::array::from_fn(|bucket| buckets.groups.get(bucket).map_or(0, load)),
            requests: load(&buckets.requests),
        };
        (sizes.requests > 0).then_some(sizes)
    }
}

impl SizeHistogram {
    /// Counts the groups of another pool, too.
    pub fn add(&mut self, other: &Self) {
        for (groups, more) in self.groups.iter_mut().zip(other.groups) {
            *groups += more;
        }
        self.requests += other.requests;
    }
}
