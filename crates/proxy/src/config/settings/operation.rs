//! How the process runs.

use super::key::{Key, Kind, timeout};
use crate::config::duration::BareUnit;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time to poll: nobody sends statements that fast and waits for longer.
const BUSY_POLL_MAX: Duration = Duration::from_millis(1);

/// How the process runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    /// How long a shutdown waits for transactions in progress, or for clients; zero does not wait.
    pub(crate) shutdown_timeout: Duration,
    /// File with the process id; `None` for none.
    pub(crate) pidfile: Option<PathBuf>,
    /// The system's user that the process becomes, if root starts it; empty: it stays as it is.
    pub(crate) user: String,
    /// Threads for client and server sockets, 1 to 256.
    pub(crate) worker_threads: usize,
    /// How long the event loop asks for further messages before it sleeps, while that pays; zero is not at all.
    pub(crate) busy_poll: Duration,
    /// Users of the admin console who may do everything there.
    pub(crate) admin_users: Vec<String>,
    /// Users of the admin console who may look.
    pub(crate) stats_users: Vec<String>,
    /// How often averages begin anew; no less than a second.
    pub(crate) stats_period: Duration,
}

impl Default for Operation {
    fn default() -> Self {
        Self {
            shutdown_timeout: Duration::from_secs(10),
            pidfile: None,
            user: String::new(),
            worker_threads: 1,
            busy_poll: Duration::from_micros(100),
            admin_users: Vec::new(),
            stats_users: Vec::new(),
            stats_period: Duration::from_secs(60),
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "shutdown_timeout",
        meaning: "How long a shutdown waits, for transactions or for clients; 0 does not wait",
        kind: timeout(|settings| &mut settings.operation.shutdown_timeout),
    },
    Key {
        name: "pidfile",
        meaning: "File that holds the process id while Paceline runs; \"\" for none",
        kind: Kind::File(|settings| &mut settings.operation.pidfile),
    },
    Key {
        name: "user",
        meaning: "The system's user as whom the process runs, if root starts it. This user must be able to read the files that the configuration names, and to write logfile and pidfile; \"\" for the one who starts it",
        kind: Kind::Text(|settings| &mut settings.operation.user),
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
    Key {
        name: "busy_poll",
        meaning: "How long a thread without work asks for further messages before it sleeps, while that pays and nobody \
                  stands in line; 0 sleeps at once",
        kind: Kind::Time {
            bare: BareUnit::Microseconds,
            most: BUSY_POLL_MAX,
            field: |settings| &mut settings.operation.busy_poll,
        },
    },
    Key {
        name: "admin_users",
        meaning: "Who may do everything in the admin console, separated by commas",
        kind: Kind::Names(|settings| &mut settings.operation.admin_users),
    },
    Key {
        name: "stats_users",
        meaning: "Who may use the SHOW commands of the admin console, separated by commas",
        kind: Kind::Names(|settings| &mut settings.operation.stats_users),
    },
    Key {
        name: "stats_period",
        meaning: "How often the averages in the admin console begin anew; less than 1 is 1",
        kind: timeout(|settings| &mut settings.operation.stats_period),
    },
];
