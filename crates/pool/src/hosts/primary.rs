//! The primary of a database with several hosts, as its pools see it: while not all of them have left the old one, none uses the new
//! one.

use super::DatabaseHosts;
use crate::clock;
use paceline_cluster::{Cluster, HostId, PrimaryTarget};
use paceline_config::Upstream;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time for which a pool waits at most until all pools have left the old primary.
const SWITCH_MAX: Duration = Duration::from_secs(60);

/// The primary of a database, for its pools.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PrimaryState {
    /// Server connections lead to this host.
    Known(Upstream),
    /// There is no primary.
    Unknown(NoPrimary),
}

impl PrimaryState {
    /// For the configuration of a pool: the primary, or the time without one. Neither, if the only host is the primary without being asked.
    pub(crate) fn of(hosts: Option<&Arc<DatabaseHosts>>) -> (Option<Upstream>, Option<NoPrimary>) {
        match hosts.map(|hosts| hosts.primary_for_pools()) {
            Some(Self::Known(primary)) => (Some(primary), None),
            Some(Self::Unknown(none)) => (None, Some(none)),
            None => (None, None),
        }
    }
}

/// A time without a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPrimary {
    /// The beginning.
    pub(crate) since: Instant,
    /// The time at which clients get an error, unless there is a primary by then.
    pub(crate) until: Instant,
}

impl NoPrimary {
    /// A primary is known, but not all pools have left the old one. That is a matter of microseconds.
    pub(crate) fn until_pools_switch() -> Self {
        let since = clock::now();
        Self {
            since,
            until: since + SWITCH_MAX,
        }
    }
}

impl DatabaseHosts {
    /// The primary now.
    pub(crate) fn primary(&self) -> PrimaryState {
        self.primary_in(&self.lock())
    }

    pub(super) fn primary_in(&self, cluster: &Cluster) -> PrimaryState {
        let now = clock::now();
        match cluster.write_target(now) {
            PrimaryTarget::Host(HostId(host)) => match self.config.upstreams.get(host) {
                Some(upstream) => PrimaryState::Known(upstream.clone()),
                None => PrimaryState::Unknown(NoPrimary {
                    since: now,
                    until: now,
                }),
            },
            PrimaryTarget::Wait { since, until } => {
                PrimaryState::Unknown(NoPrimary { since, until })
            }
            PrimaryTarget::GaveUp { since } => PrimaryState::Unknown(NoPrimary {
                since,
                until: since,
            }),
        }
    }

    /// The primary for a pool that is new or gets another configuration: none yet if other pools may not have left the old one.
    fn primary_for_pools(&self) -> PrimaryState {
        let cluster = self.lock();
        if cluster.primary().is_none() || self.is_followed(&cluster) {
            return self.primary_in(&cluster);
        }
        PrimaryState::Unknown(NoPrimary::until_pools_switch())
    }

    /// Whether all pools have left other hosts than the primary.
    fn is_followed(&self, cluster: &Cluster) -> bool {
        *self.followed() == cluster.primary()
    }

    pub(super) fn followed(&self) -> MutexGuard<'_, Option<HostId>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The primary; `None` if there is none.
    pub(crate) fn known_primary(&self) -> Option<Upstream> {
        match self.primary() {
            PrimaryState::Known(upstream) => Some(upstream),
            PrimaryState::Unknown(_) => None,
        }
    }
}

#[cfg(test)]
impl DatabaseHosts {
    /// As after a probe of each host: this one is the primary, on a timeline of its own, and the others are its replicas.
    pub(crate) fn find_primary(&self, primary: usize) {
        use paceline_cluster::{HostReport, Observation, Timeline};
        for host in 0..self.config.hosts().len() {
            let report = HostReport {
                in_recovery: host != primary,
                timeline: u32::try_from(primary + 1).ok().map(Timeline),
                ..HostReport::default()
            };
            self.observed(HostId(host), Observation::Answered(report));
        }
    }
}
