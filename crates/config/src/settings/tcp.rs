//! How TCP detects that the other end of a connection is gone: PgBouncer's keys and defaults.

use super::form::{Switch, count, time};
use super::key::section;
use crate::duration::BareUnit;
use std::time::Duration;

/// Linux takes no more (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`).
const KEEPALIVE_MAX: Duration = Duration::from_secs(32_767);

section! {
    /// How TCP detects that the other end of a connection is gone.
    pub struct Tcp {
        /// TCP asks the other end of a silent connection for a sign of life, and ends it where none comes
        keepalive as "tcp_keepalive": bool = true, Switch;
        /// So many signs of life may stay away; 0 leaves it to the system
        keepcnt as "tcp_keepcnt": usize = 0, count("probes", 0..=127);
        /// Silence before the first sign of life is asked for, in whole seconds; 0 leaves it to the system
        keepidle as "tcp_keepidle": Duration = Duration::ZERO, time(BareUnit::Seconds, KEEPALIVE_MAX);
        /// Time between two signs of life, in whole seconds; 0 leaves it to the system
        keepintvl as "tcp_keepintvl": Duration = Duration::ZERO, time(BareUnit::Seconds, KEEPALIVE_MAX);
        /// A connection whose other end does not acknowledge what was sent for this time is ended; 0 leaves it to the
        /// system
        user_timeout as "tcp_user_timeout": Duration = Duration::ZERO, time(BareUnit::Milliseconds, Duration::from_secs(24 * 3600));
    }
}
