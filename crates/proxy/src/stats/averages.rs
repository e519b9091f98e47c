//! Averages over the last one to two periods (`stats_period`), as PgBouncer has them: a mark is set when a period begins, and
//! what has come since the mark before the last is divided by the time since then.

use super::totals::{PER, Per};
use super::{Totals, micros};
use crate::pool::Pool;
use crate::proxy::Proxy;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A period is no shorter than this, whatever the configuration says.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// What a pool had counted when the last two periods began.
#[derive(Debug, Default)]
pub(super) struct Marks {
    older: Totals,
    newer: Totals,
}

/// When they began; the same for all pools.
#[derive(Debug)]
pub(crate) struct Periods(Mutex<Stamps>);

#[derive(Debug, Clone, Copy)]
struct Stamps {
    older: Instant,
    newer: Instant,
}

impl Periods {
    /// The first one begins.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Stamps {
            older: now,
            newer: now,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Stamps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If the period is over, another one begins. Returns the averages of the one that is over.
    pub(crate) fn turn(
        &self,
        now: Instant,
        period: Duration,
        pools: &[Arc<Pool>],
    ) -> Option<Totals> {
        let mut stamps = self.lock();
        let passed = now.saturating_duration_since(stamps.newer);
        if passed < period.max(PERIOD_MIN) {
            return None;
        }
        let mut came = Totals::default();
        stamps.older = std::mem::replace(&mut stamps.newer, now);
        for pool in pools {
            let totals = pool.totals();
            let mut marks = pool.stats.lock_marks();
            came += totals.since(&marks.newer);
            marks.older = std::mem::replace(&mut marks.newer, totals);
        }
        Some(average(&came, passed))
    }

    /// The averages of these pools together.
    pub(crate) fn averages(&self, now: Instant, pools: &[Arc<Pool>]) -> Totals {
        // Held, so that no period begins between one pool and the next.
        let stamps = self.lock();
        let (mut all, mut earlier) = (Totals::default(), Totals::default());
        for pool in pools {
            all += pool.totals();
            earlier += pool.stats.lock_marks().older;
        }
        average(
            &all.since(&earlier),
            now.saturating_duration_since(stamps.older),
        )
    }
}

impl super::Stats {
    fn lock_marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came in a time, as averages.
pub(super) fn average(came: &Totals, within: Duration) -> Totals {
    let mut average = *came;
    for (value, per) in average.values.iter_mut().zip(PER) {
        *value = match per {
            Per::Second => per_second(*value, within),
            Per::Transaction => value.checked_div(came.transactions()).unwrap_or(0),
            Per::Query => value.checked_div(came.queries()).unwrap_or(0),
            Per::Wait => value.checked_div(came.waits).unwrap_or(0),
        };
    }
    average
}

fn per_second(count: u64, within: Duration) -> u64 {
    let rate = u128::from(count) * 1_000_000 / u128::from(micros(within).max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

impl Proxy {
    /// Lets the next period of the averages begin when it is time.
    pub(crate) fn turn_period(&self) {
        let config = self.config();
        let period = config.paceline.operation.stats_period;
        let over = self.periods.turn(Instant::now(), period, &self.pools());
        if let Some(averages) = over.filter(|_| config.paceline.logging.log_stats) {
            tracing::info!("{averages}");
        }
    }
}
