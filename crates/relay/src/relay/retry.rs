//! Whether the first unit of a relay is carried out once more.

use super::expect::Says;
use bytes::BytesMut;
use paceline_wire::backend::tag;

/// May the relay's first unit be carried out once more?
#[derive(Debug, Default)]
pub(super) enum Repeat {
    /// No.
    #[default]
    No,
    /// Yes: the client has been told only so many times that names are taken.
    Open { told: usize },
    /// It must be: the rest of it is being skipped.
    Due { told: usize },
    /// The server is ready for it.
    Ready { told: usize },
    /// It is under way: so many answers about names have been told already, and belong to so many of its messages.
    Again { mute: usize, renew: usize },
}

impl Repeat {
    /// The client is told what became of a name.
    pub(super) fn tell(&mut self, says: Says, to_client: &mut BytesMut) {
        match self {
            Self::Again {
                mute: mute @ 1.., ..
            } if says.is_preliminary() => {
                *mute -= 1;
                return;
            }
            Self::Open { told } if says.is_preliminary() => *told += 1,
            Self::Open { .. } => *self = Self::No,
            _ => {}
        }
        says.write(to_client);
    }

    /// A message of this kind goes to the client.
    pub(super) fn passes(&mut self, kind: u8) {
        if !matches!(
            kind,
            tag::NOTICE_RESPONSE | tag::PARAMETER_STATUS | tag::NOTIFICATION_RESPONSE
        ) {
            self.answered();
        }
    }

    /// The client has part of an answer.
    pub(super) fn answered(&mut self) {
        if let Self::Open { .. } = self {
            *self = Self::No;
        }
    }

    /// Is this message about a name one whose answer the client has?
    pub(super) fn renews(&mut self) -> bool {
        let Self::Again {
            renew: renew @ 1.., ..
        } = self
        else {
            return false;
        };
        *renew -= 1;
        true
    }

    /// It met a plan that no longer fits.
    pub(super) fn is_due(&mut self) {
        if let Self::Open { told } = *self {
            *self = Self::Due { told };
        }
    }

    /// The server is ready again; true: for it.
    pub(super) fn begins(&mut self) -> bool {
        let Self::Due { told } = *self else {
            return false;
        };
        *self = Self::Ready { told };
        true
    }
}
