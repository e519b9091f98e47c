//! The server's defaults for transactions, which a transaction has that Paceline begins later than its client.

use super::{ResultRows, ServerConn, ServerError};
use paceline_net::optional_timeout;
use paceline_relay::settings::read_milliseconds;
use std::time::Duration;

/// Defaults of the server for transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionDefaults {
    /// Whether `default_transaction_isolation` is READ COMMITTED.
    pub read_committed: bool,
    /// Whether `transaction_timeout` is set (PostgreSQL 17 and later).
    pub has_timeout: bool,
    /// `idle_in_transaction_session_timeout`; zero means none.
    pub idle_max: Duration,
}

const QUESTION: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
     pg_catalog.current_setting('default_transaction_isolation'), \
     pg_catalog.current_setting('transaction_timeout', true), \
     pg_catalog.current_setting('idle_in_transaction_session_timeout', true)";

impl ServerConn {
    /// Checks that the server of a database with several hosts is not a standby, within `limit`; zero means no limit. Also reads the
    /// defaults for transactions.
    ///
    /// # Errors
    /// [`ServerError::Standby`] if it is one, and others if it does not answer.
    pub(crate) async fn check_primary(&mut self, limit: Duration) -> Result<(), ServerError> {
        let asked = self.query(QUESTION);
        let answer = optional_timeout(limit, asked).await;
        let answer = answer.unwrap_or(Err(ServerError::Timeout(limit)))?;
        let defaults = answer.first().and_then(read).ok_or(ServerError::Standby)?;
        self.transaction_defaults = Some(defaults);
        Ok(())
    }
}

/// Reads the answer. `None`: the server is a standby.
fn read(rows: &ResultRows) -> Option<TransactionDefaults> {
    let [in_recovery, isolation, timeout, idle] = rows.first()?.as_slice() else {
        return None;
    };
    if in_recovery.as_deref() != Some("f") {
        return None;
    }
    let idle = idle.as_deref().unwrap_or("0");
    Some(TransactionDefaults {
        read_committed: isolation.as_deref() == Some("read committed"),
        has_timeout: timeout.as_deref().is_some_and(|timeout| timeout != "0"),
        idle_max: read_milliseconds(idle).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(values: [Option<&str>; 4]) -> ResultRows {
        vec![values.map(|value| value.map(str::to_owned)).to_vec()]
    }

    #[test]
    fn only_a_primary_has_defaults() {
        let values = |in_recovery| [Some(in_recovery), Some("read committed"), None, Some("0")];
        assert_eq!(read(&answer(values("t"))), None);
        let read = read(&answer(values("f"))).unwrap();
        assert!(read.read_committed && !read.has_timeout && read.idle_max.is_zero());
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
        assert!(!read.read_committed && read.has_timeout);
        assert_eq!(read.idle_max, Duration::from_millis(1_500));
    }
}
