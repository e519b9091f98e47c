//! Chooses the target of requests for the primary: a host, or the line until there is a primary.

use crate::cluster::{Cluster, Primary};
use crate::host::HostId;
use std::time::Instant;

/// The target of a request for the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrimaryTarget {
    /// To this host.
    Host(HostId),
    /// Into the line: there is no primary.
    Wait {
        /// Since when there is none.
        since: Instant,
        /// The time at which the request fails, unless there is a primary by then.
        until: Instant,
    },
    /// The client gets an error: there has been no primary for `failover_timeout`.
    GaveUp {
        /// Since when there is none.
        since: Instant,
    },
}

impl Cluster {
    /// Returns the target of a request for the primary.
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
}
