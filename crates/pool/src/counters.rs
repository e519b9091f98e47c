//! Counters of the process, for `SHOW GLOBAL STATUS`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a process since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Groups of two or more writes that left.
    pub groups: AtomicU64,
    /// Units in them.
    pub members: AtomicU64,
    /// Units in the largest one.
    pub largest_group: AtomicU64,
    /// Units that left with a group and came back.
    pub fallbacks: AtomicU64,
    /// Groups that the server refused as a whole, and groups whose connection was lost.
    pub errors: AtomicU64,
    /// Un-hinted units that had to wait and could have travelled together.
    pub would_have_grouped: AtomicU64,
    /// Units in line now.
    pub waiting: AtomicU64,
}

impl Counters {
    /// A group of writes left.
    pub fn group_sent(&self, members: usize) {
        let members = members as u64;
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.members.fetch_add(members, Ordering::Relaxed);
        self.largest_group.fetch_max(members, Ordering::Relaxed);
    }

    /// Units left with a group and came back.
    pub fn came_back(&self, units: usize) {
        self.fallbacks.fetch_add(units as u64, Ordering::Relaxed);
    }

    /// Adds one.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
