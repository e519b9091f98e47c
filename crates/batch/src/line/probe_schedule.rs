//! Requests to be probed, and rows to be checked.

use super::entry::WaiterId;
use super::spec::{GroupId, LineKey};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::{Duration, Instant};

/// Minimum time between two checks.
const CHECKED_EVERY: Duration = Duration::from_millis(5);

/// Requests to be probed, and rows to be checked.
#[derive(Debug, Default)]
pub(super) struct ProbeSchedule {
    /// Rows by the time of their check.
    pub(super) checks: BinaryHeap<Reverse<(Instant, LineKey)>>,
    /// Time of the last check.
    pub(super) checked: Option<Instant>,
    pub(super) due: BTreeMap<WaiterId, (GroupId, Instant)>,
    pub(super) group_members: FxHashMap<GroupId, BTreeSet<WaiterId>>,
}

impl ProbeSchedule {
    pub(super) fn next_check(&self) -> Option<Instant> {
        let Reverse((at, _)) = self.checks.peek()?;
        let not_before = self.checked.map(|checked| checked + CHECKED_EVERY);
        not_before.into_iter().chain([*at]).max()
    }

    pub(super) fn insert(&mut self, now: Instant, waiter: WaiterId, id: GroupId) {
        self.due.insert(waiter, (id, now));
        self.group_members.entry(id).or_default().insert(waiter);
    }

    /// Whether a probe of the request was due.
    pub(super) fn remove(&mut self, waiter: WaiterId) -> bool {
        let Some((id, _)) = self.due.remove(&waiter) else {
            return false;
        };
        if let Some(group_members) = self.group_members.get_mut(&id) {
            group_members.remove(&waiter);
            if group_members.is_empty() {
                self.group_members.remove(&id);
            }
        }
        true
    }

    /// The first request to be probed, and the time since which its probe is due.
    pub(super) fn first(&self) -> Option<(WaiterId, Instant)> {
        let first = self.due.first_key_value();
        first.map(|(waiter, (_, since))| (*waiter, *since))
    }

    /// Number of probes that are due. Requests of one group share a probe.
    pub(super) fn len(&self) -> usize {
        self.group_members.len()
    }

    pub(super) fn take(&mut self, most: usize) -> Vec<WaiterId> {
        let first = self.due.first_key_value().map(|(_, (id, _))| *id);
        let group_members = first.and_then(|id| self.group_members.get(&id));
        let taken = group_members.into_iter().flatten().take(most);
        let taken: Vec<WaiterId> = taken.copied().collect();
        for waiter in &taken {
            self.remove(*waiter);
        }
        taken
    }
}
