//! Counts the commits that the primary acknowledges, if the database has several hosts: a promotion may lose some.

use super::{Pool, PoolConfig};
use paceline_cluster::{CommitCounter, SentAt};
use paceline_relay::commits::CommitCounts;
use std::sync::Arc;

impl Pool {
    /// The time in terms of positions of the primary. Read it before a request is sent.
    pub fn sent_at(&self) -> SentAt {
        let counter = self.commits.load();
        counter.as_ref().map(|c| c.now()).unwrap_or_default()
    }

    /// Counts commits that the server has acknowledged. Call it before the clients know.
    pub fn committed(&self, sent_at: SentAt, commits: CommitCounts) {
        if !commits.is_empty()
            && let Some(counter) = &*self.commits.load()
        {
            counter.acknowledged(sent_at, commits.possible, commits.certain);
        }
    }

    /// Whether commits are counted.
    pub(crate) fn counts_commits(&self) -> bool {
        self.commits.load().is_some()
    }
}

impl PoolConfig {
    /// Counts the commits of the pool's database; `None` for a single host, and for replicas.
    pub(super) fn commit_counter(&self) -> Option<Arc<CommitCounter>> {
        let hosts = self.hosts.as_ref().filter(|_| self.replica.is_none())?;
        Some(hosts.commit_counter(&self.address.database))
    }
}
