//! Retries the first request of a relay if its plan no longer fits its table. The client must have received no
//! answer that a new execution could contradict.

use super::expect::StatementReply;
use bytes::BytesMut;
use paceline_wire::backend::tag;

/// Whether the relay's first request may be retried.
#[derive(Debug, Default)]
pub(super) enum Retry {
    /// It may not.
    #[default]
    No,
    /// It may. The client has received `answered` answers about names of statements.
    Allowed { answered: usize },
    /// It must be. The server skips the rest of it.
    Due { answered: usize },
    /// It must be. The server is ready for it.
    Ready { answered: usize },
    /// It is being retried. The next `replies` answers about names, and the next `messages` messages about names, repeat
    /// earlier ones.
    Running { replies: usize, messages: usize },
}

impl Retry {
    /// Writes an answer about the name of a statement, unless the client has it.
    pub(super) fn reply(&mut self, reply: StatementReply, to_client: &mut BytesMut) {
        match self {
            Self::Running {
                replies: replies @ 1..,
                ..
            } if reply.is_preliminary() => {
                *replies -= 1;
                return;
            }
            Self::Allowed { answered } if reply.is_preliminary() => *answered += 1,
            Self::Allowed { .. } => *self = Self::No,
            _ => {}
        }
        reply.write(to_client);
    }

    /// A message of this kind is forwarded to the client.
    pub(super) fn forwarded(&mut self, kind: u8) {
        if !matches!(
            kind,
            tag::NOTICE_RESPONSE | tag::PARAMETER_STATUS | tag::NOTIFICATION_RESPONSE
        ) {
            self.answered();
        }
    }

    /// The client has received a part of an answer.
    pub(super) fn answered(&mut self) {
        if let Self::Allowed { .. } = self {
            *self = Self::No;
        }
    }

    /// Whether a message about a name repeats an earlier one.
    pub(super) fn renews(&mut self) -> bool {
        let Self::Running {
            messages: messages @ 1..,
            ..
        } = self
        else {
            return false;
        };
        *messages -= 1;
        true
    }

    /// The plan of the request no longer fits.
    pub(super) fn is_due(&mut self) {
        if let Self::Allowed { answered } = *self {
            *self = Self::Due { answered };
        }
    }

    /// The server is ready again. Returns whether the request is to be retried.
    pub(super) fn begins(&mut self) -> bool {
        let Self::Due { answered } = *self else {
            return false;
        };
        *self = Self::Ready { answered };
        true
    }
}
