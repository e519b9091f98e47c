//! Positions of the primary for reads, and replicas that have replayed them.

use super::{DatabaseHosts, ReadableTables, ReplicaNeeds};
use crate::clock;
use paceline_cluster::{HostId, Lsn};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

impl DatabaseHosts {
    /// The number of questions for positions that have begun.
    pub(crate) fn questions(&self) -> u64 {
        self.positions.begun()
    }

    /// Differs from that of each other time with one primary, in the whole process. Never 0.
    pub(crate) fn term(&self) -> u64 {
        self.positions.term()
    }

    /// Counts reads that a host has answered as a replica.
    pub(crate) fn count_reads(&self, host: HostId, reads: usize) {
        self.positions.count_reads(host, reads);
    }

    /// The number of reads that a host has answered as a replica.
    pub fn reads(&self, host: HostId) -> u64 {
        self.positions.reads(host)
    }

    /// A replica has replayed the log up to here.
    pub(crate) fn replica_answered(&self, host: HostId, replayed: Lsn) {
        self.positions.replica_answered(host, replayed);
    }

    /// The position of the primary in answer to a question after this one. `None`: there is no primary, or no answer in time.
    pub(crate) async fn primary_position(&self, question: u64, until: Instant) -> Option<Lsn> {
        let mut answered = self.positions.answered();
        loop {
            let primary = self.roles.load().primary?;
            if let Some(position) = self.positions.answer_after(primary, question) {
                return Some(position);
            }
            self.positions.want(primary);
            changed(&mut answered, until).await?;
        }
    }

    /// Whether the host is in another zone than this process.
    fn is_remote(&self, host: HostId) -> bool {
        let own = Some(self.config.zone.as_str()).filter(|own| !own.is_empty());
        let zones = self.zone(host).zip(own);
        zones.is_some_and(|(zone, own)| zone != own)
    }

    /// The replica or subscriber with the least `work` among the replicas that meet the needs and these `subscribers`. If several
    /// have the least, the one with the fewest reads so far. If none in this zone meets the needs, one in another zone. `None`: none
    /// meets them in time.
    pub(crate) async fn replica_for(
        &self,
        needs: ReplicaNeeds,
        subscribers: &[Arc<ReadableTables>],
        work: impl Fn(HostId) -> usize,
    ) -> Option<HostId> {
        let mut answered = self.positions.answered();
        let left = needs.until.saturating_duration_since(clock::now());
        let had_time = left >= needs.wait / 2;
        loop {
            let roles = self.roles.load_full();
            let now = clock::now();
            let recent = roles.readable.iter();
            let recent = recent.filter(|replica| replica.is_within(needs.lag_max, now));
            let subscribers = subscribers.iter().map(|subscriber| subscriber.replica());
            let subscribers = subscribers
                .filter(|found| roles.is_readable(found.id) && found.is_within(needs.lag_max, now));
            let mut candidates: Vec<HostId> =
                recent.chain(subscribers).map(|found| found.id).collect();
            candidates.sort_by_cached_key(|id| (self.is_remote(*id), work(*id), self.reads(*id)));
            for id in &candidates {
                if self.is_subscriber(*id) || self.positions.replayed(*id) >= needs.position {
                    return Some(*id);
                }
                // If another one serves this read, the next one may find this one fresh.
                self.positions.want(*id);
            }
            let replayed = candidates.iter().map(|id| self.positions.replayed(*id));
            let furthest = replayed.max()?;
            if self.positions.is_far(needs.position, furthest) {
                return None;
            }
            if changed(&mut answered, needs.until).await.is_none() {
                // A replica that had little time may be near.
                if had_time {
                    self.positions.missed(needs.position, furthest);
                }
                return None;
            }
        }
    }
}

/// Waits for a change; `None` if there is none in time.
async fn changed(answered: &mut watch::Receiver<()>, until: Instant) -> Option<()> {
    let changed = tokio::time::timeout_at(until.into(), answered.changed()).await;
    changed.ok()?.ok()
}
