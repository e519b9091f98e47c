//! Histograms of group sizes by strategy. Counting a group is one addition without a lock.

use super::counts::{add, load};
use crate::strategy::Strategy;
use std::sync::atomic::AtomicU64;

/// The maximum size of each bucket. One more bucket holds all larger groups.
pub const SIZE_BOUNDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

const BUCKETS: usize = SIZE_BOUNDS.len() + 1;

/// The group sizes of a pool.
#[derive(Debug, Default)]
pub struct GroupSizes([Buckets; Strategy::ALL.len()]);

#[derive(Debug, Default)]
struct Buckets {
    groups: [AtomicU64; BUCKETS],
    requests: AtomicU64,
}

/// The group sizes of one strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeHistogram {
    /// Number of groups per bucket, without those in smaller buckets.
    pub groups: [u64; BUCKETS],
    /// Number of requests in all groups.
    pub requests: u64,
}

impl GroupSizes {
    /// Counts a group that has answered this number of requests, unless that is 0.
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

    /// The histogram of one strategy. `None` if it is empty.
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
    /// Adds the histogram of another pool.
    pub fn add(&mut self, other: &Self) {
        for (groups, more) in self.groups.iter_mut().zip(other.groups) {
            *groups += more;
        }
        self.requests += other.requests;
    }
}
