//! Counters of the process, for `SHOW GLOBAL STATUS`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a process since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Groups of two or more writes that left the line.
    pub groups: AtomicU64,
    /// Requests in them.
    pub members: AtomicU64,
    /// Requests in the largest one.
    pub largest_group: AtomicU64,
    /// Requests that left the line with a group and were put back.
    pub fallbacks: AtomicU64,
    /// Groups that the server rejected as a whole, and groups whose connection was lost.
    pub errors: AtomicU64,
    /// Requests without a hint that waited and could have been grouped.
    pub would_have_grouped: AtomicU64,
    /// Requests in the line now.
    pub waiting: AtomicU64,
}

impl Counters {
    /// Counts a group of writes that leaves the line.
    pub(crate) fn group_sent(&self, members: usize) {
        let members = members as u64;
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.members.fetch_add(members, Ordering::Relaxed);
        self.largest_group.fetch_max(members, Ordering::Relaxed);
    }

    /// Counts requests that left the line with a group and are put back.
    pub fn fell_back(&self, requests: usize) {
        self.fallbacks.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// Adds one.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
