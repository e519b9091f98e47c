//! The logical subscribers of a database: their numbers follow those of the hosts.

use crate::cluster::{Cluster, Event};
use crate::host::{HostId, HostRole, HostSpec, HostStatus};
use crate::observation::ProbeError;
use crate::subscriber::{Subscriber, SubscriberSpec};
use crate::subscription::{SubscribedTables, SubscriberReport};
use crate::usage::ReadableReplica;
use std::sync::Arc;
use std::time::Instant;

#[cfg(test)]
mod tests;

/// A subscriber that may serve reads.
#[derive(Debug, Clone)]
pub struct ReadableSubscriber {
    /// Its number and lag.
    pub replica: ReadableReplica,
    /// The tables that it has.
    pub tables: Arc<SubscribedTables>,
}

impl Cluster {
    /// Adds subscribers of which nothing is known yet.
    #[must_use]
    pub fn with_subscribers(mut self, subscribers: Vec<SubscriberSpec>) -> Self {
        self.subscribers = subscribers.into_iter().map(Subscriber::new).collect();
        self
    }

    /// Takes the result of a probe of a subscriber, which began at `at`, and returns what it changed. The report names the host that
    /// was asked as the primary.
    pub fn observe_subscriber(
        &mut self,
        id: HostId,
        seen: Result<(HostId, SubscriberReport), ProbeError>,
        at: Instant,
    ) -> Vec<Event> {
        let (primary, expected) = (self.primary(), self.system());
        let place = id.0.checked_sub(self.hosts.len());
        let subscriber = place.and_then(|place| self.subscribers.get_mut(place));
        let Some(subscriber) = subscriber else {
            return Vec::new();
        };
        let served = subscriber.state(primary).is_ok();
        subscriber.observe(seen, expected, at);
        match (served, subscriber.state(primary)) {
            (false, Ok(_)) => vec![Event::Returned(id)],
            (true, Err(reason)) => vec![Event::Removed { host: id, reason }],
            (true, Ok(_)) | (false, Err(_)) => Vec::new(),
        }
    }

    fn numbered(&self) -> impl Iterator<Item = (HostId, &Subscriber)> {
        let all = self.subscribers.iter().enumerate();
        all.map(|(place, subscriber)| (HostId(self.hosts.len() + place), subscriber))
    }

    /// The subscribers that may serve reads, in the configured order.
    #[must_use]
    pub fn readable_subscribers(&self) -> Vec<ReadableSubscriber> {
        let readable = self.numbered().filter_map(|(id, subscriber)| {
            let tables = subscriber.state(self.primary()).ok()?;
            let replica = ReadableReplica {
                id,
                lag: subscriber.lag.time,
                observed: subscriber.observed?,
            };
            Some(ReadableSubscriber { replica, tables })
        });
        readable.collect()
    }

    /// The state of every subscriber, in the configured order.
    pub(crate) fn subscriber_statuses(&self) -> impl Iterator<Item = HostStatus> {
        self.numbered().map(|(id, subscriber)| {
            let state = subscriber.state(self.primary()).map(|_| ());
            HostStatus {
                id,
                spec: HostSpec {
                    address: subscriber.spec.address.clone(),
                },
                role: HostRole::Subscriber,
                in_use: state.is_ok(),
                reason: state.clone().err(),
                reads: Some(state),
                system: subscriber.system,
                timeline: None,
                lag: subscriber.lag,
                observed: subscriber.observed,
            }
        })
    }
}
