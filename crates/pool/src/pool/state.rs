//! The states of a pool and its clients after an operator's orders.

use crate::messages;
use bytes::Bytes;
use paceline_wire::ErrorResponse;

/// Whether transactions may begin in a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PoolState {
    /// Transactions may begin.
    #[default]
    Active,
    /// Requests wait; server connections are kept (SUSPEND).
    Suspended,
    /// Requests wait; server connections are closed (PAUSE).
    Paused,
    /// The process ends: requests in the line are rejected.
    ShuttingDown,
}

/// The clients of a pool that must disconnect when they are idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisconnectSignal {
    /// None.
    #[default]
    Stay,
    /// Clients without a server connection: the process waits for server connections.
    Closing,
    /// All clients: the process ends.
    ShutDown,
    /// All clients: the database was killed.
    Killed,
}

impl DisconnectSignal {
    /// The error that these clients get.
    pub fn message(self) -> Bytes {
        messages::fatal(&match self {
            Self::Killed => ErrorResponse::fatal("08P01", "database removed"),
            Self::Stay | Self::Closing | Self::ShutDown => ErrorResponse::fatal(
                "57P01",
                "terminating connection due to administrator command",
            ),
        })
    }
}

/// A statement that needs a database without other sessions; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ExclusiveUse;
