//! Time limits of a client that has a server connection: `query_timeout`, `transaction_timeout`, `idle_transaction_timeout`, and
//! the client's own `idle_session_timeout` while it keeps the server connection outside transactions. A relay without limits has
//! no timer; with limits it has one, which is set again only when it fires too early.

use paceline_pool::settings::SettingsInForce;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Deadline of a relay that no limit ends soon.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// The reason for the end of a client that keeps its server connection and exceeds its own `idle_session_timeout`.
pub(super) const IDLE_SESSION: &str = "idle-session timeout";

/// The event for which a relay waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelayPhase {
    /// The client, outside a transaction.
    Idle,
    /// The client, in a transaction.
    IdleInTransaction,
    /// The server, or the rest of a request that the client has begun to send.
    Running,
}

/// The timer of one relay.
pub(super) struct QueryTimers {
    settings: Arc<SettingsInForce>,
    phase: RelayPhase,
    /// Limit of the client's idle time; zero means none.
    idle_max: Duration,
    /// Start of the transaction, or of a request outside transactions.
    transaction_since: Instant,
    /// Number of transactions that had ended then.
    transactions_ended: u64,
    /// Start of the phase, or the client's last message in it.
    since: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl QueryTimers {
    /// For a relay that begins now; `None` if no limit applies.
    pub(super) fn of(settings: &Arc<SettingsInForce>) -> Option<Box<Self>> {
        Self::are_needed(settings).then(|| Self::new(settings))
    }

    /// Whether a limit applies to relays.
    pub(super) fn are_needed(settings: &SettingsInForce) -> bool {
        let limits = [
            settings.timeouts.query_timeout,
            settings.timeouts.transaction_timeout,
            settings.timeouts.idle_transaction_timeout,
        ];
        !limits.iter().all(Duration::is_zero)
    }

    /// For a relay whose client has an idle limit of its own.
    pub(super) fn new(settings: &Arc<SettingsInForce>) -> Box<Self> {
        let now = Instant::now();
        Box::new(Self {
            settings: Arc::clone(settings),
            phase: RelayPhase::Idle,
            idle_max: Duration::ZERO,
            transaction_since: now,
            transactions_ended: 0,
            since: now,
            alarm: Box::pin(tokio::time::sleep_until(now + FAR)),
        })
    }

    /// Sets the number of transactions that have ended. If it has changed, another transaction begins now: a client that sends
    /// requests ahead is never idle between two of them.
    pub(super) fn set_transactions_ended(&mut self, ended: u64) {
        if std::mem::replace(&mut self.transactions_ended, ended) != ended {
            self.transaction_since = Instant::now();
        }
    }

    /// Sets the event for which the relay waits. `client_active` says that the client has sent something since the last call; `idle_max`
    /// limits its idle time outside transactions.
    pub(super) fn set_phase(&mut self, phase: RelayPhase, client_active: bool, idle_max: Duration) {
        let limit_changed = std::mem::replace(&mut self.idle_max, idle_max) != idle_max;
        if phase == self.phase && !client_active && !limit_changed {
            return;
        }
        self.since = Instant::now();
        if self.phase == RelayPhase::Idle {
            self.transaction_since = self.since;
        }
        self.phase = phase;
        if let Some((end, _)) = self.end()
            && end < self.alarm.deadline()
        {
            self.alarm.as_mut().reset(end);
        }
    }

    /// The deadline, and PgBouncer's name for it.
    fn end(&self) -> Option<(Instant, &'static str)> {
        let Self {
            settings, since, ..
        } = self;
        let own = match self.phase {
            RelayPhase::Idle if self.idle_max.is_zero() => return None,
            RelayPhase::Idle => return Some((*since + self.idle_max, IDLE_SESSION)),
            RelayPhase::IdleInTransaction => (
                settings.timeouts.idle_transaction_timeout,
                "idle transaction timeout",
            ),
            RelayPhase::Running => (settings.timeouts.query_timeout, "query timeout"),
        };
        let whole = (settings.timeouts.transaction_timeout, "transaction timeout");
        let ends = [(*since, own), (self.transaction_since, whole)].into_iter();
        let ends = ends.filter(|(_, (limit, _))| !limit.is_zero());
        ends.map(|(since, (limit, why))| (since + limit, why))
            .min_by_key(|(end, _)| *end)
    }

    /// Returns the reason when the deadline has passed; without a timer, never.
    pub(super) async fn expired(timers: &mut Option<Box<Self>>) -> &'static str {
        let Some(timers) = timers else {
            return std::future::pending().await;
        };
        loop {
            timers.alarm.as_mut().await;
            let now = Instant::now();
            match timers.end() {
                Some((end, why)) if end <= now => return why,
                end => {
                    let end = end.map_or(now + FAR, |(end, _)| end);
                    timers.alarm.as_mut().reset(end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_config::Config;
    use tokio::time::{advance, timeout};

    const SECOND: Duration = Duration::from_secs(1);

    fn timers(timeouts: &str) -> Option<Box<QueryTimers>> {
        let text = format!("[paceline]\n{timeouts}\n[databases.app]\nprimary = \"postgres://db\"");
        let config = Config::from_toml(&text, "").unwrap();
        QueryTimers::of(&Arc::new(
            config.pool_settings(&config.databases["app"], "web").into(),
        ))
    }

    fn set_phase(timers: &mut Option<Box<QueryTimers>>, phase: RelayPhase) {
        timers
            .as_mut()
            .unwrap()
            .set_phase(phase, false, Duration::ZERO);
    }

    /// The reason for which the timer fires, and the seconds after which it does, if within half of `FAR`.
    async fn expired(timers: &mut Option<Box<QueryTimers>>) -> Option<(&'static str, u64)> {
        let begin = Instant::now();
        let why = timeout(FAR / 2, QueryTimers::expired(timers)).await.ok()?;
        Some((why, begin.elapsed().as_secs()))
    }

    #[test]
    fn a_relay_without_limits_has_no_timer() {
        assert!(timers("query_wait_timeout = 3\nclient_idle_timeout = 3").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_own_limit() {
        let mut timers = timers("query_timeout = 5\nidle_transaction_timeout = 7");
        set_phase(&mut timers, RelayPhase::Running);
        assert_eq!(expired(&mut timers).await, Some(("query timeout", 5)));
        set_phase(&mut timers, RelayPhase::IdleInTransaction);
        assert_eq!(
            expired(&mut timers).await,
            Some(("idle transaction timeout", 7))
        );
        set_phase(&mut timers, RelayPhase::Idle);
        assert_eq!(expired(&mut timers).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_is_timed_as_a_whole() {
        let mut timers = timers("transaction_timeout = 10\nquery_timeout = 8");
        for phase in [
            RelayPhase::Running,
            RelayPhase::IdleInTransaction,
            RelayPhase::Running,
        ] {
            set_phase(&mut timers, phase);
            advance(SECOND * 3).await;
        }
        assert_eq!(expired(&mut timers).await, Some(("transaction timeout", 1)));
        set_phase(&mut timers, RelayPhase::Idle);
        set_phase(&mut timers, RelayPhase::Running);
        assert_eq!(expired(&mut timers).await, Some(("query timeout", 8)));
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_several_requests_that_are_sent_ahead_is_timed() {
        let mut timers = timers("transaction_timeout = 10");
        for ended in 0..4 {
            timers.as_mut().unwrap().set_transactions_ended(ended);
            set_phase(&mut timers, RelayPhase::Running);
            advance(SECOND * 6).await;
        }
        assert_eq!(expired(&mut timers).await, Some(("transaction timeout", 4)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_keeps_its_server_has_an_idle_limit() {
        let mut timers = timers("query_timeout = 5");
        let idle = |timers: &mut Option<Box<QueryTimers>>| {
            timers
                .as_mut()
                .unwrap()
                .set_phase(RelayPhase::Idle, false, SECOND * 9);
        };
        idle(&mut timers);
        assert_eq!(expired(&mut timers).await, Some((IDLE_SESSION, 9)));
        set_phase(&mut timers, RelayPhase::Running);
        idle(&mut timers);
        assert_eq!(expired(&mut timers).await, Some((IDLE_SESSION, 9)));
        set_phase(&mut timers, RelayPhase::Idle);
        assert_eq!(expired(&mut timers).await, None);
    }

    /// A long COPY is not a query that hangs.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_keeps_sending_is_not_disconnected() {
        let mut timers = timers("query_timeout = 5");
        set_phase(&mut timers, RelayPhase::Running);
        for _ in 0..3 {
            advance(SECOND * 4).await;
            let running = timers.as_mut().unwrap();
            running.set_phase(RelayPhase::Running, true, Duration::ZERO);
        }
        assert_eq!(expired(&mut timers).await, Some(("query timeout", 5)));
    }
}
