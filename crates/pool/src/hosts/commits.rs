//! The commits of the databases on these hosts: their counters, and the questions to the primary for its position.

use super::failovers::{Failover, FailoverTotals};
use super::{DatabaseHosts, PrimaryState, address_of};
use paceline_cluster::{AskedAt, Cluster, CommitCounter, Event, HostId, WalPosition};
use paceline_config::Upstream;
use std::collections::BTreeMap;
use std::sync::Arc;

impl DatabaseHosts {
    /// Counts the commits of a database on these hosts, under the name that clients use.
    pub(crate) fn commit_counter(&self, on_server: &str) -> Arc<CommitCounter> {
        let database = match self.entry.as_str() {
            "*" => on_server,
            entry => entry,
        };
        self.failovers.counter(database)
    }

    /// All pools have left other hosts than this one, and none uses it yet. False: it is not the primary any more.
    pub(crate) fn left_others(&self, upstream: &Upstream) -> bool {
        let cluster = self.lock();
        let is_primary =
            matches!(self.primary_in(&cluster), PrimaryState::Known(now) if now == *upstream);
        if is_primary {
            *self.followed() = cluster.primary();
            self.failovers.followed();
        }
        is_primary
    }

    /// The lost commits of the last promotions, the oldest first.
    pub fn last_failovers(&self) -> Vec<Failover> {
        self.failovers.compared()
    }

    /// The lost commits of all promotions, by database.
    pub fn failover_totals(&self) -> BTreeMap<String, FailoverTotals> {
        self.failovers.totals(&self.entry)
    }

    /// The primary was lost, or one was found that no pool knows yet.
    pub(super) fn note_primary(&self, cluster: &Cluster, event: &Event) {
        if matches!(
            event,
            Event::PrimaryLost { .. } | Event::PrimaryFound { .. }
        ) {
            *self.followed() = None;
        }
        if let Event::PrimaryFound {
            host,
            timeline: Some(timeline),
            ..
        } = event
            && let Some(upstream) = self.config.upstreams.get(host.0)
        {
            let limits = |before| cluster.switch_limits(*host, before);
            let address = address_of(upstream);
            self.failovers
                .primary_found(&self.entry, address, *timeline, limits);
        }
    }

    /// A host is about to be asked for its state; `None` unless it is the primary.
    pub(super) fn ask_position(&self, host: HostId) -> Option<AskedAt> {
        let is_primary = self.is_primary(host);
        is_primary.then(|| self.failovers.ask())
    }

    /// As [`Self::ask_position`], but only if commits were acknowledged since the last question.
    pub(super) fn ask_if_new(&self, host: HostId) -> Option<AskedAt> {
        let is_new = self.failovers.has_new_commits();
        is_new.then(|| self.ask_position(host)).flatten()
    }

    /// A host has answered with its position.
    pub(super) fn position_answered(&self, host: HostId, asked: &AskedAt, position: WalPosition) {
        if self.is_primary(host) {
            self.failovers.answered(asked, position);
        }
    }

    /// A host has answered with its state, which has been taken into account. If it is the primary since a promotion, the commits
    /// before that are compared.
    pub(super) fn compare_failover(&self, host: HostId) {
        if self.is_primary(host)
            && let Some((before, timeline)) = self.failovers.awaited()
        {
            let switch = self.lock().left_at(before, timeline);
            self.failovers.probed(&self.entry, switch);
        }
    }
}
