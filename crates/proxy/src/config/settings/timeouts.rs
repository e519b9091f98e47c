//! How long anything may take.

use super::key::{Key, timeout};
use std::time::Duration;

/// How long anything may take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeouts {
    /// Longest wait of a unit for a server connection; zero is for ever.
    pub(crate) query_wait_timeout: Duration,
    /// Longest time for connecting and logging in to the server; zero is for ever.
    pub(crate) server_connect_timeout: Duration,
    /// An unused server connection is closed after this time; zero is never.
    pub(crate) server_idle_timeout: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            query_wait_timeout: Duration::from_secs(120),
            server_connect_timeout: Duration::from_secs(15),
            server_idle_timeout: Duration::from_secs(600),
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "query_wait_timeout",
        meaning: "A client that waits longer than this for a server connection is disconnected; 0 waits for ever",
        kind: timeout(|settings| &mut settings.timeouts.query_wait_timeout),
    },
    Key {
        name: "server_connect_timeout",
        meaning: "Connecting and logging in to the server is given up after this time; 0 waits for ever",
        kind: timeout(|settings| &mut settings.timeouts.server_connect_timeout),
    },
    Key {
        name: "server_idle_timeout",
        meaning: "A server connection unused for this time is closed; 0 keeps it",
        kind: timeout(|settings| &mut settings.timeouts.server_idle_timeout),
    },
];
