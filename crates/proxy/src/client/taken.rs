//! The progress of a client through a request, as far as its answer depends on it.

use paceline_wire::frontend::tag;

/// The messages of a request that its client's task has taken from the buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Taken {
    /// All of them.
    #[default]
    All,
    /// The first ones; others follow.
    First,
    /// None: the request begins with a long message, which is relayed while it arrives.
    None,
}

impl Taken {
    /// For the first messages of a request that is relayed while it arrives.
    pub(super) fn of(messages: &[u8]) -> Self {
        match messages.first() {
            None => Self::None,
            // The request has no other message.
            Some(&tag::FUNCTION_CALL) => Self::All,
            Some(_) => Self::First,
        }
    }
}
