//! How clients prove who they are.

use super::key::{Key, timeout};
use std::time::Duration;

/// How clients prove who they are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Login {
    /// Longest time for a client from connecting to the end of its login; zero is for ever.
    pub(crate) client_login_timeout: Duration,
}

impl Default for Login {
    fn default() -> Self {
        Self {
            client_login_timeout: Duration::from_secs(60),
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[Key {
    name: "client_login_timeout",
    meaning: "A client that has not logged in after this time is disconnected; 0 waits for ever",
    kind: timeout(|settings| &mut settings.login.client_login_timeout),
}];
