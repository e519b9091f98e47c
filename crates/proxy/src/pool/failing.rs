//! A pool that has no server connection and could not open one. If the server cannot be reached, or takes no connections now,
//! clients wait in the line while attempts go on, one at a time. If it refuses the login, clients are told so at once.

use super::{Inner, Pool};
use crate::auth::Credential;
use crate::server::ServerError;
use bytes::{Bytes, BytesMut};
use paceline_wire::ErrorResponse;
use std::time::{Duration, Instant};

/// The time between the first attempt that failed and the next one. It doubles with each, up to `server_login_retry`: a server
/// that restarts is found again soon, one that stays away is not bothered.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The shortest time between two attempts, if `server_login_retry` is shorter.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(10);

/// What came of the last attempts.
#[derive(Debug)]
pub(super) struct Failing {
    /// What clients are told until the next attempt, if the server has refused the login.
    told: Option<Bytes>,
    /// The next attempt is not made before.
    pub(super) until: Instant,
    pause: Duration,
    /// For messages.
    pub(super) why: String,
}

impl Failing {
    /// After an attempt that failed at `now`, and what is known from the attempts before it.
    pub(super) fn after(
        before: Option<&Self>,
        error: &ServerError,
        retry: Duration,
        now: Instant,
    ) -> Self {
        let pause = match before {
            // Another attempt would only be refused again, and noted in the server's log.
            _ if error.is_final() => retry,
            None => FIRST_PAUSE.min(retry).max(PAUSE_MIN),
            Some(before) => (before.pause * 2).min(retry).max(PAUSE_MIN),
        };
        Self {
            told: error.is_final().then(|| cached(error)),
            until: now + pause,
            pause,
            why: error.to_string(),
        }
    }

    /// The server has refused the login: to wait is of no use.
    pub(super) fn is_final(&self) -> bool {
        self.told.is_some()
    }
}

fn cached(error: &ServerError) -> Bytes {
    let mut out = BytesMut::new();
    let message =
        format!("server login has been failing, cached error: {error} (server_login_retry)");
    ErrorResponse::fatal("08P01", message).write(&mut out);
    out.freeze()
}

impl Inner {
    /// What a client is told that comes now and needs a connection.
    pub(super) fn refusal(&self, now: Instant) -> Option<Bytes> {
        let failing = self.failing.as_ref().filter(|failing| now < failing.until);
        failing.and_then(|failing| failing.told.clone())
    }

    /// The next attempt may have another end than those that failed.
    pub(super) fn forget_failures(&mut self) {
        self.failing = None;
        self.grow_not_before = Instant::now();
    }
}

impl Pool {
    /// A client has shown this. What a server did not take before may have been something else.
    pub(crate) fn has_been_shown(&self, credential: &Credential) {
        if self.learned.learn(credential) {
            self.lock().forget_failures();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    const RETRY: Duration = Duration::from_millis(350);

    fn refused(sqlstate: &'static str) -> ServerError {
        let mut out = BytesMut::new();
        ErrorResponse::fatal(sqlstate, "no").write(&mut out);
        ServerError::Refused(out.freeze())
    }

    #[test]
    fn a_server_that_is_away_is_tried_less_and_less_often() {
        let now = Instant::now();
        let mut failing: Option<Failing> = None;
        for expected in [100, 200, 350, 350] {
            let error = ServerError::Io(io::ErrorKind::ConnectionRefused.into());
            let next = Failing::after(failing.as_ref(), &error, RETRY, now);
            assert_eq!(next.until - now, Duration::from_millis(expected));
            failing = Some(next);
        }
    }

    #[test]
    fn a_login_that_was_refused_is_not_tried_again_before_its_time() {
        let now = Instant::now();
        for (sqlstate, expected) in [
            ("28P01", 350),
            ("28000", 350),
            ("3D000", 350),
            ("53300", 100),
            ("57P03", 100),
        ] {
            let failing = Failing::after(None, &refused(sqlstate), RETRY, now);
            assert_eq!(
                failing.until - now,
                Duration::from_millis(expected),
                "{sqlstate}"
            );
        }
        let failing = Failing::after(None, &refused("28P01"), Duration::ZERO, now);
        assert_eq!(failing.until, now);
        let failing = Failing::after(None, &refused("57P03"), Duration::ZERO, now);
        assert_eq!(failing.until, now + PAUSE_MIN);
    }
}
