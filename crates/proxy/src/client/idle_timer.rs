//! Limits the time that a client without a server connection may be idle (`client_idle_timeout`, `idle_session_timeout`; in a deferred
//! transaction `idle_transaction_timeout`, `idle_in_transaction_session_timeout`). Without a limit there is no timer; with one, the
//! client reuses a single timer for its whole connection.

use super::end::ClientEnd;
use bytes::Bytes;
use paceline_pool::messages;
use paceline_wire::ErrorResponse;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// A limit of the idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IdleLimit {
    pub(super) time: Duration,
    reason: IdleReason,
}

/// The setting that limits the idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleReason {
    /// `idle_session_timeout`
    Session,
    /// `client_idle_timeout`
    Client,
    /// `idle_transaction_timeout`
    Transaction,
    /// `idle_in_transaction_session_timeout`
    InTransaction,
}

impl IdleLimit {
    /// The shortest of these times that is not zero.
    pub(super) fn shortest<const N: usize>(limits: [(Duration, IdleReason); N]) -> Option<Self> {
        let limits = limits.into_iter().filter(|(time, _)| !time.is_zero());
        let shortest = limits.min_by_key(|(time, _)| *time);
        shortest.map(|(time, reason)| Self { time, reason })
    }

    /// The end of the connection when the limit is reached.
    pub(super) fn end(self) -> ClientEnd {
        ClientEnd::Error(match self.reason {
            IdleReason::Session => idle_session(),
            IdleReason::Client => messages::timed_out("client_idle_timeout"),
            IdleReason::Transaction => messages::timed_out("idle transaction timeout"),
            IdleReason::InTransaction => messages::fatal(&ErrorResponse::fatal(
                "25P03",
                "terminating connection due to idle-in-transaction timeout",
            )),
        })
    }
}

/// PostgreSQL's error for a session that is idle for longer than `idle_session_timeout`.
pub(super) fn idle_session() -> Bytes {
    messages::fatal(&ErrorResponse::fatal(
        "57P05",
        "terminating connection due to idle-session timeout",
    ))
}

/// The timer of one client.
pub(super) struct IdleTimer {
    limit: Duration,
    since: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl IdleTimer {
    /// Starts the idle time.
    pub(super) fn begin(timer: &mut Option<Box<Self>>, limit: Duration) {
        match timer {
            _ if limit.is_zero() => *timer = None,
            Some(timer) => timer.begin_again(limit, Instant::now()),
            None => {
                *timer = Some(Box::new(Self {
                    limit,
                    since: Instant::now(),
                    alarm: Box::pin(tokio::time::sleep(limit)),
                }));
            }
        }
    }

    fn begin_again(&mut self, limit: Duration, now: Instant) {
        (self.limit, self.since) = (limit, now);
        // A timer that fires too early is set again then.
        if now + limit < self.alarm.deadline() {
            self.alarm.as_mut().reset(now + limit);
        }
    }

    /// Returns when the limit is reached; without a timer, never.
    pub(super) async fn is_too_long(timer: &mut Option<Box<Self>>) {
        let Some(timer) = timer else {
            return std::future::pending().await;
        };
        loop {
            timer.alarm.as_mut().await;
            let end = timer.since + timer.limit;
            if Instant::now() >= end {
                return;
            }
            timer.alarm.as_mut().reset(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    const MINUTE: Duration = Duration::from_secs(60);
    const LONG: Duration = Duration::from_secs(3600);

    /// The time that the client may be idle; `None` if more than an hour.
    async fn lasts(timer: &mut Option<Box<IdleTimer>>) -> Option<Duration> {
        let begin = Instant::now();
        let end = timeout(LONG, IdleTimer::is_too_long(timer)).await;
        end.ok().map(|()| begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn each_message_restarts_the_idle_time() {
        let mut timer = None;
        for _ in 0..3 {
            IdleTimer::begin(&mut timer, MINUTE);
            advance(MINUTE / 2).await;
        }
        IdleTimer::begin(&mut timer, MINUTE);
        let lasts = lasts(&mut timer).await.unwrap();
        assert!(
            lasts >= MINUTE && lasts < MINUTE + Duration::from_millis(10),
            "{lasts:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_limit_applies_from_the_next_message() {
        let mut timer = None;
        IdleTimer::begin(&mut timer, MINUTE);
        IdleTimer::begin(&mut timer, MINUTE / 4);
        let shorter = lasts(&mut timer).await.unwrap();
        assert!(shorter < MINUTE / 3, "{shorter:?}");
        IdleTimer::begin(&mut timer, Duration::ZERO);
        assert_eq!(lasts(&mut timer).await, None);
    }
}
