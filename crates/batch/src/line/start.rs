//! Requests that start at once on a free connection, without waiting in the line.

use super::{Line, WaitSpec, is_limited};
use crate::group_limit::FlightId;
use std::time::{Duration, Instant};

impl<T> Line<T> {
    /// Starts a request that arrives while a connection is free; `None` if it must wait. Its rows are in flight until
    /// [`Line::release_rows`], and its flight until [`Line::flight_ended`].
    pub fn start_at_once(&mut self, now: Instant, spec: &WaitSpec) -> Option<FlightId> {
        if !self.may_start_at_once(now, spec) {
            return None;
        }
        for key in spec.keys.as_slice() {
            self.begin_flight(now, *key);
        }
        Some(self.begin_group(now, spec.group, 1))
    }

    /// Whether [`Line::start_at_once`] would start the request.
    pub fn may_start_at_once(&mut self, now: Instant, spec: &WaitSpec) -> bool {
        let waits = self.limits.max_wait > Duration::ZERO && spec.group.is_some();
        let limited = is_limited(spec.group);
        let keys = spec.keys.as_slice();
        !waits
            && !self.has_next(now)
            && (!limited || self.group_limit.may_start(now))
            && !keys.iter().any(|key| self.rows.contains_key(key))
    }
}
