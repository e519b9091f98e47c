//! The configuration of a pool. A reload replaces it.

use crate::address::Address;
use crate::hosts::{DatabaseHosts, NoPrimary, ReplicaHost};
use crate::settings::SettingsInForce;
use paceline_batch::line::Limits;
use paceline_batch::policy::Policy;
use paceline_cluster::SystemId;
use paceline_config::GroupingDecisions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The configuration of a pool.
#[derive(Clone)]
pub(crate) struct PoolConfig {
    /// The destination of its connections. While there is no primary, the first host.
    pub address: Address,
    /// The time without a primary; `None` if there is one.
    pub no_primary: Option<NoPrimary>,
    /// The hosts of its database; `None` if there is one, which is the primary without being asked.
    pub hosts: Option<Arc<DatabaseHosts>>,
    /// The host of a replica's pool.
    pub replica: Option<ReplicaHost>,
    /// The shard of a shard's pool.
    pub shard: Option<ShardHost>,
    /// The policy of grouping.
    pub policy: Policy,
    /// The decisions of operators on tables and templates.
    pub grouping: Arc<GroupingDecisions>,
    /// Limits and time-outs.
    pub settings: SettingsInForce,
    /// Limits of the line.
    pub limits: Limits,
}

/// The server of a shard's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardHost {
    /// The system identifier that each connection must find; `None` if it is not known.
    pub system: Option<SystemId>,
}

/// A policy that is read for every request and seldom changes.
#[derive(Debug)]
pub(super) struct PolicyCell(AtomicU8);

impl PolicyCell {
    const HOTSPOT: u8 = 1;
    const FOR_AUTOCOMMIT: u8 = 2;
    const LOCK_TYPE: u8 = 4;
    const PIPELINE: u8 = 8;

    pub(super) fn new(policy: Policy) -> Self {
        Self(AtomicU8::new(Self::bits(policy)))
    }

    fn bits(policy: Policy) -> u8 {
        let switches = [
            (policy.hotspot, Self::HOTSPOT),
            (policy.for_autocommit, Self::FOR_AUTOCOMMIT),
            (policy.lock_type, Self::LOCK_TYPE),
            (policy.pipeline, Self::PIPELINE),
        ];
        switches
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, bit)| bit)
            .sum()
    }

    pub(super) fn set(&self, policy: Policy) {
        self.0.store(Self::bits(policy), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Policy {
        let bits = self.0.load(Ordering::Relaxed);
        let on = |bit| bits & bit != 0;
        Policy {
            hotspot: on(Self::HOTSPOT),
            for_autocommit: on(Self::FOR_AUTOCOMMIT),
            lock_type: on(Self::LOCK_TYPE),
            pipeline: on(Self::PIPELINE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_kept() {
        for bits in 0..16 {
            let cell = PolicyCell(AtomicU8::new(bits));
            assert_eq!(PolicyCell::new(cell.get()).0.into_inner(), bits);
        }
    }
}
