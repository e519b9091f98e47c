//! Whether a host is in use, how far it is behind, and its state as the console shows it.

use crate::cluster::{Cluster, Primary};
use crate::health::Health;
use crate::host::{Host, HostId, HostRole, HostStatus, Lag, Reason};
use crate::observation::{HostReport, ProbeError};
use crate::position::{Lsn, Position};

impl Cluster {
    /// The state of every host, in the configured order.
    #[must_use]
    pub fn statuses(&self) -> Vec<HostStatus> {
        self.ids().filter_map(|id| self.status(id)).collect()
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

    /// How far the replica that sent `report` is behind the present primary, or behind the last one.
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
                time: Some(std::time::Duration::ZERO),
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

    /// What the replica that sent `report` has replayed; `None` if that, or its timeline, is not known.
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
