//! The server's defaults for transactions, which a transaction has that Paceline begins later than its client.

use paceline_relay::settings::read_milliseconds;
use std::time::Duration;

/// Defaults of the server for transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionDefaults {
    /// `default_transaction_isolation`
    pub isolation: DefaultIsolation,
    /// Whether `transaction_timeout` is set (PostgreSQL 17 and later).
    pub has_timeout: bool,
    /// `idle_in_transaction_session_timeout`; zero means none.
    pub idle_max: Duration,
}

/// The isolation level of a transaction that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultIsolation {
    /// READ COMMITTED
    ReadCommitted,
    /// SERIALIZABLE
    Serializable,
    /// Another level, or not known.
    Other,
}

impl DefaultIsolation {
    fn named(name: Option<&str>) -> Self {
        match name {
            Some("read committed") => Self::ReadCommitted,
            Some("serializable") => Self::Serializable,
            _ => Self::Other,
        }
    }
}

/// Asks for them, and whether the server is a standby.
pub(super) const QUESTION: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
     pg_catalog.current_setting('default_transaction_isolation'), \
     pg_catalog.current_setting('transaction_timeout', true), \
     pg_catalog.current_setting('idle_in_transaction_session_timeout', true)";

/// Reads the row of the answer. `None`: the server is a standby.
pub(super) fn read(row: &[Option<String>]) -> Option<TransactionDefaults> {
    let [in_recovery, isolation, timeout, idle] = row else {
        return None;
    };
    if in_recovery.as_deref() != Some("f") {
        return None;
    }
    let idle = idle.as_deref().unwrap_or("0");
    Some(TransactionDefaults {
        isolation: DefaultIsolation::named(isolation.as_deref()),
        has_timeout: timeout.as_deref().is_some_and(|timeout| timeout != "0"),
        idle_max: read_milliseconds(idle).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(values: [Option<&str>; 4]) -> [Option<String>; 4] {
        values.map(|value| value.map(str::to_owned))
    }

    #[test]
    fn only_a_primary_has_defaults() {
        let values = |in_recovery| [Some(in_recovery), Some("read committed"), None, Some("0")];
        assert_eq!(read(&answer(values("t"))), None);
        let read = read(&answer(values("f"))).unwrap();
        assert_eq!(read.isolation, DefaultIsolation::ReadCommitted);
        assert!(!read.has_timeout && read.idle_max.is_zero());
    }

    #[test]
    fn limits_and_isolation_are_read() {
        let values = [
            Some("f"),
            Some("repeatable read"),
            Some("1min"),
            Some("1500ms"),
        ];
        let read = read(&answer(values)).unwrap();
        assert_eq!(read.isolation, DefaultIsolation::Other);
        assert!(read.has_timeout);
        assert_eq!(read.idle_max, Duration::from_millis(1_500));
    }
}
