//! What of a session follows its client from server to server.

use super::key::{Key, Kind};

/// What of a session follows its client from server to server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// Most prepared statements kept on one server connection, 1 to 100,000.
    pub(crate) max_prepared_statements: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            max_prepared_statements: 200,
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[Key {
    name: "max_prepared_statements",
    meaning: "Most prepared statements kept on one server connection; the least recently used goes first",
    kind: Kind::Count {
        unit: "statements",
        limits: 1..=100_000,
        field: |settings| &mut settings.state.max_prepared_statements,
    },
}];
