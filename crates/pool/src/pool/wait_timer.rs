//! The task that watches the time while requests wait: further connections are opened, and waits end.

use super::{Inner, Pool, PoolState, Waiter};
use crate::clock;
use crate::messages;
use paceline_config::PoolSettings;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A further connection is opened when a request could have started for this long: about the time that opening takes. (Or when
/// shorter waits add up: see [`WaitSum`](super::wait_sum::WaitSum).) Connections are opened one at a time, so that a burst leaves no
/// more of them than it needed.
const GROW_AFTER: Duration = Duration::from_millis(5);

/// Maximum number of requests among which one that is not grouped is looked for.
pub(super) const LOOK_AHEAD: usize = 64;

/// Maximum time between two looks at the line.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The same if time-outs are short.
const LOOK_OFTEN: Duration = Duration::from_millis(50);

impl Pool {
    /// Starts the timer if requests wait and it does not run; wakes it if something is due earlier.
    pub(super) fn start_timer(self: &Arc<Self>, inner: &mut Inner) {
        if inner.line.is_empty() {
            return;
        }
        if !std::mem::replace(&mut inner.timer.runs, true) {
            tokio::spawn(run(Arc::clone(self)));
        } else if inner
            .line
            .due()
            .is_some_and(|due| due < inner.timer.wakes_at)
        {
            self.signals.look_again.notify_one();
        }
    }

    /// Does what is due, and returns the time of the next look. `None`: no request waits.
    pub(super) fn tick(self: &Arc<Self>) -> Option<Instant> {
        let (now, settings) = (clock::now(), self.settings());
        let mut inner = self.lock();
        let late = inner.line.tick(now);
        self.answer_late(late);
        self.expire(&mut inner, &settings, now);
        self.give_up_failover(&mut inner, now);
        inner.notify_queued(&settings, now);
        // Requests that waited for further group members may start now.
        self.dispatch(&mut inner, now);
        self.grow_for_waits(&mut inner, now);
        if inner.line.is_empty() {
            inner.timer.runs = false;
            inner.servers.starving = None;
            return None;
        }
        let mut wake = now + look_every(&settings);
        let open_max = inner.open_max_now(&settings, now);
        if inner.admin.state == PoolState::Active && inner.servers.open < open_max {
            let due = inner.grows_at().unwrap_or(now + GROW_AFTER);
            let due = due.max(inner.servers.grow_not_before);
            if due <= now && inner.servers.may_open(now) {
                self.grow(&mut inner);
            }
            wake = wake.min(due.max(now + GROW_AFTER));
        }
        let no_primary = inner.servers.no_primary;
        // In a paused pool, requests wait for longer.
        if let Some(no_primary) = no_primary.filter(|none| none.until > now) {
            wake = wake.min(no_primary.until);
        }
        wake = inner
            .wait_ends_at(&settings, now)
            .map_or(wake, |end| end.min(wake));
        inner.timer.wakes_at = inner.line.due().map_or(wake, |due| due.min(wake));
        Some(inner.timer.wakes_at)
    }

    /// Rejects requests that have waited for `query_wait_timeout`.
    fn expire(&self, inner: &mut Inner, settings: &PoolSettings, now: Instant) {
        if inner.admin.state == PoolState::Suspended {
            return;
        }
        let limit = settings.timeouts.query_wait_timeout;
        let Some(deadline) = now.checked_sub(limit).filter(|_| !limit.is_zero()) else {
            return;
        };
        let late = inner.line.expire(now, deadline);
        if late.is_empty() {
            return;
        }
        let servers = &inner.servers;
        let detail = match (servers.no_primary, &servers.backoff) {
            (Some(none), _) => messages::without_primary(now.duration_since(none.since)),
            (None, Some(backoff)) => {
                format!("The server was away for {limit:?}: {}.", backoff.why)
            }
            (None, None) => format!("No server connection was free for {limit:?}."),
        };
        self.reject(late, &messages::query_wait_timeout(detail));
    }
}

impl Inner {
    /// The time at which a request has waited long enough for a further connection.
    fn grows_at(&self) -> Option<Instant> {
        let alone = self.line.oldest_ready_alone(LOOK_AHEAD);
        // Groups that the limit holds back need no connection.
        let may_start = !self.line.group_limit().is_reached();
        let grouped = self.line.oldest_ready().filter(|_| may_start);
        let first = alone.into_iter().chain(grouped).min();
        first.map(|since| since + GROW_AFTER)
    }

    /// Sends a NOTICE to clients that have waited for `query_wait_notify`.
    fn notify_queued(&mut self, settings: &PoolSettings, now: Instant) {
        let limit = settings.timeouts.query_wait_notify;
        let Some(deadline) = now.checked_sub(limit).filter(|_| !limit.is_zero()) else {
            return;
        };
        if now < self.timer.notices_at {
            return;
        }
        self.timer.notices_at = now + look_every(settings);
        self.line.late_mut(deadline).for_each(Waiter::send_queued);
    }

    /// The time at which the request that could have started first reaches the next limit.
    fn wait_ends_at(&self, settings: &PoolSettings, now: Instant) -> Option<Instant> {
        let since = self.line.oldest_ready()?;
        let ends = wait_limits(settings).map(|limit| since + limit);
        ends.filter(|end| *end > now).min()
    }
}

/// Times after which a wait ends or allows something further.
fn wait_limits(settings: &PoolSettings) -> impl Iterator<Item = Duration> {
    let reserve = match settings.reserve_size {
        0 => Duration::ZERO,
        _ => settings.pooling.reserve_pool_timeout,
    };
    let limits = [
        settings.timeouts.query_wait_timeout,
        settings.timeouts.query_wait_notify,
        reserve,
    ];
    limits.into_iter().filter(|limit| !limit.is_zero())
}

/// Maximum time between two looks at the line under these settings.
fn look_every(settings: &PoolSettings) -> Duration {
    match wait_limits(settings).any(|limit| limit < LOOK_EVERY * 2) {
        true => LOOK_OFTEN,
        false => LOOK_EVERY,
    }
}

/// Runs until no request waits.
async fn run(pool: Arc<Pool>) {
    while let Some(wake) = pool.tick() {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(wake.into()) => {}
            () = pool.signals.look_again.notified() => {}
        }
    }
}
