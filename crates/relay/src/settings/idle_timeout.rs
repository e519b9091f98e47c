//! The client's own `idle_session_timeout`, and how the server displays it.

use std::time::Duration;

/// The client's setting of `idle_session_timeout`. Paceline enforces the limit. On an idle server connection the setting is
/// 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleTimeout {
    /// The client has set none. The server's default applies.
    NotSet,
    /// The client has set a value. Paceline must still ask the server for it in milliseconds.
    Unread,
    /// The value in force. Zero means no limit.
    Is(Duration),
}

impl IdleTimeout {
    pub(super) fn of(sql: Option<&String>) -> Self {
        let Some(sql) = sql else {
            return Self::NotSet;
        };
        let read = sql
            .strip_prefix(IDLE_TIMEOUT_READ)
            .and_then(|ms| ms.parse().ok());
        read.map_or(Self::Unread, |ms| Self::Is(Duration::from_millis(ms)))
    }
}

/// Prefix of the milliseconds that the server has returned for `idle_session_timeout`. It is not valid SQL: no client can
/// send it, and Paceline sends it to no server.
const IDLE_TIMEOUT_READ: &str = "idle for milliseconds: ";

/// The entry for an `idle_session_timeout` whose value the server has returned.
pub fn idle_timeout_sql(value: Duration) -> String {
    format!("{IDLE_TIMEOUT_READ}{}", value.as_millis())
}

/// Reads a duration as PostgreSQL displays it: a whole number and the largest unit that fits.
pub fn read_milliseconds(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit).map(Duration::from_millis)
}
