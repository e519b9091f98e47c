//! How the process runs.

use super::key::{Key, Kind, timeout};
use std::time::Duration;

/// How the process runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    /// How long a shutdown waits for transactions in progress; zero does not wait.
    pub(crate) shutdown_timeout: Duration,
    /// Threads for client and server sockets, 1 to 256.
    pub(crate) worker_threads: usize,
}

impl Default for Operation {
    fn default() -> Self {
        Self {
            shutdown_timeout: Duration::from_secs(10),
            worker_threads: 1,
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "shutdown_timeout",
        meaning: "How long a shutdown waits for transactions in progress; 0 does not wait",
        kind: timeout(|settings| &mut settings.operation.shutdown_timeout),
    },
    Key {
        name: "worker_threads",
        meaning: "Threads that serve client and server sockets",
        kind: Kind::Count {
            unit: "threads",
            limits: 1..=256,
            field: |settings| &mut settings.operation.worker_threads,
        },
    },
];
