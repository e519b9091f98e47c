//! Averages over the last one to two periods (`stats_period`), as in PgBouncer: the counts are stored when a period begins; the
//! difference to the counts of the period before is divided by the time since.

use super::Stats;
use super::counter::micros;
use super::marks::Marks;
use super::totals::Totals;
use super::totals::{PER, Per};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Minimum length of a period, whatever the configuration says.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// Beginnings of the last two periods, common to all pools.
#[derive(Debug)]
pub(crate) struct Periods(Mutex<Stamps>);

#[derive(Debug, Clone, Copy)]
struct Stamps {
    older: Instant,
    newer: Instant,
}

impl Periods {
    /// Begins the first period.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Stamps {
            older: now,
            newer: now,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Stamps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next period if the present one is over. Returns the averages of the one that is over.
    pub(crate) fn next_period(
        &self,
        now: Instant,
        period: Duration,
        pools: &[&Stats],
    ) -> Option<Totals> {
        let mut stamps = self.lock();
        let passed = now.saturating_duration_since(stamps.newer);
        if passed < period.max(PERIOD_MIN) {
            return None;
        }
        let mut delta = Totals::default();
        stamps.older = std::mem::replace(&mut stamps.newer, now);
        for pool in pools {
            let totals = pool.totals();
            let mut marks = pool.lock_marks();
            delta += totals.since(&marks.newer);
            marks.older = std::mem::replace(&mut marks.newer, totals);
        }
        Some(average(&delta, passed))
    }

    /// The averages of all these pools.
    pub(crate) fn averages(&self, now: Instant, pools: &[&Stats]) -> Totals {
        // Locked until the end, so that no period begins in between.
        let stamps = self.lock();
        let (mut all, mut earlier) = (Totals::default(), Totals::default());
        for pool in pools {
            all += pool.totals();
            earlier += pool.lock_marks().older;
        }
        average(
            &all.since(&earlier),
            now.saturating_duration_since(stamps.older),
        )
    }
}

impl Stats {
    fn lock_marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The averages of counts that were collected in this time.
pub(super) fn average(delta: &Totals, within: Duration) -> Totals {
    let mut average = *delta;
    for (value, per) in average.values.iter_mut().zip(PER) {
        *value = match per {
            Per::Second => per_second(*value, within),
            Per::Transaction => value.checked_div(delta.transactions()).unwrap_or(0),
            Per::Query => value.checked_div(delta.queries()).unwrap_or(0),
            Per::Wait => value.checked_div(delta.waits).unwrap_or(0),
        };
    }
    average
}

fn per_second(count: u64, within: Duration) -> u64 {
    let rate = u128::from(count) * 1_000_000 / u128::from(micros(within).max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
