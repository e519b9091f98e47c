//! Whether a host is in use, how far it is behind, and its state as the console shows it.

use crate::cluster::{Cluster, Primary};
use crate::health::Health;
use crate::host::{Host, HostId, HostRole, HostStatus, Lag, Reason};
use crate::observation::{HostReport, ProbeError};
use crate::position::{Lsn, Position};
use std::time::{Duration, Instant};

/// A replica that may serve reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadableReplica {
    /// Its number.
    pub id: HostId,
    /// The lag behind the primary at its last answer; `None` if that is not known.
    pub lag: Option<Duration>,
    /// The end of its last probe.
    pub observed: Instant,
}

impl ReadableReplica {
    /// Whether the replica is at most this far behind the primary; zero is no limit.
    #[must_use]
    pub fn is_within(&self, lag_max: Duration, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.observed);
        lag_max.is_zero() || self.lag.is_some_and(|lag| lag + age <= lag_max)
    }
}

impl Cluster {
    /// The state of every host, in the configured order, and of every subscriber behind them.
    #[must_use]
    pub fn statuses(&self) -> Vec<HostStatus> {
        let hosts = self.ids().filter_map(|id| self.status(id));
        hosts.chain(self.subscriber_statuses()).collect()
    }

    fn status(&self, id: HostId) -> Option<HostStatus> {
        let host = self.host(id)?;
        let reason = self.use_of(id).err();
        let report = host.report.as_ref();
        Some(HostStatus {
            id,
            spec: host.spec.clone(),
            role: self.role(id, host),
            in_use: reason.is_none(),
            reason,
            reads: (self.primary() != Some(id)).then(|| self.may_read(id)),
            system: report.and_then(|report| report.system),
            timeline: host.timeline(),
            lag: report.map(|report| self.lag(report)).unwrap_or_default(),
            observed: host.observed,
        })
    }

    fn role(&self, id: HostId, host: &Host) -> HostRole {
        let known = host.report.as_ref();
        match known.filter(|report| self.check_system(report).is_ok()) {
            None => HostRole::Unknown,
            Some(_) if self.primary() == Some(id) => HostRole::Primary,
            Some(report) if report.in_recovery => HostRole::Replica,
            Some(_) => HostRole::RejectedPrimary,
        }
    }

    /// Whether a host is the primary, or a replica that follows the primary.
    pub(crate) fn use_of(&self, id: HostId) -> Result<(), Reason> {
        if self.primary() == Some(id) {
            return Ok(());
        }
        let host = self.host(id).ok_or(Reason::Unprobed)?;
        if let Some(error) = &host.failure
            && (*error != ProbeError::Overloaded || host.report.is_none())
        {
            return Err(error.clone().into());
        }
        let report = host.report.as_ref().ok_or(Reason::Unprobed)?;
        if matches!(self.primary, Primary::Discovering { .. }) {
            return Err(Reason::Unprobed);
        }
        self.check_system(report)?;
        if !report.in_recovery {
            return Err(self
                .may_become_primary(id)
                .err()
                .unwrap_or(Reason::Unprobed));
        }
        check_health(host)?;
        self.check_history(report)
    }

    /// Whether a replica may serve reads: if it is in use, is on the timeline of the primary, and has the primary's settings for
    /// the form of answers. A timeline that is not known is not that of the primary, nor is one that another primary has, too.
    fn may_read(&self, id: HostId) -> Result<(), Reason> {
        self.use_of(id)?;
        let report = |id| self.host(id)?.report.as_ref();
        let (Some(primary_id), Some(own)) = (self.primary(), report(id)) else {
            return Err(Reason::Unprobed);
        };
        let primary = report(primary_id).ok_or(Reason::Unprobed)?;
        if let Some(rival) = self.rival(primary_id, primary) {
            // It is not known which of the two the replica follows.
            return Err(rival);
        }
        let timelines = own.timeline.zip(primary.timeline);
        match timelines.ok_or(Reason::TimelineUnknown)? {
            (own, highest) if own < highest => Err(Reason::OlderTimeline { own, highest }),
            _ if own.answer_settings != primary.answer_settings => Err(Reason::OtherSettings),
            _ => Ok(()),
        }
    }

    /// The replicas that may serve reads, in the configured order.
    #[must_use]
    pub fn readable(&self) -> Vec<ReadableReplica> {
        let replicas = self.ids().filter(|id| self.primary() != Some(*id));
        let readable = replicas.filter(|id| self.may_read(*id).is_ok());
        let readable = readable.filter_map(|id| {
            let host = self.host(id)?;
            Some(ReadableReplica {
                id,
                lag: self.lag(host.report.as_ref()?).time,
                observed: host.observed?,
            })
        });
        readable.collect()
    }

    /// A position in the log of the primary; `None` if there is no primary, or if its timeline or system identifier is not known.
    #[must_use]
    pub fn position_of_primary(&self, lsn: Lsn) -> Option<Position> {
        let report = self.host(self.primary()?)?.report.as_ref()?;
        self.position(report, Some(lsn))
    }

    /// Whether the log of the primary contains this position, or will contain it if it is past its end.
    #[must_use]
    pub fn includes(&self, position: Position) -> bool {
        let end = self.position_of_primary(Lsn::MAX);
        end.is_some_and(|end| self.histories.contains(end, position))
    }

    /// Whether the log of a replica is part of the highest timeline's.
    fn check_history(&self, report: &HostReport) -> Result<(), Reason> {
        let (Some(own), Some(highest)) = (report.timeline, self.highest_timeline()) else {
            return Ok(());
        };
        match self.histories.shared_up_to(own, highest) {
            Some(shared) if report.replayed <= Some(shared) => Ok(()),
            Some(shared) => Err(Reason::Diverged { highest, shared }),
            None => Err(Reason::OlderTimeline { own, highest }),
        }
    }

    /// The lag of the replica that sent `report` behind the present primary, or behind the last one.
    fn lag(&self, report: &HostReport) -> Lag {
        if !report.in_recovery {
            return Lag::default();
        }
        let all = Lag {
            bytes: None,
            time: report.replay_age,
        };
        let (Some(end), Some(replayed)) = (self.end_of_log(), self.replay_position(report)) else {
            return all;
        };
        if self.histories.contains(replayed, end) {
            return Lag {
                bytes: Some(0),
                time: Some(Duration::ZERO),
            };
        }
        let behind = self.histories.contains(end, replayed);
        let bytes = end.lsn.bytes_since(replayed.lsn);
        Lag {
            bytes: behind.then_some(bytes),
            ..all
        }
    }

    /// The end of the primary's log at its last answer.
    fn end_of_log(&self) -> Option<Position> {
        let term = self.last_term()?;
        let report = self.host(term.host)?.report.as_ref()?;
        let lsn = report.written.or(report.flushed);
        self.position(report, lsn)
    }

    /// The end of the log that the replica that sent `report` has replayed; `None` if that, or its timeline, is not known.
    fn replay_position(&self, report: &HostReport) -> Option<Position> {
        self.position(report, report.replayed)
    }

    fn position(&self, report: &HostReport, lsn: Option<Lsn>) -> Option<Position> {
        Some(Position {
            system: report.system.or(self.system())?,
            timeline: report.timeline?,
            lsn: lsn?,
        })
    }
}

fn check_health(host: &Host) -> Result<(), Reason> {
    match host.health {
        Health::InUse => Ok(()),
        Health::Returning { probes, .. } => Err(Reason::Returning(probes)),
        Health::Removed => Err(Reason::Returning(0)),
        Health::Unprobed => Err(Reason::Unprobed),
    }
}
