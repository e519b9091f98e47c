//! How TCP finds out that the other end of a connection is gone; PgBouncer's keys and defaults.

use super::key::{Key, Kind};
use crate::config::duration::BareUnit;
use std::time::Duration;

/// Linux takes no more (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`).
const KEEPALIVE_MAX: Duration = Duration::from_secs(32_767);

/// Of clients' and server connections over TCP, from when they are opened. Zero leaves a value to the system.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tcp {
    /// Whether the other end is asked for a sign of life where nothing is said.
    pub(crate) keepalive: bool,
    /// Signs of life that may stay away.
    pub(crate) keepcnt: usize,
    /// Silence before the first is asked for, in whole seconds.
    pub(crate) keepidle: Duration,
    /// Time between two, in whole seconds.
    pub(crate) keepintvl: Duration,
    /// Longest time for the other end to acknowledge what was sent.
    pub(crate) user_timeout: Duration,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            keepalive: true,
            keepcnt: 0,
            keepidle: Duration::ZERO,
            keepintvl: Duration::ZERO,
            user_timeout: Duration::ZERO,
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "tcp_keepalive",
        meaning: "TCP asks the other end of a silent connection for a sign of life, and ends it where none comes",
        kind: Kind::Switch(|settings| &mut settings.tcp.keepalive),
    },
    Key {
        name: "tcp_keepcnt",
        meaning: "So many signs of life may stay away; 0 leaves it to the system",
        kind: Kind::Count {
            unit: "probes",
            limits: 0..=127,
            field: |settings| &mut settings.tcp.keepcnt,
        },
    },
    Key {
        name: "tcp_keepidle",
        meaning: "Silence before the first sign of life is asked for, in whole seconds; 0 leaves it to the system",
        kind: Kind::Time {
            bare: BareUnit::Seconds,
            most: KEEPALIVE_MAX,
            field: |settings| &mut settings.tcp.keepidle,
        },
    },
    Key {
        name: "tcp_keepintvl",
        meaning: "Time between two signs of life, in whole seconds; 0 leaves it to the system",
        kind: Kind::Time {
            bare: BareUnit::Seconds,
            most: KEEPALIVE_MAX,
            field: |settings| &mut settings.tcp.keepintvl,
        },
    },
    Key {
        name: "tcp_user_timeout",
        meaning: "A connection whose other end does not acknowledge what was sent for this time is ended; 0 leaves it to the system",
        kind: Kind::Time {
            bare: BareUnit::Milliseconds,
            most: Duration::from_secs(24 * 3600),
            field: |settings| &mut settings.tcp.user_timeout,
        },
    },
];
