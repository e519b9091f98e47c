//! A pool that has no server connection and could not open one. If the server cannot be reached, or takes no connections now,
//! clients wait in the line, and Paceline tries again, one attempt at a time. If the server refuses the login, clients get the
//! error at once.

use crate::messages;
use crate::server::ServerError;
use bytes::Bytes;
use paceline_wire::ErrorResponse;
use std::time::{Duration, Instant};

/// Time between the first failed attempt and the next one. It doubles with each attempt, up to `server_login_retry`.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Minimum time between two attempts, if `server_login_retry` is shorter.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The failed attempts to open a first connection.
#[derive(Debug)]
pub(super) struct LoginBackoff {
    /// The error for clients until the next attempt, if the server has refused the login.
    pub(super) message: Option<Bytes>,
    /// The next attempt is made at this time.
    pub(super) until: Instant,
    pause: Duration,
    /// The last error.
    pub(super) why: String,
}

impl LoginBackoff {
    /// After an attempt that failed at `now`, and earlier ones.
    pub(super) fn after(
        before: Option<&Self>,
        error: &ServerError,
        retry: Duration,
        now: Instant,
    ) -> Self {
        let pause = match before {
            // Another attempt would be refused again, and logged by the server.
            _ if error.is_final() => retry,
            None => FIRST_PAUSE.min(retry).max(PAUSE_MIN),
            Some(before) => (before.pause * 2).min(retry).max(PAUSE_MIN),
        };
        Self {
            message: error.is_final().then(|| cached(error)),
            until: now + pause,
            pause,
            why: error.to_string(),
        }
    }

    /// The server has refused the login: clients do not wait for another attempt.
    pub(super) fn is_final(&self) -> bool {
        self.message.is_some()
    }
}

fn cached(error: &ServerError) -> Bytes {
    let message =
        format!("server login has been failing, cached error: {error} (server_login_retry)");
    messages::fatal(&ErrorResponse::fatal("08P01", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use std::io;

    const RETRY: Duration = Duration::from_millis(350);

    fn refused(sqlstate: &'static str) -> ServerError {
        let mut out = BytesMut::new();
        ErrorResponse::fatal(sqlstate, "no").write(&mut out);
        ServerError::Refused(out.freeze())
    }

    #[test]
    fn attempts_to_reach_a_server_become_rarer() {
        let now = Instant::now();
        let mut failing: Option<LoginBackoff> = None;
        for expected in [100, 200, 350, 350] {
            let error = ServerError::Io(io::ErrorKind::ConnectionRefused.into());
            let next = LoginBackoff::after(failing.as_ref(), &error, RETRY, now);
            assert_eq!(next.until - now, Duration::from_millis(expected));
            failing = Some(next);
        }
    }

    #[test]
    fn a_refused_login_is_not_repeated_too_early() {
        let now = Instant::now();
        for (sqlstate, expected) in [
            ("28P01", 350),
            ("28000", 350),
            ("3D000", 350),
            ("53300", 100),
            ("57P03", 100),
        ] {
            let failing = LoginBackoff::after(None, &refused(sqlstate), RETRY, now);
            assert_eq!(
                failing.until - now,
                Duration::from_millis(expected),
                "{sqlstate}"
            );
        }
        let failing = LoginBackoff::after(None, &refused("28P01"), Duration::ZERO, now);
        assert_eq!(failing.until, now);
        let failing = LoginBackoff::after(None, &refused("57P03"), Duration::ZERO, now);
        assert_eq!(failing.until, now + PAUSE_MIN);
    }
}
