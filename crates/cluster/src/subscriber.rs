//! One logical subscriber: whether it serves reads, and how far it is behind. A subscriber is another cluster, with a system
//! identifier and a log of its own: it has no position that could be compared with that of a client.

use crate::health::Health;
use crate::host::{HostAddress, HostId, Lag, Reason};
use crate::observation::ProbeError;
use crate::position::{Lsn, SystemId};
use crate::subscription::{SubscribedTables, SubscriberReport, TableName};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of ends of the primary's log that are kept. If the subscriber is further behind, its lag in time is not known.
const POSITIONS_MAX: usize = 4_096;

/// A configured subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberSpec {
    /// As it is configured.
    pub address: HostAddress,
    /// The replication slot on the primary.
    pub slot: String,
    /// The tables.
    pub tables: Vec<TableName>,
}

/// A subscriber, and the results of its probes.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) spec: SubscriberSpec,
    health: Health,
    failure: Option<ProbeError>,
    /// From the last answer, with the host that was the primary then.
    checked: Option<(HostId, Result<Arc<SubscribedTables>, Reason>)>,
    pub(crate) system: Option<SystemId>,
    /// Ends of the primary's log, and when they were asked for.
    positions: VecDeque<(Instant, Lsn)>,
    pub(crate) lag: Lag,
    pub(crate) observed: Option<Instant>,
}

impl Subscriber {
    pub(crate) fn new(spec: SubscriberSpec) -> Self {
        Self {
            spec,
            health: Health::Unprobed,
            failure: None,
            checked: None,
            system: None,
            positions: VecDeque::new(),
            lag: Lag::default(),
            observed: None,
        }
    }

    /// Takes the end of the primary's log, and up to where the subscriber has applied it. What was committed before an end was asked
    /// for lies before this end. So a subscriber that has applied it is behind by at most the time since then.
    fn measure(&mut self, asked: Instant, written: Option<Lsn>, confirmed: Option<Lsn>) {
        let (Some(written), Some(confirmed)) = (written, confirmed) else {
            self.lag = Lag::default();
            return;
        };
        if self.positions.len() >= POSITIONS_MAX {
            self.positions.pop_front();
        }
        self.positions.push_back((asked, written));
        let is_next_applied = |positions: &VecDeque<(Instant, Lsn)>| {
            positions.get(1).is_some_and(|(_, next)| *next <= confirmed)
        };
        while is_next_applied(&self.positions) {
            self.positions.pop_front();
        }
        let applied = self.positions.front().filter(|(_, end)| *end <= confirmed);
        self.lag = Lag {
            bytes: Some(written.0.saturating_sub(confirmed.0)),
            time: applied.map(|(at, _)| asked.saturating_duration_since(*at)),
        };
    }

    /// Takes the result of a probe that began at `at`, with the host that was asked as the primary. `expected` is the system
    /// identifier of the primary.
    pub(crate) fn observe(
        &mut self,
        seen: Result<(HostId, SubscriberReport), ProbeError>,
        expected: Option<SystemId>,
        at: Instant,
    ) {
        self.observed = Some(at);
        let (primary, report) = match seen {
            Ok(answered) => answered,
            Err(error) => {
                self.health.bad();
                self.failure = Some(error);
                return;
            }
        };
        self.health.good(at);
        self.failure = None;
        self.system = report.own.system;
        let confirmed = report.slot.as_ref().and_then(|slot| slot.confirmed);
        self.measure(at, report.written, confirmed);
        let checked = self.spec.check(&report, expected);
        self.checked = Some((primary, checked.map(Arc::new)));
    }

    /// The tables of which it may answer reads, or why it may answer none.
    pub(crate) fn state(&self, primary: Option<HostId>) -> Result<Arc<SubscribedTables>, Reason> {
        if let Some(error) = &self.failure {
            return Err(error.clone().into());
        }
        let of_primary = self.checked.as_ref();
        let of_primary = of_primary.filter(|(asked, _)| primary == Some(*asked));
        let (_, checked) = of_primary.ok_or(Reason::Unprobed)?;
        match self.health {
            Health::InUse => checked.clone(),
            Health::Returning { probes, .. } => Err(Reason::Returning(probes)),
            Health::Removed => Err(Reason::Returning(0)),
            Health::Unprobed => Err(Reason::Unprobed),
        }
    }
}

impl SubscriberSpec {
    /// The tables of which a subscriber may answer reads. `expected` is the system identifier of the primary; `None` if it is not known.
    ///
    /// # Errors
    /// The report is not one of this primary, or the subscriber does not have what the primary has.
    pub fn check(
        &self,
        report: &SubscriberReport,
        expected: Option<SystemId>,
    ) -> Result<SubscribedTables, Reason> {
        if let (Some(own), Some(expected)) = (report.primary.system, expected)
            && own != expected
        {
            return Err(Reason::OtherSystem { own, expected });
        }
        if report.primary.in_recovery {
            return Err(Reason::Unprobed);
        }
        let tables = report.check(&self.slot, &self.tables)?;
        match report.own.answer_settings == report.primary.answer_settings {
            true => Ok(tables),
            false => Err(Reason::OtherSettings),
        }
    }
}
