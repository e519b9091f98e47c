//! The result of one probe of a host.

use crate::position::{Lsn, SystemId, Timeline};
use std::time::Duration;
use thiserror::Error;

/// The result of a probe, or of a request that told as much about the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The host answered.
    Answered(HostReport),
    /// It did not.
    Failed(ProbeError),
}

/// The answer of a host. `None` is unknown: the monitor's user may not read it, or the server does not have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostReport {
    /// `pg_is_in_recovery()`
    pub in_recovery: bool,
    /// Whether transactions are read only (`default_transaction_read_only`) although the server is not in recovery.
    pub read_only: bool,
    /// `pg_control_system()`
    pub system: Option<SystemId>,
    /// On a primary from the name of its current WAL file, on a replica the timeline that it receives.
    pub timeline: Option<Timeline>,
    /// The settings on which the text of an answer depends, with their values.
    pub answer_settings: Option<String>,
    /// `pg_current_wal_insert_lsn()`, on a primary.
    pub inserted: Option<Lsn>,
    /// `pg_current_wal_lsn()`, on a primary.
    pub written: Option<Lsn>,
    /// `pg_current_wal_flush_lsn()`, on a primary.
    pub flushed: Option<Lsn>,
    /// `pg_last_wal_receive_lsn()`, on a replica.
    pub received: Option<Lsn>,
    /// `pg_last_wal_replay_lsn()`, on a replica.
    pub replayed: Option<Lsn>,
    /// The time since the commit of the last transaction that the replica replayed.
    pub replay_age: Option<Duration>,
}

/// The reason why a host did not answer a probe.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// No server listens, or the connection was lost.
    #[error("the connection was refused or lost")]
    Refused,
    /// No answer in time.
    #[error("there was no answer in time")]
    TimedOut,
    /// Class 28 of the SQLSTATEs: the server is alive, but its state is unknown.
    #[error("the server rejected the login of the monitor")]
    LoginRefused,
    /// 57P03: starting up, or in recovery without hot standby.
    #[error("the server does not accept connections yet")]
    StartingUp,
    /// 57P01, 57P02: an administrator stops the server, or another process of it crashed.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// 53300: too many connections. The server is not ill.
    #[error("the server has no connection left")]
    Overloaded,
    /// 25006: the server rejects writes.
    #[error("the server rejected a write because it is read only")]
    ReadOnly,
    /// Another error, in the server's words.
    #[error("{0}")]
    Other(String),
}

impl ProbeError {
    /// The kind of an error that the server sent.
    #[must_use]
    pub fn from_sqlstate(sqlstate: &str, message: &str) -> Self {
        match sqlstate {
            "57P01" | "57P02" => Self::ShuttingDown,
            "57P03" if message.contains("shutting down") => Self::ShuttingDown,
            "57P03" => Self::StartingUp,
            "53300" => Self::Overloaded,
            "25006" => Self::ReadOnly,
            _ if sqlstate.starts_with("28") => Self::LoginRefused,
            _ => Self::Other(message.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqlstate_has_a_kind() {
        for (sqlstate, message, kind) in [
            ("57P01", "", ProbeError::ShuttingDown),
            (
                "57P03",
                "the database system is shutting down",
                ProbeError::ShuttingDown,
            ),
            (
                "57P03",
                "the database system is starting up",
                ProbeError::StartingUp,
            ),
            (
                "53300",
                "sorry, too many clients already",
                ProbeError::Overloaded,
            ),
            ("28P01", "", ProbeError::LoginRefused),
            ("28000", "", ProbeError::LoginRefused),
            ("25006", "", ProbeError::ReadOnly),
            ("XX000", "broken", ProbeError::Other("broken".to_owned())),
        ] {
            assert_eq!(ProbeError::from_sqlstate(sqlstate, message), kind);
        }
    }
}
