//! Why a message of the client cannot be taken now.

use crate::template::Unparsed;

/// Why a message of the client cannot be taken now. It comes again.
#[derive(Debug)]
pub enum NotYet {
    /// A text must be parsed elsewhere first. Nothing has been written.
    Unparsed(Unparsed),
    /// The server describes a statement first.
    Describing,
    /// The shared connection must do this first.
    Listening(ListenNeed),
}

impl From<Unparsed> for NotYet {
    fn from(unparsed: Unparsed) -> Self {
        Self::Unparsed(unparsed)
    }
}

/// What the shared connection must do before a message of the client is sent to its server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenNeed {
    /// Listen on these channels.
    pub channels: Vec<String>,
    /// The transaction changes on what its client listens.
    pub changes: bool,
}
