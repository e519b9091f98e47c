//! Measures the throughput and the response times under a limit while it is in force.

use super::flights::FlightId;
use super::server_load::{LoadTotal, ServerLoad};
use std::time::{Duration, Instant};

/// Minimum length of an epoch in the first round of a search.
const LENGTH_MIN: Duration = Duration::from_millis(12);

/// After this time an epoch ends with less than it needs.
const LENGTH_MAX: Duration = Duration::from_millis(250);

/// Mean number of times that each present request must have been served.
const TURNS: f64 = 3.0;

/// The same for an epoch that is too long, or hopeless.
const TURNS_MIN: f64 = 2.5;

/// Minimum number of groups in an epoch, and how many more for each that may be in flight.
const GROUPS: (usize, usize) = (12, 2);

/// An epoch ends early if its power is less than this share of the best.
const HOPELESS: f64 = 0.25;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A time in which a limit is in force.
#[derive(Debug)]
pub(super) struct Epoch {
    /// Groups up to this one started under another limit; the epoch begins when they and one further group have ended.
    others: Option<FlightId>,
    groups: usize,
    requests: usize,
    in_flight: usize,
    /// Requests that wait or are in flight, and since when.
    present: usize,
    present_since: Instant,
    /// Nanoseconds in which requests were present, and their sum over the requests.
    busy: u64,
    area: u64,
    /// The requests that the pools of the server had served when the epoch began.
    before: LoadTotal,
    /// The time at which the last group ended, and the longest time between two ends.
    last_end: Instant,
    longest_pause: Duration,
}

/// The results of an epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measurement {
    /// Requests per second of all pools of the server, divided by their mean response time in seconds.
    pub(super) power: f64,
    /// Mean number of requests that wait or are in flight.
    pub(super) load: f64,
    /// Maximum number of groups in flight.
    pub(super) in_flight: usize,
}

impl Epoch {
    pub(super) fn new(now: Instant, in_flight: usize, before: LoadTotal) -> Self {
        Self {
            others: None,
            groups: 0,
            requests: 0,
            in_flight,
            present: 0,
            present_since: now,
            busy: 0,
            area: 0,
            before,
            last_end: now,
            longest_pause: Duration::ZERO,
        }
    }

    /// Begins the next epoch.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        in_flight: usize,
        others: Option<FlightId>,
        before: LoadTotal,
    ) {
        *self = Self {
            others,
            present: self.present,
            ..Self::new(now, in_flight, before)
        };
    }

    pub(super) fn in_flight(&mut self, groups: usize) {
        self.in_flight = self.in_flight.max(groups);
    }

    /// Takes note of the number of requests that are present. Returns for how many nanoseconds those before were, in sum.
    pub(super) fn set_present(&mut self, now: Instant, present: usize) -> u64 {
        let mut presence = 0;
        if self.present > 0 {
            let since = now.saturating_duration_since(self.present_since);
            let nanos = since.as_secs() * NANOS_PER_SECOND + u64::from(since.subsec_nanos());
            presence = self.present as u64 * nanos;
            self.busy += nanos;
            self.area += presence;
        }
        self.present = present;
        self.present_since = now;
        presence
    }

    /// Whether groups that started under another limit were in flight until now.
    pub(super) fn is_begun_by(&self, id: FlightId) -> bool {
        self.others.is_some_and(|others| id > others)
    }

    /// A group has ended.
    pub(super) fn group_ended(&mut self, now: Instant, requests: usize) {
        self.groups += 1;
        self.requests += requests;
        let pause = now.saturating_duration_since(self.last_end);
        self.longest_pause = self.longest_pause.max(pause);
        self.last_end = now;
    }

    /// The result, when the epoch is long enough for round number `rounds`. An epoch of which a pause takes the half is not: the
    /// server, or the machine, has stopped.
    pub(super) fn measured(
        &mut self,
        now: Instant,
        limit: usize,
        (rounds, best): (u32, f64),
        server: &ServerLoad,
    ) -> Option<Measurement> {
        let busy = Duration::from_nanos(self.busy);
        if self.others.is_some() || busy < LENGTH_MIN {
            return None;
        }
        let groups_min = GROUPS.0 + GROUPS.1 * limit.min(self.in_flight);
        let load = self.area as f64 / self.busy as f64;
        let turns = self.requests as f64 / load;
        let total = server.total();
        let (requests, presence) = total.since(&self.before);
        // Response time: presence divided by requests (Little's law).
        let power = requests * requests / (presence * busy.as_secs_f64());
        let complete = self.groups >= groups_min && turns >= TURNS && busy >= LENGTH_MIN * rounds;
        let cut = turns >= TURNS_MIN && (busy >= LENGTH_MAX || power < HOPELESS * best);
        if !complete && !cut {
            return None;
        }
        if self.longest_pause * 2 > busy && busy > LENGTH_MAX {
            self.begin(now, self.in_flight, None, total);
            return None;
        }
        Some(Measurement {
            power,
            load,
            in_flight: self.in_flight,
        })
    }
}
