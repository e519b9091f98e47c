//! Priorities of the system's log.

use tracing::Level;

/// The priority of a level (RFC 5424, section 6.2.1).
pub(super) fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}
