//! The counts of a pool for its limits of requests. The pools of replicas and shards count with the pool beside which they are.

use super::request_rate::RequestRate;
use crate::clock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The requests that wait, and the rate at which they begin.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    /// Requests in the lines.
    pub(super) in_line: AtomicUsize,
    /// Requests that wait for their turn.
    pub(super) throttled: AtomicUsize,
    /// Number of requests that were refused.
    pub(super) refused: AtomicU64,
    rate: Mutex<RequestRate>,
    /// The request that begins next holds this. The others wait in the order of their arrival.
    pub(super) first: tokio::sync::Mutex<()>,
}

impl Admissions {
    /// Begins a request if there are at most `per_second`; 0 is no limit.
    pub(super) fn begin(&self, per_second: usize) -> Result<(), Duration> {
        let Some(per_second) = limit(per_second) else {
            return Ok(());
        };
        self.rate().begin(clock::now(), per_second)
    }

    /// Counts requests that have begun without being asked for.
    pub(super) fn charge(&self, per_second: usize, requests: u64) {
        if let Some(per_second) = limit(per_second) {
            let requests = u32::try_from(requests).unwrap_or(u32::MAX);
            self.rate().charge(clock::now(), per_second, requests);
        }
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.in_line.load(Ordering::Relaxed) + self.throttled.load(Ordering::Relaxed)
    }

    fn rate(&self) -> MutexGuard<'_, RequestRate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit in the type of [`RequestRate`]; `None` without a limit.
fn limit(per_second: usize) -> Option<u32> {
    let limit = u32::try_from(per_second).unwrap_or(u32::MAX);
    (limit > 0).then_some(limit)
}
