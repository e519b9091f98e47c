//! The reason why the relay cannot process a message of the client now.

use crate::template::Unparsed;

/// The reason why the relay cannot process a message of the client now. The caller passes it again later.
#[derive(Debug)]
pub enum NotYet {
    /// This text must be parsed first. Nothing has been written.
    Unparsed(Unparsed),
    /// The server must describe a statement first.
    Describing,
    /// The shared connection must act first.
    Listening(ListenNeed),
}

impl From<Unparsed> for NotYet {
    fn from(unparsed: Unparsed) -> Self {
        Self::Unparsed(unparsed)
    }
}

/// The work of the shared connection before a message of the client is sent to its server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenNeed {
    /// Listen on these channels.
    pub channels: Vec<String>,
    /// Whether the transaction changes the client's channels.
    pub changes: bool,
}
