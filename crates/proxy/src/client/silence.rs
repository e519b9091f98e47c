//! A client that says nothing and holds no server: after `client_idle_timeout` its connection ends. Where nothing limits its
//! silence there is no watch and no timer; else one timer serves it for as long as it is connected, however often it speaks.

use super::End;
use bytes::{Bytes, BytesMut};
use paceline_wire::ErrorResponse;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// A limit of a client's silence.
#[derive(Debug, Clone, Copy)]
pub(super) struct SilenceMax {
    pub(super) time: Duration,
    /// The session's own limit, as PostgreSQL has it; else that of the configuration.
    pub(super) is_session: bool,
}

impl SilenceMax {
    /// The client has been silent for so long.
    pub(super) fn end(self) -> End {
        End::Told(match self.is_session {
            true => idle_session(),
            false => crate::trip::timed_out("client_idle_timeout"),
        })
    }
}

/// What PostgreSQL says to a session that is idle for longer than `idle_session_timeout`.
pub(super) fn idle_session() -> Bytes {
    let mut out = BytesMut::new();
    ErrorResponse::fatal(
        "57P05",
        "terminating connection due to idle-session timeout",
    )
    .write(&mut out);
    out.freeze()
}

/// Watches one client.
pub(super) struct Silence {
    limit: Duration,
    since: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl Silence {
    /// The client is silent from now on.
    pub(super) fn begin(watch: &mut Option<Box<Self>>, limit: Duration) {
        let now = Instant::now();
        match watch {
            _ if limit.is_zero() => *watch = None,
            Some(watch) => watch.begin_again(limit, now),
            None => {
                *watch = Some(Box::new(Self {
                    limit,
                    since: now,
                    alarm: Box::pin(tokio::time::sleep(limit)),
                }));
            }
        }
    }

    fn begin_again(&mut self, limit: Duration, now: Instant) {
        (self.limit, self.since) = (limit, now);
        // One that goes off too early is set again then.
        if now + limit < self.alarm.deadline() {
            self.alarm.as_mut().reset(now + limit);
        }
    }

    /// Returns when the client has been silent for too long; never without a watch.
    pub(super) async fn is_too_long(watch: &mut Option<Box<Self>>) {
        let Some(watch) = watch else {
            return std::future::pending().await;
        };
        loop {
            watch.alarm.as_mut().await;
            let end = watch.since + watch.limit;
            if Instant::now() >= end {
                return;
            }
            watch.alarm.as_mut().reset(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    const MINUTE: Duration = Duration::from_secs(60);
    const LONG: Duration = Duration::from_secs(3600);

    /// How long the client may be silent, if at all for an hour.
    async fn lasts(watch: &mut Option<Box<Silence>>) -> Option<Duration> {
        let begin = Instant::now();
        let end = timeout(LONG, Silence::is_too_long(watch)).await;
        end.ok().map(|()| begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn every_word_begins_the_silence_anew() {
        let mut watch = None;
        for _ in 0..3 {
            Silence::begin(&mut watch, MINUTE);
            advance(MINUTE / 2).await;
        }
        Silence::begin(&mut watch, MINUTE);
        let lasts = lasts(&mut watch).await.unwrap();
        assert!(
            lasts >= MINUTE && lasts < MINUTE + Duration::from_millis(10),
            "{lasts:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn another_limit_counts_from_the_next_word() {
        let mut watch = None;
        Silence::begin(&mut watch, MINUTE);
        Silence::begin(&mut watch, MINUTE / 4);
        let shorter = lasts(&mut watch).await.unwrap();
        assert!(shorter < MINUTE / 3, "{shorter:?}");
        Silence::begin(&mut watch, Duration::ZERO);
        assert_eq!(lasts(&mut watch).await, None);
    }
}
