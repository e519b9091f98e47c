//! What is logged, and where.

use super::key::{Key, Kind};
use std::path::PathBuf;

/// The most that `verbose` may say, an `int` of PgBouncer's. From 2 on it logs everything.
const VERBOSE_MAX: usize = i32::MAX as usize;

/// Makes [`Facility`], so that each word is written once.
macro_rules! facilities {
    ($($name:ident = $code:literal, $word:literal;)*) => {
        /// A facility of syslog, with its code (RFC 5424, section 6.2.1).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Facility {
            $(#[doc = $word] $name = $code,)*
        }

        impl Facility {
            /// The words for `syslog_facility`.
            const WORDS: &[&str] = &[$($word),*];

            fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// `None`: there is no such word.
            fn named(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

facilities! {
    User = 1, "user";
    Daemon = 3, "daemon";
    Auth = 4, "auth";
    AuthPriv = 10, "authpriv";
    Local0 = 16, "local0";
    Local1 = 17, "local1";
    Local2 = 18, "local2";
    Local3 = 19, "local3";
    Local4 = 20, "local4";
    Local5 = 21, "local5";
    Local6 = 22, "local6";
    Local7 = 23, "local7";
}

/// What is logged, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logging {
    /// A file for the log, beside standard error.
    pub(crate) logfile: Option<PathBuf>,
    /// Log to the system's log, too.
    pub(crate) syslog: bool,
    /// The name of this process there.
    pub(crate) syslog_ident: String,
    /// The kind of program that it is there.
    pub(crate) syslog_facility: Facility,
    /// Log logins, and new connections to servers.
    pub(crate) log_connections: bool,
    /// Log why connections are closed.
    pub(crate) log_disconnections: bool,
    /// Log errors that Paceline itself sends to clients.
    pub(crate) log_pooler_errors: bool,
    /// Log statistics every `stats_period`.
    pub(crate) log_stats: bool,
    /// 0 logs what matters, 1 debugging, 2 and more everything.
    pub(crate) verbose: usize,
}

impl Facility {
    /// Its code.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

impl Logging {
    /// The same log is written to.
    pub(crate) fn writes_where(&self, other: &Self) -> bool {
        let parts = |logging: &Self| {
            let syslog = (logging.syslog_ident.clone(), logging.syslog_facility);
            (logging.logfile.clone(), logging.syslog.then_some(syslog))
        };
        parts(self) == parts(other)
    }
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            logfile: None,
            syslog: false,
            syslog_ident: "paceline".to_owned(),
            syslog_facility: Facility::Daemon,
            log_connections: true,
            log_disconnections: true,
            log_pooler_errors: true,
            log_stats: true,
            verbose: 0,
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "logfile",
        meaning: "File to which the log is written beside standard error; RELOAD and SIGHUP open it anew; \"\" for none",
        kind: Kind::File(|settings| &mut settings.logging.logfile),
    },
    Key {
        name: "syslog",
        meaning: "Write the log to the system's log (/dev/log), too",
        kind: Kind::Switch(|settings| &mut settings.logging.syslog),
    },
    Key {
        name: "syslog_ident",
        meaning: "The name of the process in the system's log",
        kind: Kind::Text(|settings| &mut settings.logging.syslog_ident),
    },
    Key {
        name: "syslog_facility",
        meaning: "The facility in the system's log",
        kind: Kind::Choice {
            among: Facility::WORDS,
            show: |settings| settings.logging.syslog_facility.word(),
            choose: |settings, word| {
                settings.logging.syslog_facility =
                    Facility::named(word).unwrap_or(Facility::Daemon);
            },
        },
    },
    Key {
        name: "log_connections",
        meaning: "Log each login, and each new connection to a server",
        kind: Kind::Switch(|settings| &mut settings.logging.log_connections),
    },
    Key {
        name: "log_disconnections",
        meaning: "Log each connection that is closed, of clients and to servers, and why",
        kind: Kind::Switch(|settings| &mut settings.logging.log_disconnections),
    },
    Key {
        name: "log_pooler_errors",
        meaning: "Log the errors that Paceline itself sends to clients",
        kind: Kind::Switch(|settings| &mut settings.logging.log_pooler_errors),
    },
    Key {
        name: "log_stats",
        meaning: "Log statistics of all databases every stats_period",
        kind: Kind::Switch(|settings| &mut settings.logging.log_stats),
    },
    Key {
        name: "verbose",
        meaning: "How much is logged: 0 is the level info, 1 debug, 2 and more trace; --log-level and PACELINE_LOG go before it",
        kind: Kind::Count {
            unit: "level",
            limits: 0..=VERBOSE_MAX,
            field: |settings| &mut settings.logging.verbose,
        },
    },
];
