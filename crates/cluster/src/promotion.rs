//! The position at which a new timeline leaves its predecessor: from the history file, or limits from probes of the promoted host.

use crate::cluster::Cluster;
use crate::commits::{SwitchPoint, WalPosition};
use crate::history::TimelineHistories;
use crate::host::HostId;
use crate::observation::HostReport;
use crate::position::{Lsn, Timeline};

impl Cluster {
    /// The position at which the timeline `to` left `from`; `None` if its history is not known.
    #[must_use]
    pub fn left_at(&self, from: Timeline, to: Timeline) -> Option<Lsn> {
        TimelineHistories::left_at(&self.histories, from, to)
    }

    /// Limits of that position if the history is not known: a host that has become the primary had replayed the log of `from` up to
    /// some position before, and has written its own up to another one since.
    #[must_use]
    pub fn switch_limits(&self, promoted: HostId, from: Timeline) -> SwitchPoint {
        let host = self.host(promoted);
        let replayed = host.and_then(|host| host.replayed);
        let replayed = replayed.filter(|(timeline, _)| *timeline == from);
        let inserted = host.and_then(|host| host.report.as_ref()?.inserted);
        SwitchPoint {
            at_least: replayed.map_or(Lsn::ZERO, |(_, replayed)| replayed),
            at_most: inserted.unwrap_or(Lsn::MAX),
        }
    }
}

impl HostReport {
    /// Of a primary: the ends of its log.
    #[must_use]
    pub fn end_of_log(&self) -> Option<WalPosition> {
        let (inserted, flushed) = self.inserted.zip(self.flushed)?;
        (!self.in_recovery).then_some(WalPosition { inserted, flushed })
    }

    /// Of a replica: the position that it has replayed, and its timeline.
    pub(crate) fn replay_on_timeline(&self) -> Option<(Timeline, Lsn)> {
        let found = self.timeline.zip(self.replayed)?;
        self.in_recovery.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::TimelineHistory;
    use crate::host::{HostAddress, HostSpec};
    use crate::observation::Observation;
    use crate::position::SystemId;
    use crate::settings::ClusterSettings;
    use std::time::{Duration, Instant};

    fn seen(in_recovery: bool, timeline: u32, lsn: u64) -> Observation {
        let lsn = Some(Lsn(lsn));
        Observation::Answered(HostReport {
            in_recovery,
            system: Some(SystemId(7)),
            timeline: Some(Timeline(timeline)),
            inserted: lsn.filter(|_| !in_recovery),
            replayed: lsn.filter(|_| in_recovery),
            ..HostReport::default()
        })
    }

    #[test]
    fn a_switch_point_lies_between_what_was_replayed_and_what_is_written() {
        let now = Instant::now();
        let spec = HostSpec {
            address: HostAddress {
                host: "pg".to_owned(),
                port: 5432,
            },
        };
        let settings = ClusterSettings {
            failover_timeout: Duration::ZERO,
            patroni: false,
        };
        let mut cluster = Cluster::new(vec![spec], settings, now);
        let (host, before) = (HostId(0), Timeline(1));
        let limits = |at_least, at_most| SwitchPoint { at_least, at_most };
        let unknown = limits(Lsn::ZERO, Lsn::MAX);
        assert_eq!(cluster.switch_limits(host, before), unknown);
        for replayed in [10, 20] {
            cluster.observe(host, seen(true, 1, replayed), now);
        }
        cluster.observe(host, seen(false, 2, 30), now);
        assert_eq!(
            cluster.switch_limits(host, before),
            limits(Lsn(20), Lsn(30))
        );
        let other = cluster.switch_limits(host, Timeline(9));
        assert_eq!(other, limits(Lsn::ZERO, Lsn(30)));
        assert_eq!(cluster.left_at(before, Timeline(2)), None);
        let history = TimelineHistory::parse(Timeline(2), "1\t0/19\tno recovery target").unwrap();
        cluster.add_history(history);
        assert_eq!(cluster.left_at(before, Timeline(2)), Some(Lsn(0x19)));
    }
}
