//! The `[paceline]` table: checked values, and a list of keys that reads, shows and documents each of them. A file per theme.

mod encryption;
mod grouping;
mod key;
mod listening;
mod logging;
mod login;
mod operation;
mod pooling;
mod protocols;
mod state;
mod tcp;
#[cfg(test)]
mod tests;
mod timeouts;

use super::error::Wrong;
use super::value::Written;
pub(crate) use encryption::{Encryption, Side, SslMode};
use grouping::Grouping;
pub(crate) use key::Key;
pub(super) use key::TIMEOUT_MAX;
pub(crate) use listening::Listening;
pub(super) use listening::PEER_ID_MAX;
pub(crate) use logging::Logging;
pub(crate) use login::{AuthType, Login};
use operation::Operation;
pub(crate) use pooling::PoolMode;
use pooling::Pooling;
pub(super) use pooling::{CONNECTIONS, POOL_PART, POOL_SIZE};
pub(crate) use protocols::Protocols;
pub(crate) use state::{ListenLost, State};
pub(super) use state::{listen_mode, session_state};
pub(crate) use tcp::Tcp;
use timeouts::Timeouts;

/// The `[paceline]` table, checked. What a key means, its unit and its limits: [`keys`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Settings {
    /// Where clients and monitoring connect.
    pub(crate) listening: Listening,
    /// How TCP finds out that the other end is gone.
    pub(crate) tcp: Tcp,
    /// How clients prove who they are.
    pub(crate) login: Login,
    /// TLS, towards clients and servers.
    pub(crate) encryption: Encryption,
    /// How many connections there may be, and how they are shared.
    pub(crate) pooling: Pooling,
    /// How long anything may take.
    pub(crate) timeouts: Timeouts,
    /// What of a session follows its client from server to server.
    pub(crate) state: State,
    /// What travels together.
    pub(crate) grouping: Grouping,
    /// What is logged, and where.
    pub(crate) logging: Logging,
    /// How the process runs.
    pub(crate) operation: Operation,
}

/// Every key of the `[paceline]` table, in the order of the documentation.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    let groups = [
        listening::KEYS,
        tcp::KEYS,
        login::KEYS,
        encryption::KEYS,
        pooling::KEYS,
        timeouts::KEYS,
        state::KEYS,
        grouping::KEYS,
        logging::KEYS,
        operation::KEYS,
    ];
    groups.into_iter().flatten()
}

/// Carries out `key=value`.
pub(super) fn assign(settings: &mut Settings, assignment: &str) -> Result<(), Wrong> {
    let (key, value) = assignment.split_once('=').ok_or(Wrong::NoValue)?;
    Key::named(key.trim())?.apply(settings, Written::Argument(value.trim()))
}
