//! Chooses the requests that leave with the first one: those of its group whose rows are free, in order of arrival, up to a barrier and to
//! the limits of the group.

use super::{Dispatch, GroupId, Line, LineKey, LineKeys, WaitEntry, WaitSpec, WaiterId};
use std::ops::Bound;
use std::time::Instant;

/// Barriers behind the first request of a group.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    /// Barriers that belong to the group, in order of arrival, as far as they matter.
    of_group: Vec<WaiterId>,
    /// The first barrier that no member of the group may overtake.
    barrier: Option<WaiterId>,
}

impl Barriers {
    /// The barrier behind `waiter` beyond which no request on the same row may be taken: even a barrier of the group may stay
    /// behind.
    pub(super) fn behind(&self, waiter: WaiterId) -> Option<WaiterId> {
        let place = self.of_group.partition_point(|barrier| *barrier <= waiter);
        self.of_group.get(place).copied().or(self.barrier)
    }
}

impl<T> Line<T> {
    /// Maximum number of requests in the group of the first one.
    pub(super) fn group_size_max(&self, first: WaiterId, group: Option<GroupId>) -> usize {
        let most = match group {
            None => 1,
            Some(id) if id.strategy.properties().waits_for_predecessors => {
                self.limits.pipeline_depth_max
            }
            Some(_) => self.limits.group_size_max,
        };
        let entry = self.waiting.get(&first);
        let size_max = entry.and_then(|entry| entry.spec.size_max);
        size_max.map_or(most, |size_max| most.min(size_max.max(1)))
    }

    /// Takes out the first request and the members of its group.
    pub(super) fn dispatch(
        &mut self,
        now: Instant,
        first: WaiterId,
        group: Option<GroupId>,
        free: usize,
    ) -> Dispatch<T> {
        let most = self.group_size_max(first, group);
        let mut entries = Vec::new();
        let barriers = self.barriers(first, group, most);
        let group_members: Vec<WaiterId> = match group.and_then(|id| self.group_members.get(&id)) {
            Some(group_members) => group_members
                .iter()
                .take(most.min(self.share(group_members.len(), free)))
                .take_while(|m| barriers.barrier.is_none_or(|b| **m < b))
                .copied()
                .collect(),
            None => vec![first],
        };
        let mut further_rows = 0;
        for waiter in group_members {
            let room = most - further_rows;
            self.dequeue(
                now,
                waiter,
                (group, room),
                barriers.behind(waiter),
                &mut entries,
            );
            further_rows += entries.last().map_or(0, |e| e.spec.keys.further());
            if entries.len() + further_rows >= most {
                break;
            }
        }
        entries.sort_by_key(|e: &WaitEntry<T>| e.waiter);
        let flight = self.begin_group(now, group, entries.len());
        Dispatch { entries, flight }
    }

    /// The number of these rows that the next group takes, so that the groups that may start have about the same size.
    fn share(&self, rows: usize, free: usize) -> usize {
        rows.div_ceil(self.group_limit.room().min(free.max(1)))
    }

    /// The barriers of a group. A barrier that belongs to the group does not end it, because its members leave in order, unless a
    /// write that stays would be overtaken. The search ends when the group's own barriers would fill it.
    pub(super) fn barriers(
        &self,
        first: WaiterId,
        group: Option<GroupId>,
        most: usize,
    ) -> Barriers {
        let mut barriers = Barriers::default();
        let behind = (Bound::Excluded(first), Bound::Unbounded);
        let table = self.waiting.get(&first).and_then(|e| e.spec.table);
        // The writes of such a group may change several tables.
        let table =
            table.filter(|_| group.is_none_or(|id| id.strategy.properties().ignores_other_tables));
        let elsewhere =
            |spec: &WaitSpec| spec.table.is_some() && table.is_some() && spec.table != table;
        let mut waiting = self.waiting.range(behind).peekable();
        let mut somebody_stays = group.is_none();
        for &barrier in self.barriers.range(behind) {
            let Some(entry) = self.waiting.get(&barrier) else {
                continue;
            };
            if elsewhere(&entry.spec) {
                continue;
            }
            while !somebody_stays
                && let Some((_, other)) = waiting.next_if(|(waiter, _)| **waiter < barrier)
            {
                somebody_stays = !elsewhere(&other.spec) && self.stays(&other.spec, group);
            }
            if somebody_stays || entry.spec.group != group {
                barriers.barrier = Some(barrier);
                break;
            }
            barriers.of_group.push(barrier);
            if barriers.of_group.len() >= most {
                break;
            }
        }
        barriers
    }

    /// Whether a write stays, or may stay, in the line when the group leaves.
    fn stays(&self, spec: &WaitSpec, group: Option<GroupId>) -> bool {
        let may_leave = match &spec.keys {
            LineKeys::Unknown if !spec.barrier => return false,
            LineKeys::Unknown => true,
            LineKeys::One(key) => {
                let row = self.rows.get(key);
                row.is_none_or(|row| !row.in_flight && !row.is_contended() && row.multi_row == 0)
            }
            LineKeys::MultiRow(_) => false,
        };
        spec.group != group || !may_leave
    }

    /// Takes a ready request and, if it is on one row, the requests behind it on that row that belong to the same group.
    fn dequeue(
        &mut self,
        now: Instant,
        waiter: WaiterId,
        (group, most): (Option<GroupId>, usize),
        barrier: Option<WaiterId>,
        entries: &mut Vec<WaitEntry<T>>,
    ) {
        let Some(entry) = self.leave(now, waiter) else {
            return;
        };
        self.forget_multi_row(waiter, &entry.spec.keys);
        let keys = entry.spec.keys.clone();
        entries.push(entry);
        for key in keys.as_slice() {
            self.pop_front(*key);
        }
        if let (LineKeys::One(key), Some(group)) = (&keys, group) {
            let same = |id: GroupId| id == group;
            self.take_followers(now, *key, &same, (most, barrier), entries);
        }
        for key in keys.as_slice() {
            self.begin_flight(now, *key);
        }
    }

    /// Takes the first requests on a row while they belong to the same group and the group is not full.
    pub(super) fn take_followers(
        &mut self,
        now: Instant,
        key: LineKey,
        same: &dyn Fn(GroupId) -> bool,
        (most, barrier): (usize, Option<WaiterId>),
        entries: &mut Vec<WaitEntry<T>>,
    ) {
        while entries.len() < most
            && let Some(next) = self.first_on(key)
            && barrier.is_none_or(|barrier| next <= barrier)
            && let Some(entry) = self.waiting.get(&next)
            && matches!(entry.spec.keys, LineKeys::One(_))
            && entry.spec.group.is_some_and(same)
        {
            entries.extend(self.leave(now, next));
            self.pop_front(key);
        }
    }

    fn pop_front(&mut self, key: LineKey) {
        if let Some(row) = self.rows.get_mut(&key) {
            row.queue.pop_front();
        }
    }

    /// Removes a request that leaves for a connection.
    fn leave(&mut self, now: Instant, waiter: WaiterId) -> Option<WaitEntry<T>> {
        self.unready(waiter);
        let mut entry = self.waiting.remove(&waiter)?;
        self.forget_deadline(waiter, entry.deadline.take());
        entry.begins(now);
        Some(*entry)
    }
}
