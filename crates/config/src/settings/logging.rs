//! The log: its destinations and its content.

use super::form::{choice, count, file, switch, text};
use super::key::section;
use crate::words::words;
use std::path::PathBuf;

/// The largest value of `verbose`, as in PgBouncer. From 2 on the log has everything.
const VERBOSE_MAX: usize = i32::MAX as usize;

words! {
    /// A facility of syslog.
    pub enum Facility {
        /// `user`
        User = "user",
        /// `daemon`
        Daemon = "daemon",
        /// `auth`
        Auth = "auth",
        /// `authpriv`
        AuthPriv = "authpriv",
        /// `local0`
        Local0 = "local0",
        /// `local1`
        Local1 = "local1",
        /// `local2`
        Local2 = "local2",
        /// `local3`
        Local3 = "local3",
        /// `local4`
        Local4 = "local4",
        /// `local5`
        Local5 = "local5",
        /// `local6`
        Local6 = "local6",
        /// `local7`
        Local7 = "local7",
    }
}

section! {
    /// The log.
    pub struct Logging {
        /// File to which the log is written, beside standard error; RELOAD and SIGHUP open it again; "" for none
        logfile: Option<PathBuf> = None, file(), pgbouncer("");
        /// Whether messages are also sent to the system's log (/dev/log)
        syslog: bool = false, switch(), pgbouncer("0");
        /// The name of the process in the system's log
        syslog_ident: String = "paceline".to_owned(), text(), pgbouncer("pgbouncer");
        /// The facility in the system's log
        syslog_facility: Facility = Facility::Daemon, choice::<Facility>(), pgbouncer("daemon");
        /// Log each login, and each new connection to a server
        log_connections: bool = true, switch(), pgbouncer("1");
        /// Log each connection that is closed, of clients and to servers, and why
        log_disconnections: bool = true, switch(), pgbouncer("1");
        /// Log the errors that Paceline itself sends to clients
        log_pooler_errors: bool = true, switch(), pgbouncer("1");
        /// Log statistics of all databases every stats_period
        log_stats: bool = true, switch(), pgbouncer("1");
        /// Log level: 0 is info, 1 debug, 2 and more trace; --log-level and PACELINE_LOG take precedence
        verbose: usize = 0, count("level", 0..=VERBOSE_MAX), pgbouncer("0");
    }
}

impl Facility {
    /// Its code (RFC 5424, section 6.2.1).
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::User => 1,
            Self::Daemon => 3,
            Self::Auth => 4,
            Self::AuthPriv => 10,
            Self::Local0 => 16,
            Self::Local1 => 17,
            Self::Local2 => 18,
            Self::Local3 => 19,
            Self::Local4 => 20,
            Self::Local5 => 21,
            Self::Local6 => 22,
            Self::Local7 => 23,
        }
    }
}

impl Logging {
    /// The same log is written to.
    pub fn writes_where(&self, other: &Self) -> bool {
        let parts = |logging: &Self| {
            let syslog = (logging.syslog_ident.clone(), logging.syslog_facility);
            (logging.logfile.clone(), logging.syslog.then_some(syslog))
        };
        parts(self) == parts(other)
    }
}
