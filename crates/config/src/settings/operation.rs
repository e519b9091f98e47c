//! How the process runs.

use super::form::{Syntax, automatic, file, names, text, time, timeout};
use super::key::section;
use crate::duration::BareUnit;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time to poll: a client that sends statements that fast does not pause for longer.
const BUSY_POLL_MAX: Duration = Duration::from_millis(1);

/// Maximum number of threads that can be configured.
const WORKER_THREADS_MAX: usize = 256;

section! {
    /// How the process runs.
    pub struct Operation {
        /// How long a shutdown waits for transactions or for clients; 0 does not wait
        shutdown_timeout: Duration = Duration::from_secs(10), timeout();
        /// File that holds the process id while Paceline runs; "" for none
        pidfile: Option<PathBuf> = None, file(), needs_restart(), pgbouncer("");
        /// The operating system user as which the process runs if root starts it; must be able to read the files that
        /// the configuration names, and to write logfile and pidfile; "" does not change the user
        user: String = String::new(), text(), needs_restart(), pgbouncer("");
        /// Threads that serve client and server sockets; auto: 1 if the process may use fewer than 8 cores, else one for every
        /// two cores, at most 16
        worker_threads: Option<usize> = None, automatic("threads", 1..=WORKER_THREADS_MAX), needs_restart();
        /// How long an idle thread polls for messages before it sleeps, if messages arrive that fast and no request
        /// waits in the line; 0 sleeps at once
        busy_poll: Duration = Duration::from_micros(100), time(BareUnit::Microseconds, BUSY_POLL_MAX);
        /// Users who may run every command of the admin console, separated by commas
        admin_users: Vec<String> = Vec::new(), names(), pgbouncer("");
        /// Users who may run the SHOW commands of the admin console, separated by commas
        stats_users: Vec<String> = Vec::new(), names(), pgbouncer("");
        /// Period of the averages in the admin console and in the log; less than 1 is 1
        stats_period: Duration = Duration::from_secs(60), timeout(), pgbouncer_as(Syntax::Number, "60");
    }
}
