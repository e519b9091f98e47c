//! Whether the first request of a relay is carried out once more.

use super::expect::{Expect, StatementReply};
use super::state::RelayState;
use bytes::BytesMut;
use paceline_wire::backend::{Status, tag};

/// May the relay's first request be carried out once more?
#[derive(Debug, Default)]
pub(super) enum Retry {
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

impl Retry {
    /// The client is told what became of a name.
    pub(super) fn reply(&mut self, reply: StatementReply, to_client: &mut BytesMut) {
        match self {
            Self::Again {
                mute: mute @ 1.., ..
            } if reply.is_preliminary() => {
                *mute -= 1;
                return;
            }
            Self::Open { told } if reply.is_preliminary() => *told += 1,
            Self::Open { .. } => *self = Self::No,
            _ => {}
        }
        reply.write(to_client);
    }

    /// A message of this kind goes to the client.
    pub(super) fn forwarded(&mut self, kind: u8) {
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

impl RelayState {
    /// The first request of the relay is there as a whole, and whoever calls can say it again.
    pub fn allow_retry(&mut self) {
        self.retry = Retry::Open { told: 0 };
    }

    /// The client says more than the first request.
    pub fn forbid_retry(&mut self) {
        self.retry.answered();
    }

    /// Must the first request be said again? Once.
    pub fn take_retry(&mut self) -> bool {
        let Retry::Ready { told } = self.retry else {
            return false;
        };
        self.retry = Retry::Again {
            mute: told,
            renew: told,
        };
        true
    }

    /// Nothing can have been done, and nothing has been told, neither now nor by an earlier description that the new rows would
    /// contradict; unless the request asks for a new one. (A procedure may have committed before it failed; and in a
    /// transaction that Paceline has begun, nothing but its end can follow.)
    pub(super) fn may_retry(&self) -> bool {
        let begins = match self.expect.front() {
            Some(Expect::Bind { described, .. }) => !described || self.expect.describe(),
            Some(Expect::Query { by_name, .. }) => *by_name,
            _ => false,
        };
        begins
            && !self.is_session_pooling()
            && self.status == Status::Idle
            && self.status_before == Status::Idle
            && matches!(self.retry, Retry::Open { .. })
    }
}
