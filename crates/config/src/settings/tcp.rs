//! How TCP detects that the other end of a connection is gone: PgBouncer's keys and defaults.

use super::form::{Syntax, count, switch, time};
use super::key::section;
use crate::duration::BareUnit;
use std::time::Duration;

/// Linux takes no more (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`).
const KEEPALIVE_MAX: Duration = Duration::from_secs(32_767);

section! {
    /// How TCP detects that the other end of a connection is gone.
    pub struct Tcp {
        /// Whether TCP sends keepalive probes on idle connections, and closes a connection whose peer does not answer them
        keepalive as "tcp_keepalive": bool = true, switch(), pgbouncer("1");
        /// Number of unanswered keepalive probes before the connection is closed; 0 uses the system default
        keepcnt as "tcp_keepcnt": usize = 0, count("probes", 0..=127), pgbouncer("0");
        /// Idle time before the first keepalive probe, in whole seconds; 0 uses the system default
        keepidle as "tcp_keepidle": Duration = Duration::ZERO, time(BareUnit::Seconds, KEEPALIVE_MAX),
            pgbouncer_as(Syntax::Number, "0");
        /// Time between two keepalive probes, in whole seconds; 0 uses the system default
        keepintvl as "tcp_keepintvl": Duration = Duration::ZERO, time(BareUnit::Seconds, KEEPALIVE_MAX),
            pgbouncer_as(Syntax::Number, "0");
        /// A connection whose other end does not acknowledge what was sent for this time is ended; 0 leaves it to the
        /// system
        user_timeout as "tcp_user_timeout": Duration = Duration::ZERO, time(BareUnit::Milliseconds, Duration::from_secs(24 * 3600)),
            pgbouncer_as(Syntax::Number, "0");
    }
}
