//! Where a request goes: to the primary, to a replica, or into the line until there is one.

use crate::cluster::{Cluster, Primary};
use crate::host::HostId;
use crate::position::Position;
use crate::settings::{Balance, ReplicasGone};
use std::time::{Duration, Instant};

/// What a read needs of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The replica has replayed everything before this position (`session` and `global`).
    Contains(Position),
    /// The replica is at most so far behind (`any`). A replica whose lag is unknown is not.
    Within(Duration),
    /// Any replica in use.
    Any,
}

/// Where a request for the primary goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrimaryTarget {
    /// To this host.
    Host(HostId),
    /// Into the line: there is no primary.
    Wait {
        /// Since when there is none.
        since: Instant,
        /// When the request fails, unless there is a primary by then.
        until: Instant,
    },
    /// The client gets an error: there has been no primary for `failover_timeout`.
    GaveUp {
        /// Since when there is none.
        since: Instant,
    },
}

/// Where a read goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTarget {
    /// To this replica.
    Replica(HostId),
    /// No replica is fresh enough yet, but one may be soon: the read waits for at most `replica_wait`, then asks again.
    WaitForReplay,
    /// No replica will do.
    Primary(PrimaryTarget),
    /// The client gets an error: no replica is in use, and reads are not for the primary.
    ReplicasGone,
}

impl Cluster {
    /// Where a request for the primary goes.
    #[must_use]
    pub fn write_target(&self, now: Instant) -> PrimaryTarget {
        let since = match self.primary {
            Primary::Known(term) => return PrimaryTarget::Host(term.host),
            Primary::Discovering { since } | Primary::Lost { since, .. } => since,
        };
        match since.checked_add(self.settings.failover_timeout) {
            Some(until) if until > now => PrimaryTarget::Wait { since, until },
            _ => PrimaryTarget::GaveUp { since },
        }
    }

    /// Where a read goes. `may_wait` is false after `replica_wait`. `outstanding` is the number of requests that a replica has not
    /// answered.
    #[must_use]
    pub fn read_target(
        &self,
        freshness: Freshness,
        may_wait: bool,
        outstanding: impl Fn(HostId) -> usize,
        now: Instant,
    ) -> ReadTarget {
        let replicas: Vec<HostId> = self.replicas().collect();
        if replicas.is_empty() {
            return match self.settings.replicas_gone {
                ReplicasGone::Primary => ReadTarget::Primary(self.write_target(now)),
                ReplicasGone::Error => ReadTarget::ReplicasGone,
            };
        }
        let fresh = replicas.iter().copied();
        let fresh = fresh.filter(|id| self.is_fresh(*id, freshness));
        // Zones first: a far replica is used only if no near one is fresh enough.
        let chosen = fresh.min_by_key(|id| (self.is_far(*id), self.load(*id, &outstanding)));
        if let Some(chosen) = chosen {
            return ReadTarget::Replica(chosen);
        }
        let soon = || replicas.iter().any(|id| self.may_reach(*id, freshness));
        match may_wait && soon() {
            true => ReadTarget::WaitForReplay,
            false => ReadTarget::Primary(self.write_target(now)),
        }
    }

    /// The replicas in use.
    fn replicas(&self) -> impl Iterator<Item = HostId> {
        let others = self.ids().filter(|id| self.primary() != Some(*id));
        others.filter(|id| self.use_of(*id).is_ok())
    }

    fn is_far(&self, id: HostId) -> bool {
        let zone = self.host(id).and_then(|host| host.spec.zone.as_ref());
        self.settings.zone.is_some() && zone != self.settings.zone.as_ref()
    }

    fn load(&self, id: HostId, outstanding: &impl Fn(HostId) -> usize) -> usize {
        match self.settings.balance {
            Balance::LeastOutstanding => outstanding(id),
            Balance::InOrder => 0,
        }
    }

    fn is_fresh(&self, id: HostId, freshness: Freshness) -> bool {
        let Some(report) = self.host(id).and_then(|host| host.report.as_ref()) else {
            return false;
        };
        match freshness {
            Freshness::Any => true,
            Freshness::Within(most) => self.lag(report).time.is_some_and(|lag| lag <= most),
            Freshness::Contains(needed) => {
                let replayed = self.replay_position(report);
                replayed.is_some_and(|replayed| self.histories.contains(replayed, needed))
            }
        }
    }

    /// Whether a replica that goes on replaying will contain the position. Lag by time does not shrink within `replica_wait`.
    fn may_reach(&self, id: HostId, freshness: Freshness) -> bool {
        let Freshness::Contains(needed) = freshness else {
            return false;
        };
        let report = self.host(id).and_then(|host| host.report.as_ref());
        let replayed = report.and_then(|report| self.replay_position(report));
        replayed.is_some_and(|replayed| self.histories.contains(needed, replayed))
    }
}
