//! The load of all pools of one server together.
//!
//! PostgreSQL divides its cores among the statements that it executes: a pool with more groups in flight gets more of them, and
//! takes it from other pools. Each pool therefore seeks the limit that is best for all pools of the server, and only one of them
//! seeks at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After this time without an end, a search no longer keeps other pools from searching: its pool may have no requests any more.
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// The load of one server, which its pools share.
#[derive(Debug, Default)]
pub struct ServerLoad {
    requests: AtomicU64,
    /// Sum of the times for which requests were present, in nanoseconds.
    presence: AtomicU64,
    search: Mutex<Option<Instant>>,
}

/// Requests and times up to a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoadTotal {
    requests: u64,
    presence: u64,
}

impl ServerLoad {
    /// Adds requests that were served, and nanoseconds for which requests were present.
    pub(super) fn add(&self, requests: usize, presence: u64) {
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
        self.presence.fetch_add(presence, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> LoadTotal {
        LoadTotal {
            requests: self.requests.load(Ordering::Relaxed),
            presence: self.presence.load(Ordering::Relaxed),
        }
    }

    /// Begins a search at `now`, unless another pool searches.
    pub(super) fn begin_search(&self, now: Instant) -> bool {
        let mut search = self.lock();
        let is_free = search.is_none_or(|since| now.saturating_duration_since(since) >= SEARCH_MAX);
        if is_free {
            *search = Some(now);
        }
        is_free
    }

    /// Ends the search that began at this time.
    pub(super) fn end_search(&self, began: Instant) {
        let mut search = self.lock();
        if *search == Some(began) {
            *search = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoadTotal {
    /// Requests served since `before`, and the seconds for which requests were present.
    pub(super) fn since(&self, before: &Self) -> (f64, f64) {
        let requests = self.requests.saturating_sub(before.requests);
        let presence = self.presence.saturating_sub(before.presence);
        (requests as f64, presence as f64 / 1e9)
    }
}
