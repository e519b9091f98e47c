//! The maximum number of groups of a pool in flight at once: a configured number, or one that a search finds.
//!
//! More groups in flight use more of PostgreSQL's cores and wait for several commits at once. Fewer are larger, and cost PostgreSQL
//! less per request. Which number serves the clients best depends on the cores, the commit latency, the statements and the
//! distance of the server, and changes with the load. [`GroupLimit`] therefore tries the numbers 1, 2, 4, … for a few
//! milliseconds each and keeps the one with the greatest *power*: throughput divided by response time (L. Kleinrock, "Power and
//! deterministic rules of thumb for probabilistic problems in computer communications", 1979). If a fixed number of clients waits
//! for answers, that is the number with the greatest throughput; if requests arrive more slowly than they can be served, the one
//! with the shortest response time.
//!
//! A group that takes much longer than others of its template leaves the count: no request waits because a group waits for a lock. The time after
//! which it does is computed as TCP computes its retransmission timeout (RFC 6298).

mod epoch;
mod flights;
mod search;
mod server_load;

pub use flights::FlightId;
pub use server_load::ServerLoad;

use epoch::{Epoch, Measurement};
use flights::Flights;
use search::{Search, SearchStep};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit of a pool before the first search.
const INITIAL: usize = 2;

/// Time after which the limit is searched again: something else may have disturbed the search.
const SEARCH_AGAIN: Duration = Duration::from_secs(8);

/// The time is doubled with each search, up to this.
const SEARCH_AGAIN_MAX: Duration = Duration::from_secs(64);

/// Change of the power or the load that counts as one, as the difference of the natural logarithms.
const CHANGED_BY: f64 = 0.6;

/// The limit is searched again when this number of successive epochs has shown a change.
const CHANGED_FOR: u32 = 3;

/// Approximate number of epochs over which the usual values are averaged.
const USUAL_OF: f64 = 8.0;

/// `max_groups_in_flight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupsMax {
    /// The number is found.
    #[default]
    Auto,
    /// This number.
    Fixed(usize),
}

/// The reason for the value of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitReason {
    /// It is configured.
    Configured,
    /// There was no search yet: there were never two groups at once for long enough.
    Initial,
    /// It is being tried.
    Searching,
    /// It was the best when it was searched last.
    Found,
}

impl LimitReason {
    /// The word that the console and the metrics show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Initial => "initial",
            Self::Searching => "searching",
            Self::Found => "found",
        }
    }
}

/// The limit of one pool. A plain data structure without a clock.
#[derive(Debug)]
pub struct GroupLimit {
    setting: GroupsMax,
    /// Maximum number of server connections of the pool.
    connections_max: usize,
    limit: usize,
    flights: Flights,
    epoch: Epoch,
    phase: Phase,
    search_again: Duration,
    server: Arc<ServerLoad>,
    /// Nanoseconds for which requests were present, as far as the server does not count them yet.
    presence: u64,
}

#[derive(Debug)]
enum Phase {
    /// Before the first search.
    Initial,
    Search(Instant, Search),
    Found(Found),
}

/// The limit is kept while its results do not change.
#[derive(Debug)]
struct Found {
    since: Instant,
    /// Mean of the epochs without a change.
    usual: Option<Measurement>,
    /// Number of successive epochs that differ.
    changed: u32,
}

impl GroupLimit {
    /// The limit of a pool without groups. `now` is any time before the first group.
    pub fn new(
        setting: GroupsMax,
        connections_max: usize,
        server: Arc<ServerLoad>,
        now: Instant,
    ) -> Self {
        let mut new = Self {
            setting,
            connections_max: connections_max.max(1),
            limit: INITIAL,
            flights: Flights::default(),
            epoch: Epoch::new(now, 0, server.total()),
            phase: Phase::Initial,
            search_again: SEARCH_AGAIN,
            server,
            presence: 0,
        };
        new.apply(setting, connections_max);
        new
    }

    /// Applies another configuration.
    pub fn apply(&mut self, setting: GroupsMax, connections_max: usize) {
        if setting != self.setting {
            self.phase = Phase::Initial;
            self.limit = INITIAL;
        }
        self.setting = setting;
        self.connections_max = connections_max.max(1);
        self.limit = match setting {
            GroupsMax::Auto => self.limit.min(self.connections_max),
            GroupsMax::Fixed(number) => number.max(1),
        };
    }

    /// From now on groups are executed by another server.
    pub fn set_server(&mut self, server: Arc<ServerLoad>, now: Instant) {
        self.server = server;
        self.phase = Phase::Initial;
        self.begin_epoch(now, Some(self.flights.last()));
    }

    /// The limit in force.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The reason for its value.
    pub fn reason(&self) -> LimitReason {
        match (self.setting, &self.phase) {
            (GroupsMax::Fixed(_), _) => LimitReason::Configured,
            (GroupsMax::Auto, Phase::Initial) => LimitReason::Initial,
            (GroupsMax::Auto, Phase::Search(..)) => LimitReason::Searching,
            (GroupsMax::Auto, Phase::Found(_)) => LimitReason::Found,
        }
    }

    /// Groups that may still start, at least one: for a caller that is about to start one.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.flights.counted()).max(1)
    }

    /// Whether the limit is reached, as far as [`GroupLimit::may_start`] has found out.
    pub fn is_reached(&self) -> bool {
        self.flights.counted() >= self.limit
    }

    /// Takes note of the number of waiting requests. To be called whenever it may have changed.
    pub fn waiting(&mut self, now: Instant, requests: usize) {
        if self.setting == GroupsMax::Auto {
            let present = self.flights.requests() + requests;
            self.presence += self.epoch.set_present(now, present);
        }
    }

    /// Whether one more group may start.
    pub fn may_start(&mut self, now: Instant) -> bool {
        self.tick(now);
        !self.is_reached()
    }

    /// Groups that have taken too long leave the count.
    pub fn tick(&mut self, now: Instant) {
        if self.is_reached() {
            self.flights.discount_overdue(now);
        }
    }

    /// The time at which [`GroupLimit::may_start`] may become true although no group ends. `None`: it is true.
    pub fn due(&self) -> Option<Instant> {
        self.flights.overdue_at().filter(|_| self.is_reached())
    }

    /// A group of `requests` has started. Groups of one `kind` are expected to take about as long as one another.
    pub fn started(&mut self, now: Instant, kind: u64, requests: usize) -> FlightId {
        let id = self.flights.start(now, kind, requests);
        self.epoch.in_flight(self.flights.len());
        id
    }

    /// A group has ended. Nothing happens if it was [`FlightId::UNCOUNTED`].
    pub fn ended(&mut self, now: Instant, id: FlightId) {
        let Some(requests) = self.flights.end(now, id) else {
            return;
        };
        if self.setting != GroupsMax::Auto {
            return;
        }
        self.server
            .add(requests, std::mem::take(&mut self.presence));
        if self.epoch.is_begun_by(id) {
            return self.begin_epoch(now, None);
        }
        self.epoch.group_ended(now, requests);
        let state = match &self.phase {
            Phase::Search(_, search) => (search.round() + 1, search.best()),
            Phase::Initial | Phase::Found(_) => (1, 0.0),
        };
        let measured = self.epoch.measured(now, self.limit, state, &self.server);
        if let Some(measured) = measured {
            self.epoch_over(now, &measured);
        }
    }

    fn begin_epoch(&mut self, now: Instant, others: Option<FlightId>) {
        let total = self.server.total();
        self.epoch.begin(now, self.flights.len(), others, total);
    }

    fn epoch_over(&mut self, now: Instant, measured: &Measurement) {
        let next = match &mut self.phase {
            Phase::Initial => self.search_if(measured.in_flight > 1, now),
            Phase::Found(found) => {
                let changed = found.has_changed(measured);
                let due = now.saturating_duration_since(found.since) >= self.search_again;
                if changed {
                    self.search_again = SEARCH_AGAIN;
                } else if due {
                    self.search_again = (self.search_again * 2).min(SEARCH_AGAIN_MAX);
                }
                let worthwhile = measured.in_flight > 1 || measured.load > 1.5;
                self.search_if((changed || due) && worthwhile, now)
            }
            Phase::Search(began, search) => match search.measured(measured) {
                SearchStep::Try(limit) => Some((None, limit)),
                SearchStep::Found(limit) => {
                    self.server.end_search(*began);
                    let found = Found {
                        since: now,
                        usual: None,
                        changed: 0,
                    };
                    Some((Some(Phase::Found(found)), limit))
                }
            },
        };
        let (phase, limit) = next.unwrap_or((None, self.limit));
        if let Some(phase) = phase {
            self.phase = phase;
        }
        let others = (limit != self.limit).then(|| self.flights.last());
        self.limit = limit;
        self.begin_epoch(now, others);
    }

    /// Begins a search if it is wanted and no other pool of the server searches.
    fn search_if(&self, wanted: bool, now: Instant) -> Option<(Option<Phase>, usize)> {
        if !wanted || !self.server.begin_search(now) {
            return None;
        }
        let search = Search::new(self.connections_max);
        let first = search.trying();
        Some((Some(Phase::Search(now, search)), first))
    }
}

impl Found {
    /// Whether several successive epochs have differed from the usual.
    fn has_changed(&mut self, measured: &Measurement) -> bool {
        let usual = self.usual.get_or_insert(*measured);
        let far = |a: f64, b: f64| (a / b).ln().abs() > CHANGED_BY;
        let differs = far(measured.power, usual.power) || far(measured.load, usual.load);
        if differs {
            self.changed += 1;
        } else {
            self.changed = 0;
            usual.power += (measured.power - usual.power) / USUAL_OF;
            usual.load += (measured.load - usual.load) / USUAL_OF;
        }
        self.changed >= CHANGED_FOR
    }
}
