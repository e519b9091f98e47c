//! Groups in flight, and which of them count.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A group that takes less than this counts however short the others are: the resolution of the timers.
const OVERDUE_MIN: Duration = Duration::from_millis(5);

/// Weight of the past after each group, in the mean of the service times.
const PAST: f64 = 0.9;

/// Identifies a group in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightId(u64);

impl FlightId {
    /// For work that does not count.
    pub const UNCOUNTED: Self = Self(0);
}

#[derive(Debug)]
struct Flight {
    id: FlightId,
    since: Instant,
    requests: usize,
    counts: bool,
}

/// Groups in flight, in the order in which they started.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flights: VecDeque<Flight>,
    last: u64,
    counted: usize,
    requests: usize,
    service: ServiceTime,
}

/// Mean and mean deviation of the time from the start of a group to its end, in seconds. Each group counts with its requests: the
/// time of small groups says nothing about that of large ones.
#[derive(Debug, Default)]
struct ServiceTime {
    mean: f64,
    deviation: f64,
    requests: f64,
}

impl ServiceTime {
    fn add(&mut self, seconds: f64, requests: usize) {
        let requests = requests as f64;
        self.requests = self.requests * PAST + requests;
        let share = requests / self.requests;
        self.deviation += ((seconds - self.mean).abs() - self.deviation) * share;
        self.mean += (seconds - self.mean) * share;
    }

    /// The retransmission timeout of RFC 6298 for this mean and deviation.
    fn overdue_after(&self) -> Duration {
        Duration::from_secs_f64(self.mean + 4.0 * self.deviation).max(OVERDUE_MIN)
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

    pub(super) fn start(&mut self, now: Instant, requests: usize) -> FlightId {
        self.last += 1;
        let id = FlightId(self.last);
        self.flights.push_back(Flight {
            id,
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
        self.service.add(took.as_secs_f64(), flight.requests);
        Some(flight.requests)
    }

    /// Groups that have taken too long do not count any more.
    pub(super) fn discount_overdue(&mut self, now: Instant) {
        let after = self.service.overdue_after();
        for flight in &mut self.flights {
            if now.saturating_duration_since(flight.since) < after {
                return;
            }
            self.counted -= usize::from(std::mem::take(&mut flight.counts));
        }
    }

    /// The time at which the next group that counts will have taken too long.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        let first = self.flights.iter().find(|flight| flight.counts)?;
        Some(first.since + self.service.overdue_after())
    }
}
