//! Requests in the line, and groups that leave it.

use super::spec::WaitSpec;
use crate::group_limit::{FlightId, GroupsMax};
use std::time::{Duration, Instant};

/// Identifies a waiting request; its order is the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) u64);

/// A request in the line or in flight.
#[derive(Debug)]
pub struct WaitEntry<T> {
    /// Its place in the order of arrival.
    pub waiter: WaiterId,
    /// Its spec for the line.
    pub spec: WaitSpec,
    /// Time of arrival.
    pub arrived: Instant,
    /// The request.
    pub request: T,
    pub(super) timeout_starts: TimeoutStarts,
    /// The deadline under which the line files it.
    pub(super) deadline: Option<Instant>,
    /// Time of its last probe.
    pub(super) probed: Option<Instant>,
}

/// The requests that leave together: one is relayed unchanged, several are executed by the strategy of their group.
#[derive(Debug)]
pub struct Dispatch<T> {
    /// In order of arrival; never empty.
    pub entries: Vec<WaitEntry<T>>,
    /// To be passed to [`Line::flight_ended`](super::Line::flight_ended) when the connection is free again.
    pub flight: FlightId,
}

/// The next step of a free server connection.
#[derive(Debug)]
pub enum NextStep<T> {
    /// Executes these requests. Their rows are in flight until [`Line::release_rows`](super::Line::release_rows).
    Group(Dispatch<T>),
    /// ProbeSchedule these requests, which stay in the line.
    Probe(Vec<WaiterId>),
    /// Waits for the row lock of this request, which stays in the line. The row is in flight until
    /// [`Line::release_rows`](super::Line::release_rows).
    Lock(WaiterId),
}

/// Limits of a line.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum requests per group. For requests on several rows the limit applies to the number of rows.
    pub group_size_max: usize,
    /// Maximum requests per pipeline, in which each waits for the answers to those before it.
    pub pipeline_depth_max: usize,
    /// Maximum number of groups in flight (`max_groups_in_flight`).
    pub groups_max: GroupsMax,
    /// Maximum number of server connections.
    pub connections_max: usize,
    /// Time for which a ready write waits for group members (`hotspot_update_max_wait_time`).
    pub max_wait: Duration,
    /// Maximum wait for a row (`query_timeout`); zero is no limit.
    pub query_timeout: Duration,
}

/// Start of a request's limits, or an earlier time. When a limit seems to have expired, [`Line::time_out`](super::Line::time_out)
/// corrects the start by the time at which the row was in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeoutStarts {
    /// Time at which PostgreSQL alone would have started the statement.
    pub(super) begun: Option<Instant>,
    /// Whether `begun` needs no correction.
    pub(super) has_begun: bool,
    /// Start of the wait for the row.
    pub(super) blocked: Option<Instant>,
}

impl TimeoutStarts {
    /// `busy` is the time since which the row that the request waits for has been in flight, if it is.
    pub(super) fn correct(&mut self, now: Instant, busy: Option<Instant>) {
        let since = busy.unwrap_or(now);
        self.blocked = self.blocked.map(|blocked| blocked.max(since));
        if !self.has_begun {
            self.begun = self.begun.map(|begun| begun.max(since));
            self.has_begun = busy.is_some() && self.begun.is_some();
        }
    }
}
