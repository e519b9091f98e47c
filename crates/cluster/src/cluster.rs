//! The state of the hosts of one database. The monitor hands in what it observed; the cluster decides which host is the primary
//! and which replicas are in use: a replica is if its probes succeed and its log is part of the primary's.
//!
//! A host is the primary only if its own answer says so, if its timeline is the highest seen, and if Patroni agrees where Patroni
//! is configured. The highest timeline never falls. A failed probe of the primary ends its role at once, except if the server
//! proves that it is alive: if it has no connection left, or rejects the monitor's login. After a failure, the primary needs one
//! good probe, not a series: while there is none, every request waits.

use crate::health::Health;
use crate::history::{TimelineHistories, TimelineHistory};
use crate::host::{Host, HostId, HostSpec, Reason};
use crate::observation::{HostReport, Observation, ProbeError};
use crate::patroni::PatroniView;
use crate::position::{SystemId, Timeline};
use crate::settings::ClusterSettings;
use crate::subscriber::Subscriber;
use std::time::{Duration, Instant};

/// A change that the log, the metrics and the pools need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The primary takes no more requests.
    PrimaryLost {
        /// The old primary.
        host: HostId,
        /// The reason.
        reason: Reason,
    },
    /// Every host was asked for the first time, and none is the primary.
    PrimaryNotFound,
    /// A host takes the writes from now on.
    PrimaryFound {
        /// The primary.
        host: HostId,
        /// Its timeline, if it is known.
        timeline: Option<Timeline>,
        /// The timeline of the primary before; `None` if there was none, or if it was not known. If it differs, there was a
        /// promotion.
        before: Option<Timeline>,
        /// The time without a primary.
        waited: Duration,
    },
    /// A host is not in use any more.
    Removed {
        /// The host.
        host: HostId,
        /// The reason.
        reason: Reason,
    },
    /// A host is in use, for the first time or again.
    Returned(HostId),
    /// A host has a higher timeline than any before.
    TimelineRose(Timeline),
}

/// The primary, or the event that is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Primary {
    /// The end of the first probe of every host, and Patroni's first answer.
    Discovering { since: Instant },
    /// Nothing.
    Known(Term),
    /// A host that may take its place.
    Lost { since: Instant, last: Option<Term> },
}

/// A host in the role of the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) host: HostId,
    pub(crate) timeline: Option<Timeline>,
}

/// The last answer of Patroni.
#[derive(Debug)]
enum Patroni {
    NotConfigured,
    /// The first answer, or the first failure, is awaited.
    Unasked,
    /// It never answered: PostgreSQL's own word decides.
    Silent,
    Answered {
        view: PatroniView,
        /// Whether the last question was answered.
        reachable: bool,
    },
}

/// The hosts of one database.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) settings: ClusterSettings,
    pub(crate) hosts: Vec<Host>,
    /// Their numbers follow those of the hosts.
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) histories: TimelineHistories,
    pub(crate) primary: Primary,
    system: Option<SystemId>,
    highest: Option<Timeline>,
    patroni: Patroni,
}

impl Cluster {
    /// A cluster of which nothing is known yet.
    #[must_use]
    pub fn new(hosts: Vec<HostSpec>, settings: ClusterSettings, now: Instant) -> Self {
        let patroni = match settings.patroni {
            true => Patroni::Unasked,
            false => Patroni::NotConfigured,
        };
        Self {
            settings,
            hosts: hosts.into_iter().map(Host::new).collect(),
            subscribers: Vec::new(),
            histories: TimelineHistories::default(),
            primary: Primary::Discovering { since: now },
            system: None,
            highest: None,
            patroni,
        }
    }

    /// Takes from the cluster that this one replaces what must not be forgotten: the system identifier and the highest timeline.
    /// Otherwise a reload of the configuration could return an old primary to its role.
    pub fn inherit(&mut self, before: &Self) {
        self.system = before.system;
        self.highest = before.highest;
        self.histories = before.histories.clone();
    }

    /// Takes the result of a probe of `host`, and returns what it changed.
    pub fn observe(&mut self, host: HostId, seen: Observation, now: Instant) -> Vec<Event> {
        let before = self.in_use();
        if let Some(entry) = self.hosts.get_mut(host.0) {
            entry.observed = Some(now);
            match seen {
                Observation::Answered(report) => {
                    entry.replayed = report.replay_on_timeline().or(entry.replayed);
                    entry.report = Some(report);
                    entry.failure = None;
                }
                Observation::Failed(error) => entry.failure = Some(error),
            }
        }
        let mut events = self.decide(now);
        self.judge(host, now);
        self.report_uses(&before, &mut events);
        events
    }

    /// Takes an answer of Patroni; `None` if none of its URLs answered. Then the last answer holds.
    pub fn observe_patroni(&mut self, answer: Option<PatroniView>, now: Instant) -> Vec<Event> {
        let before = self.in_use();
        match (answer, &mut self.patroni) {
            (_, Patroni::NotConfigured) => return Vec::new(),
            (Some(view), patroni) => {
                *patroni = Patroni::Answered {
                    view,
                    reachable: true,
                };
            }
            (None, Patroni::Answered { reachable, .. }) => *reachable = false,
            (None, patroni) => *patroni = Patroni::Silent,
        }
        let mut events = self.decide(now);
        self.report_uses(&before, &mut events);
        events
    }

    /// Takes the history of a timeline.
    pub fn add_history(&mut self, history: TimelineHistory) {
        self.histories.add(history);
    }

    /// Takes the addresses that the name of a host leads to, so that Patroni's addresses can be compared with it. No address changes
    /// nothing: a resolver that does not answer must not end Patroni's agreement.
    pub fn resolved(&mut self, host: HostId, addresses: Vec<String>) {
        if let Some(host) = self.hosts.get_mut(host.0)
            && !addresses.is_empty()
        {
            host.resolved = addresses;
        }
    }

    /// The timeline whose history the monitor should read; `None` if no history is missing.
    #[must_use]
    pub fn wanted_history(&self) -> Option<Timeline> {
        self.highest
            .filter(|highest| !self.histories.knows(*highest))
    }

    /// The system identifier of the hosts in use; `None` before the first answer.
    #[must_use]
    pub fn system(&self) -> Option<SystemId> {
        self.system
    }

    /// The highest timeline seen.
    #[must_use]
    pub fn highest_timeline(&self) -> Option<Timeline> {
        self.highest
    }

    /// The primary; `None` if there is none.
    #[must_use]
    pub fn primary(&self) -> Option<HostId> {
        match self.primary {
            Primary::Known(term) => Some(term.host),
            Primary::Discovering { .. } | Primary::Lost { .. } => None,
        }
    }

    pub(crate) fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(id.0)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = HostId> {
        (0..self.hosts.len()).map(HostId)
    }

    /// Chooses the primary after something was observed.
    fn decide(&mut self, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        let is_first = matches!(self.primary, Primary::Discovering { .. });
        if is_first && !self.is_discovered() {
            return events;
        }
        self.settle_system();
        self.raise_timeline(&mut events);
        if let Primary::Known(term) = self.primary {
            match self.keeps_primary(term.host) {
                Ok(()) => self.follow_timeline(term, &mut events),
                Err(reason) => {
                    let last = Some(term);
                    self.primary = Primary::Lost { since: now, last };
                    let host = term.host;
                    events.push(Event::PrimaryLost { host, reason });
                }
            }
        }
        if self.primary().is_none() {
            self.elect(now, &mut events);
        }
        if is_first && self.primary().is_none() {
            events.push(Event::PrimaryNotFound);
        }
        events
    }

    /// Whether every host was probed once, and Patroni asked.
    fn is_discovered(&self) -> bool {
        let asked = !matches!(self.patroni, Patroni::Unasked);
        asked && self.hosts.iter().all(|host| host.observed.is_some())
    }

    /// Adopts the system identifier of the first host in the configured order that says it is a primary, else of the first that
    /// answered. All hosts have been probed, so the choice does not depend on which one answered first.
    fn settle_system(&mut self) {
        let of = |host: &Host| host.report.as_ref().and_then(|report| report.system);
        let primaries = self.hosts.iter().filter(|host| host.claims_primary());
        let found = primaries.chain(&self.hosts).find_map(of);
        self.system = self.system.or(found);
    }

    fn raise_timeline(&mut self, events: &mut Vec<Event>) {
        let ours = self.hosts.iter().filter(|host| self.is_ours(host));
        let seen = ours.filter_map(Host::timeline);
        let of_patroni = match &self.patroni {
            Patroni::Answered { view, .. } => view.timeline(),
            Patroni::NotConfigured | Patroni::Unasked | Patroni::Silent => None,
        };
        let highest = seen.chain(of_patroni).chain(self.highest).max();
        if let Some(highest) = highest.filter(|highest| self.highest < Some(*highest)) {
            self.highest = Some(highest);
            events.push(Event::TimelineRose(highest));
        }
    }

    /// Whether a host does not say that it has another system identifier.
    fn is_ours(&self, host: &Host) -> bool {
        let own = host.report.as_ref().and_then(|report| report.system);
        own.is_none() || own == self.system
    }

    /// Whether the present primary may remain the primary. A server that is full, or that rejects only the monitor's login, is alive.
    fn keeps_primary(&self, id: HostId) -> Result<(), Reason> {
        let failure = self.host(id).and_then(|host| host.failure.as_ref());
        match failure {
            None | Some(ProbeError::Overloaded | ProbeError::LoginRefused) => self.claim(id),
            Some(error) => Err(error.clone().into()),
        }
    }

    /// Whether a host that is not the primary may become it.
    pub(crate) fn may_become_primary(&self, id: HostId) -> Result<(), Reason> {
        let host = self.host(id).ok_or(Reason::Unprobed)?;
        match &host.failure {
            Some(error) => Err(error.clone().into()),
            None => self.claim(id),
        }
    }

    /// Whether the last answer of a host, compared with all others, makes it the primary.
    fn claim(&self, id: HostId) -> Result<(), Reason> {
        let host = self.host(id).ok_or(Reason::Unprobed)?;
        let report = host.report.as_ref().ok_or(Reason::Unprobed)?;
        self.check_system(report)?;
        if report.in_recovery || report.read_only {
            return Err(Reason::ReadOnly);
        }
        self.check_timeline(report)?;
        match self.agrees(host) {
            Agreement::Names => Ok(()),
            Agreement::NotAsked => self.check_rivals(id, report),
            Agreement::No(leader) => Err(Reason::PatroniDisagrees(leader)),
        }
    }

    pub(crate) fn check_system(&self, report: &HostReport) -> Result<(), Reason> {
        match (report.system, self.system) {
            (Some(own), Some(expected)) if own != expected => {
                Err(Reason::OtherSystem { own, expected })
            }
            _ => Ok(()),
        }
    }

    fn check_timeline(&self, report: &HostReport) -> Result<(), Reason> {
        match (report.timeline, self.highest) {
            (Some(own), Some(highest)) if own < highest => {
                Err(Reason::OlderTimeline { own, highest })
            }
            (None, _) if self.hosts.len() > 1 => Err(Reason::TimelineUnknown),
            _ => Ok(()),
        }
    }

    /// Two primaries of one timeline have been promoted apart. The one that Paceline used last remains the primary; without one,
    /// none is chosen, even if one of the two fails: it may have commits that were acknowledged to clients.
    fn check_rivals(&self, id: HostId, report: &HostReport) -> Result<(), Reason> {
        if self.last_term().is_some_and(|last| last.host == id) {
            return Ok(());
        }
        self.rival(id, report).map_or(Ok(()), Err)
    }

    /// The other host that says that it is the primary of the timeline of this one.
    pub(crate) fn rival(&self, id: HostId, report: &HostReport) -> Option<Reason> {
        let timeline = report.timeline?;
        let mut others = self.ids().filter(|other| *other != id);
        others.find_map(|other| {
            let other = self.host(other)?;
            let rivals = other.claims_primary() && self.is_ours(other);
            (rivals && other.timeline() == Some(timeline)).then(|| Reason::SecondPrimary {
                other: other.spec.address.clone(),
                timeline,
            })
        })
    }

    pub(crate) fn last_term(&self) -> Option<Term> {
        match self.primary {
            Primary::Discovering { .. } => None,
            Primary::Known(term) => Some(term),
            Primary::Lost { last, .. } => last,
        }
    }

    fn agrees(&self, host: &Host) -> Agreement {
        let (view, reachable) = match &self.patroni {
            Patroni::NotConfigured | Patroni::Unasked | Patroni::Silent => {
                return Agreement::NotAsked;
            }
            Patroni::Answered {
                view, reachable, ..
            } => (view, *reachable),
        };
        let leader = view.leader();
        let address = leader.and_then(|leader| leader.address.as_ref());
        if address.is_some_and(|address| host.is_at(address)) {
            return Agreement::Names;
        }
        // A higher timeline proves that there was a promotion after the last answer.
        let higher = view
            .timeline()
            .is_some_and(|seen| host.timeline() > Some(seen));
        match higher && !reachable {
            true => Agreement::NotAsked,
            false => Agreement::No(leader.map(|leader| leader.name.clone())),
        }
    }

    /// The primary may have been restarted and promoted between two probes.
    fn follow_timeline(&mut self, term: Term, events: &mut Vec<Event>) {
        let timeline = self.host(term.host).and_then(Host::timeline);
        if timeline == term.timeline {
            return;
        }
        let host = term.host;
        self.primary = Primary::Known(Term { host, timeline });
        events.push(Event::PrimaryFound {
            host,
            timeline,
            before: term.timeline,
            waited: Duration::ZERO,
        });
    }

    /// Chooses the primary. If two hosts may become it, Patroni named both: they are two names of one server.
    fn elect(&mut self, now: Instant, events: &mut Vec<Event>) {
        let (since, last) = match self.primary {
            Primary::Known(_) => return,
            Primary::Discovering { since } => (since, None),
            Primary::Lost { since, last } => (since, last),
        };
        self.primary = Primary::Lost { since, last };
        let Some(host) = self.ids().find(|id| self.may_become_primary(*id).is_ok()) else {
            return;
        };
        let timeline = self.host(host).and_then(Host::timeline);
        self.primary = Primary::Known(Term { host, timeline });
        events.push(Event::PrimaryFound {
            host,
            timeline,
            before: last.and_then(|last| last.timeline),
            waited: now.saturating_duration_since(since),
        });
    }

    /// Counts the last probe of a host as good or bad.
    fn judge(&mut self, id: HostId, now: Instant) {
        let is_primary = self.primary() == Some(id);
        let Some(host) = self.hosts.get_mut(id.0) else {
            return;
        };
        match &host.failure {
            Some(ProbeError::Overloaded) => {}
            None if is_primary => host.health = Health::InUse,
            None => drop(host.health.good(now)),
            Some(_) => drop(host.health.bad()),
        }
    }

    /// Whether each host is in use.
    fn in_use(&self) -> Vec<bool> {
        self.ids().map(|id| self.use_of(id).is_ok()).collect()
    }

    fn report_uses(&self, before: &[bool], events: &mut Vec<Event>) {
        for (host, was) in self.ids().zip(before) {
            match (was, self.use_of(host)) {
                (false, Ok(())) => events.push(Event::Returned(host)),
                (true, Err(reason)) => events.push(Event::Removed { host, reason }),
                (true, Ok(())) | (false, Err(_)) => {}
            }
        }
    }
}

/// Whether Patroni names a host as its leader.
enum Agreement {
    Names,
    /// Patroni is not configured, or its answer is older than the host's timeline.
    NotAsked,
    /// It names another, or none.
    No(Option<String>),
}
