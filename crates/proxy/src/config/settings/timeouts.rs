//! How long anything may take.

use super::key::{Key, timeout};
use std::time::Duration;

/// How long anything may take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeouts {
    /// Longest wait of a unit for a server connection; zero is for ever.
    pub(crate) query_wait_timeout: Duration,
    /// A client that waits longer than this is told so; zero is never.
    pub(crate) query_wait_notify: Duration,
    /// Longest time that a server works for a client without a word from it; zero is for ever.
    pub(crate) query_timeout: Duration,
    /// Longest transaction; zero is for ever.
    pub(crate) transaction_timeout: Duration,
    /// Longest silence of a client inside a transaction; zero is for ever.
    pub(crate) idle_transaction_timeout: Duration,
    /// Longest silence of a client that holds no server; zero is for ever.
    pub(crate) client_idle_timeout: Duration,
    /// Longest time for connecting and logging in to the server; zero is for ever.
    pub(crate) server_connect_timeout: Duration,
    /// Longest pause between two attempts to open a connection while a pool has none.
    pub(crate) server_login_retry: Duration,
    /// A server connection of this age is closed as soon as no client uses it; zero: after its first use.
    pub(crate) server_lifetime: Duration,
    /// An unused server connection is closed after this time; zero is never.
    pub(crate) server_idle_timeout: Duration,
    /// A database that is not listed is forgotten after this time without clients and server connections; zero is never.
    pub(crate) autodb_idle_timeout: Duration,
    /// Longest time for a server to take note of a cancel request; zero is for ever.
    pub(crate) cancel_wait_timeout: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            query_wait_timeout: Duration::from_secs(120),
            query_wait_notify: Duration::from_secs(5),
            query_timeout: Duration::ZERO,
            transaction_timeout: Duration::ZERO,
            idle_transaction_timeout: Duration::ZERO,
            client_idle_timeout: Duration::ZERO,
            server_connect_timeout: Duration::from_secs(15),
            server_login_retry: Duration::from_secs(15),
            server_lifetime: Duration::from_secs(3600),
            server_idle_timeout: Duration::from_secs(600),
            autodb_idle_timeout: Duration::from_secs(3600),
            cancel_wait_timeout: Duration::from_secs(10),
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
        name: "query_wait_notify",
        meaning: "A client that waits longer than this for a server connection gets a NOTICE; 0 never does",
        kind: timeout(|settings| &mut settings.timeouts.query_wait_notify),
    },
    Key {
        name: "query_timeout",
        meaning: "A client whose query runs longer than this is disconnected, and the query cancelled; 0 is no limit",
        kind: timeout(|settings| &mut settings.timeouts.query_timeout),
    },
    Key {
        name: "transaction_timeout",
        meaning: "A client whose transaction lasts longer than this is disconnected; 0 is no limit",
        kind: timeout(|settings| &mut settings.timeouts.transaction_timeout),
    },
    Key {
        name: "idle_transaction_timeout",
        meaning: "A client that says nothing for this time inside a transaction is disconnected; 0 is no limit",
        kind: timeout(|settings| &mut settings.timeouts.idle_transaction_timeout),
    },
    Key {
        name: "client_idle_timeout",
        meaning: "A client that says nothing for this time outside a transaction is disconnected; 0 is no limit",
        kind: timeout(|settings| &mut settings.timeouts.client_idle_timeout),
    },
    Key {
        name: "server_connect_timeout",
        meaning: "Connecting and logging in to the server is given up after this time; 0 waits for ever",
        kind: timeout(|settings| &mut settings.timeouts.server_connect_timeout),
    },
    Key {
        name: "server_login_retry",
        meaning: "Longest pause between two attempts to open a connection while a pool has none; clients wait meanwhile. If the server refuses the login, clients that connect within this time get the server's error without another attempt. 0 is a pause of 10 ms, and another attempt for each client that connects after a refusal",
        kind: timeout(|settings| &mut settings.timeouts.server_login_retry),
    },
    Key {
        name: "server_lifetime",
        meaning: "Age from which a server connection is closed as soon as no client uses it; 0 closes each after its first use",
        kind: timeout(|settings| &mut settings.timeouts.server_lifetime),
    },
    Key {
        name: "server_idle_timeout",
        meaning: "A server connection unused for this time is closed; 0 keeps it",
        kind: timeout(|settings| &mut settings.timeouts.server_idle_timeout),
    },
    Key {
        name: "autodb_idle_timeout",
        meaning: "A database that is not listed (`*`) is forgotten, with its statistics, after this time without clients and server connections; 0 keeps it",
        kind: timeout(|settings| &mut settings.timeouts.autodb_idle_timeout),
    },
    Key {
        name: "cancel_wait_timeout",
        meaning: "A cancel request that the server has not taken after this time is given up; 0 waits for ever",
        kind: timeout(|settings| &mut settings.timeouts.cancel_wait_timeout),
    },
];
