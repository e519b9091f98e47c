//! One host: its address, and its state with the reason, as the console and the log have it.

use crate::health::{Health, PROBES_TO_RETURN};
use crate::observation::{HostReport, ProbeError};
use crate::position::{Lsn, SystemId, Timeline};
use crate::subscription::SubscriberProblem;
use std::fmt;
use std::time::{Duration, Instant};
use thiserror::Error;

/// The place of a host in the configured list, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// The address of a server: a name or an address, or the folder of a Unix socket; and the port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostAddress {
    /// IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for HostAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// A configured host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// As it is configured.
    pub address: HostAddress,
}

/// The role of a host for this database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRole {
    /// Not known yet, or not this database's.
    Unknown,
    /// It takes the writes.
    Primary,
    /// It says that it is a primary, but it is not this database's.
    RejectedPrimary,
    /// It follows another server.
    Replica,
    /// Tables of the primary are replicated to it logically.
    Subscriber,
}

/// The reason why a host is not in use, or not the primary although it says so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// The first probe of some host has not ended.
    #[error("the first probe of every host is awaited")]
    Unprobed,
    /// The last probe failed.
    #[error("{0}")]
    Failed(#[from] ProbeError),
    /// Good probes follow a bad one.
    #[error("{0} of {PROBES_TO_RETURN} or more good probes since the host was removed")]
    Returning(u32),
    /// Not a copy of the same data.
    #[error("system identifier {own} is not {expected}: the server belongs to another cluster")]
    OtherSystem {
        /// The host's.
        own: SystemId,
        /// That of the hosts in use.
        expected: SystemId,
    },
    /// Another host was promoted later.
    #[error("timeline {own} is lower than {highest}, the highest seen")]
    OlderTimeline {
        /// The host's.
        own: Timeline,
        /// The highest of all.
        highest: Timeline,
    },
    /// The monitor may not read the timeline.
    #[error("the timeline is unknown: monitor_user must be a member of pg_monitor")]
    TimelineUnknown,
    /// It has replayed log that the promotion has discarded.
    #[error("the log left the history of timeline {highest} at {shared}")]
    Diverged {
        /// The highest of all.
        highest: Timeline,
        /// The position at which the timelines part.
        shared: Lsn,
    },
    /// A replica whose answers may have another form than the primary's.
    #[error(
        "TimeZone, DateStyle or another setting for the form of answers differs from the primary's"
    )]
    OtherSettings,
    /// A subscriber that does not have what the primary has.
    #[error("{0}")]
    Subscriber(#[from] SubscriberProblem),
    /// A primary that does not write.
    #[error("the server is read only")]
    ReadOnly,
    /// Two claims of equal weight.
    #[error("{other} says that it is the primary of timeline {timeline}, too")]
    SecondPrimary {
        /// The other host.
        other: HostAddress,
        /// The timeline of both.
        timeline: Timeline,
    },
    /// Patroni names another host, or none.
    #[error("Patroni's leader is {}", .0.as_deref().unwrap_or("not known"))]
    PatroniDisagrees(Option<String>),
}

/// The lag of a replica behind the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Bytes of log; `None` if the timelines are not comparable, or the monitor may not read them.
    pub bytes: Option<u64>,
    /// Time since the last replayed commit; zero if nothing is left to replay.
    pub time: Option<Duration>,
}

/// One host for the console and for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStatus {
    /// Its number.
    pub id: HostId,
    /// As it is configured.
    pub spec: HostSpec,
    /// Its role.
    pub role: HostRole,
    /// Whether it is the primary, or a replica that follows the primary.
    pub in_use: bool,
    /// The reason why it is not in use; `None` if it is.
    pub reason: Option<Reason>,
    /// Whether it may serve reads as a replica, or why not; `None` if it is the primary.
    pub reads: Option<Result<(), Reason>>,
    /// From the last answer.
    pub system: Option<SystemId>,
    /// From the last answer.
    pub timeline: Option<Timeline>,
    /// The lag behind the primary, of a replica.
    pub lag: Lag,
    /// The end of the last probe.
    pub observed: Option<Instant>,
}

/// One host: its configuration, and the results of its probes.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) spec: HostSpec,
    /// Addresses that its name leads to, by which Patroni may call it.
    pub(crate) resolved: Vec<String>,
    pub(crate) health: Health,
    /// The last answer, even if later probes failed.
    pub(crate) report: Option<HostReport>,
    /// The position that it had replayed at its last answer as a replica, and its timeline then.
    pub(crate) replayed: Option<(Timeline, Lsn)>,
    /// The reason why the last probe failed; `None` if it did not.
    pub(crate) failure: Option<ProbeError>,
    pub(crate) observed: Option<Instant>,
}

impl Host {
    pub(crate) fn new(spec: HostSpec) -> Self {
        Self {
            spec,
            resolved: Vec::new(),
            health: Health::Unprobed,
            report: None,
            replayed: None,
            failure: None,
            observed: None,
        }
    }

    /// Whether the last answer says that the host takes writes.
    pub(crate) fn claims_primary(&self) -> bool {
        let report = self.report.as_ref();
        report.is_some_and(|report| !report.in_recovery && !report.read_only)
    }

    pub(crate) fn timeline(&self) -> Option<Timeline> {
        self.report.as_ref()?.timeline
    }

    /// Whether the host listens at `address`.
    pub(crate) fn is_at(&self, address: &HostAddress) -> bool {
        let mut names = self.resolved.iter().chain([&self.spec.address.host]);
        self.spec.address.port == address.port
            && names.any(|name| name.eq_ignore_ascii_case(&address.host))
    }
}
