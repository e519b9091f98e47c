//! Groups in flight, and which of them count.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A group that takes less than this counts however short the others are: the resolution of the timers.
const OVERDUE_MIN: Duration = Duration::from_millis(5);

/// The time after which a group is overdue is not doubled beyond this.
const OVERDUE_MAX: Duration = Duration::from_secs(1);

/// Number of service times that are kept: templates whose groups take longer than those of others must not count as overdue.
const KINDS: usize = 16;

/// Weight of the past after each group, in the mean of the service times.
const PAST: f64 = 0.9;

/// Identifies a group in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightId(u64);

impl FlightId {
    /// For work that does not count.
    pub const UNCOUNTED: Self = Self(0);
}

#[derive(Debug)]
struct Flight {
    id: FlightId,
    /// The place of its service time.
    kind: usize,
    since: Instant,
    requests: usize,
    counts: bool,
}

impl Flight {
    /// The time at which it will have taken too long.
    fn overdue_at(&self, services: &[ServiceTime; KINDS]) -> Instant {
        let service = services.get(self.kind);
        self.since + service.map_or(OVERDUE_MIN, ServiceTime::overdue_after)
    }
}

/// Groups in flight, in the order in which they started.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flights: VecDeque<Flight>,
    last: u64,
    counted: usize,
    requests: usize,
    /// By kind: groups of one template and strategy have the same.
    services: [ServiceTime; KINDS],
}

/// Mean and mean deviation of the time from the start of a group to its end, in seconds. Each group counts with its requests: the
/// time of small groups says nothing about that of large ones.
///
/// The time of a group that is overdue does not count, because the group may have waited for a lock (Karn's algorithm). If the server
/// is slower than before, all groups are overdue: the time after which they are is doubled until one ends in time.
#[derive(Debug, Default)]
struct ServiceTime {
    mean: f64,
    deviation: f64,
    requests: f64,
    doublings: i32,
    /// Groups up to this one started before the last doubling. They do not cause another one.
    doubled_at: FlightId,
}

impl ServiceTime {
    fn add(&mut self, seconds: f64, requests: usize) {
        let requests = requests as f64;
        self.requests = self.requests * PAST + requests;
        let share = requests / self.requests;
        self.deviation += ((seconds - self.mean).abs() - self.deviation) * share;
        self.mean += (seconds - self.mean) * share;
        self.doublings = 0;
    }

    /// A group was overdue when it ended; `last` started last.
    fn add_overdue(&mut self, group: FlightId, last: FlightId) {
        if group > self.doubled_at && self.overdue_after() < OVERDUE_MAX {
            self.doublings += 1;
            self.doubled_at = last;
        }
    }

    /// The retransmission timeout of RFC 6298 for this mean and deviation.
    fn overdue_after(&self) -> Duration {
        let seconds = (self.mean + 4.0 * self.deviation).max(OVERDUE_MIN.as_secs_f64());
        Duration::from_secs_f64(seconds * 2_f64.powi(self.doublings))
    }
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Groups that count.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    /// Requests in flight.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    /// The group that started last.
    pub(super) fn last(&self) -> FlightId {
        FlightId(self.last)
    }

    /// A group has started. Groups of the same `kind` take about as long as one another.
    pub(super) fn start(&mut self, now: Instant, kind: u64, requests: usize) -> FlightId {
        let [kind, ..] = kind.to_le_bytes();
        self.last += 1;
        let id = FlightId(self.last);
        self.flights.push_back(Flight {
            id,
            kind: usize::from(kind) % KINDS,
            since: now,
            requests,
            counts: true,
        });
        self.counted += 1;
        self.requests += requests;
        id
    }

    /// Returns the number of its requests, or `None` if there is no such group.
    pub(super) fn end(&mut self, now: Instant, id: FlightId) -> Option<usize> {
        let place = self.flights.iter().position(|flight| flight.id == id)?;
        let flight = self.flights.remove(place)?;
        self.counted -= usize::from(flight.counts);
        self.requests -= flight.requests;
        let took = now.saturating_duration_since(flight.since);
        let last = self.last();
        if let Some(service) = self.services.get_mut(flight.kind) {
            match took < service.overdue_after() {
                true => service.add(took.as_secs_f64(), flight.requests),
                false => service.add_overdue(id, last),
            }
        }
        Some(flight.requests)
    }

    /// Groups that have taken too long do not count any more.
    pub(super) fn discount_overdue(&mut self, now: Instant) {
        let services = &self.services;
        for flight in &mut self.flights {
            if flight.overdue_at(services) <= now {
                self.counted -= usize::from(std::mem::take(&mut flight.counts));
            }
        }
    }

    /// The time at which the next group that counts will have taken too long.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        let counted = self.flights.iter().filter(|flight| flight.counts);
        counted
            .map(|flight| flight.overdue_at(&self.services))
            .min()
    }
}
