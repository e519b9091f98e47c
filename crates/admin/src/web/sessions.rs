//! Sessions of browsers. A cookie names the session; each request that changes something also needs the session's second token, which
//! other pages cannot read. Time is an argument.

use paceline_pool::credentials::random;
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// Time without a request or an open event stream after which a session ends.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// Time after which a session ends in any case.
pub(super) const AGE_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Maximum number of sessions. A further login ends the session that was used least recently.
const SESSIONS_MAX: usize = 64;

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions(Vec<Session>);

struct Session {
    user: String,
    cookie: Token,
    request_token: Token,
    began: Instant,
    used: Instant,
}

/// A secret of 256 random bits, as 64 hexadecimal digits.
struct Token(String);

impl Token {
    fn new() -> io::Result<Self> {
        let mut text = String::new();
        for byte in random::<32>()? {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// Compares in constant time.
    fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// The properties of a session that a request may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionInfo {
    pub(super) user: String,
    /// The token that requests must repeat in a header.
    pub(super) request_token: String,
}

impl Sessions {
    /// Begins a session, and returns the value of its cookie.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub(super) fn begin(&mut self, now: Instant, user: &str) -> io::Result<String> {
        self.forget_ended(now);
        if self.0.len() >= SESSIONS_MAX {
            let oldest = self.0.iter().enumerate().min_by_key(|(_, one)| one.used);
            if let Some(index) = oldest.map(|(index, _)| index) {
                self.0.swap_remove(index);
            }
        }
        let session = Session {
            user: user.to_owned(),
            cookie: Token::new()?,
            request_token: Token::new()?,
            began: now,
            used: now,
        };
        let cookie = session.cookie.0.clone();
        self.0.push(session);
        Ok(cookie)
    }

    /// The session that the cookie names, which is used now.
    pub(super) fn touch(&mut self, now: Instant, cookie: &str) -> Option<SessionInfo> {
        self.forget_ended(now);
        // The search does not stop at the right session.
        let mut found = None;
        for session in &mut self.0 {
            if session.cookie.is(cookie) {
                found = Some(session);
            }
        }
        let session = found?;
        session.used = now;
        Some(SessionInfo {
            user: session.user.clone(),
            request_token: session.request_token.0.clone(),
        })
    }

    /// Ends the session that the cookie names.
    pub(super) fn end(&mut self, cookie: &str) {
        self.0.retain(|session| !session.cookie.is(cookie));
    }

    fn forget_ended(&mut self, now: Instant) {
        self.0.retain(|session| {
            now.saturating_duration_since(session.used) < IDLE_MAX
                && now.saturating_duration_since(session.began) < AGE_MAX
        });
    }
}

impl SessionInfo {
    /// Whether a request has repeated the session's token. Compares in constant time.
    pub(super) fn confirms(&self, given: &str) -> bool {
        self.request_token.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_names_one_session() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let ann = sessions.begin(now, "ann").unwrap();
        let bob = sessions.begin(now, "bob").unwrap();
        assert_eq!(ann.len(), 64);
        assert_eq!(sessions.touch(now, &ann).unwrap().user, "ann");
        assert_eq!(sessions.touch(now, &bob).unwrap().user, "bob");
        assert_eq!(sessions.touch(now, ""), None);
        assert_eq!(sessions.touch(now, &"0".repeat(64)), None);
        sessions.end(&ann);
        assert_eq!(sessions.touch(now, &ann), None);
        assert!(sessions.touch(now, &bob).is_some());
    }

    #[test]
    fn a_session_has_a_second_token_of_its_own() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let [ann, bob] = ["ann", "bob"].map(|user| {
            let cookie = sessions.begin(now, user).unwrap();
            (sessions.touch(now, &cookie).unwrap(), cookie)
        });
        assert!(ann.0.confirms(&ann.0.request_token));
        assert!(!ann.0.confirms(&bob.0.request_token));
        assert!(!ann.0.confirms(&ann.1));
        assert!(!ann.0.confirms(""));
    }

    #[test]
    fn a_session_ends_when_it_is_idle_or_old() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let idle = sessions.begin(start, "ann").unwrap();
        let used = sessions.begin(start, "ann").unwrap();
        let minutes = |count: u64| start + Duration::from_secs(60 * count);
        assert!(sessions.touch(minutes(29), &used).is_some());
        assert_eq!(sessions.touch(minutes(30), &idle), None);
        for quarter in 2..48 {
            assert!(sessions.touch(minutes(15 * quarter), &used).is_some());
        }
        assert_eq!(sessions.touch(minutes(12 * 60), &used), None);
    }

    #[test]
    fn a_login_too_many_ends_the_session_used_least_recently() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let second = |count: u64| start + Duration::from_secs(count);
        let first = sessions.begin(start, "ann").unwrap();
        let next = sessions.begin(second(1), "ann").unwrap();
        assert!(sessions.touch(second(2), &first).is_some());
        for count in 0..=SESSIONS_MAX as u64 - 2 {
            sessions.begin(second(3 + count), "bob").unwrap();
        }
        assert_eq!(sessions.touch(second(99), &next), None);
        assert!(sessions.touch(second(99), &first).is_some());
    }
}
