//! The `[paceline]` table: checked values, and the list of keys that reads, shows and documents them. Each theme has a file,
//! in which an entry of `section!` declares a key; the documentation of that macro, in `key.rs`, describes an entry.

mod compression;
mod encryption;
pub(crate) mod form;
mod grouping;
pub(crate) mod key;
mod listening;
mod logging;
mod login;
mod operation;
mod pooling;
mod servers;
mod state;
mod tcp;
#[cfg(test)]
mod tests;
mod timeouts;
mod traces;

pub use compression::Compression;
pub use encryption::{Encryption, Side};
pub use grouping::Grouping;
pub use key::Table;
pub use listening::Listening;
pub(crate) use listening::PEER_ID_MAX;
pub use logging::{Facility, Logging};
pub use login::{AuthType, Login};
pub use operation::Operation;
pub(crate) use pooling::POOL_SIZE;
pub use pooling::{PoolMode, Pooling};
pub use servers::{Reads, ReplicasGone, Servers, Shards};
pub use state::{ListenLost, ListenMode, SessionState, State};
pub use tcp::Tcp;
pub use timeouts::Timeouts;
pub use traces::Traces;

use crate::error::ConfigProblem;
use crate::value::Written;
use std::sync::LazyLock;

/// One key of the `[paceline]` table.
pub type Key = key::Key<Settings>;

/// The keys of one theme.
#[derive(Debug)]
pub struct Section {
    /// Its heading in the documentation.
    pub heading: &'static str,
    /// Its keys.
    pub keys: Vec<Key>,
}

/// Puts the themes together, in the order of the documentation.
macro_rules! settings {
    ($( $(#[$about:meta])* $field:ident: $Section:ident, $heading:literal; )+) => {
        /// The `[paceline]` table, checked. The meaning of a key, its unit and its limits: [`keys`].
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Settings {
            $( $(#[$about])* pub $field: $Section, )+
        }

        $(
            impl AsRef<$Section> for Settings {
                fn as_ref(&self) -> &$Section {
                    &self.$field
                }
            }

            impl AsMut<$Section> for Settings {
                fn as_mut(&mut self) -> &mut $Section {
                    &mut self.$field
                }
            }
        )+

        static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
            vec![$( Section { heading: $heading, keys: $Section::keys() } ),+]
        });
    };
}

settings! {
    /// Addresses for clients and monitoring.
    listening: Listening, "Listening";
    /// The detection of lost connections by TCP.
    tcp: Tcp, "TCP";
    /// The authentication of clients.
    login: Login, "Login";
    /// TLS, towards clients and servers.
    encryption: Encryption, "TLS";
    /// Compression between two Pacelines.
    compression: Compression, "Compression";
    /// The number of connections, and how clients share them.
    pooling: Pooling, "Pooling";
    /// Limits of time.
    timeouts: Timeouts, "Timeouts";
    /// Session state that follows its client from server to server.
    state: State, "Session state";
    /// The grouping of statements.
    grouping: Grouping, "Grouping";
    /// Databases with several servers.
    servers: Servers, "Several servers";
    /// The log.
    logging: Logging, "The log";
    /// Traces of requests.
    traces: Traces, "Traces";
    /// The process.
    operation: Operation, "Operation";
}

/// The themes of the `[paceline]` table, in the order of the documentation.
pub fn sections() -> impl Iterator<Item = &'static Section> {
    SECTIONS.iter()
}

/// Every key of the `[paceline]` table, in the order of the documentation.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    sections().flat_map(|section| &section.keys)
}

/// The key called `name`.
pub(crate) fn key(name: &str) -> Result<&'static Key, ConfigProblem> {
    let named = keys().find(|key| key.name == name);
    named.ok_or_else(|| ConfigProblem::unknown_key(name, "paceline", keys().map(|key| key.name)))
}

/// Sets a key from `key=value`.
pub(crate) fn assign(settings: &mut Settings, assignment: &str) -> Result<(), ConfigProblem> {
    let (name, value) = assignment.split_once('=').ok_or(ConfigProblem::NoValue)?;
    key(name.trim())?.apply(settings, Written::Bare(value.trim()))
}
