//! Retries the first request of a relay if it met a plan that no longer fits its table. The client must have
//! received no answer that a new execution could contradict.

use super::expect::{Expect, StatementReply};
use super::state::RelayState;
use bytes::BytesMut;
use paceline_wire::backend::{Status, tag};

/// Whether the relay's first request may be retried.
#[derive(Debug, Default)]
pub(super) enum Retry {
    /// It may not.
    #[default]
    No,
    /// It may. The client has received `told` answers about names of statements.
    Open { told: usize },
    /// It must be. The server skips the rest of it.
    Due { told: usize },
    /// It must be. The server is ready for it.
    Ready { told: usize },
    /// It is being retried. The next `mute` answers about names, and the next `renew` messages about names,
    /// repeat earlier ones.
    Again { mute: usize, renew: usize },
}

impl Retry {
    /// Writes an answer about the name of a statement, unless the client has it.
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
        if let Self::Open { .. } = self {
            *self = Self::No;
        }
    }

    /// Whether a message about a name repeats an earlier one.
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

    /// The request met a plan that no longer fits.
    pub(super) fn is_due(&mut self) {
        if let Self::Open { told } = *self {
            *self = Self::Due { told };
        }
    }

    /// The server is ready again. Returns whether the request is to be retried.
    pub(super) fn begins(&mut self) -> bool {
        let Self::Due { told } = *self else {
            return false;
        };
        *self = Self::Ready { told };
        true
    }
}

impl RelayState {
    /// The first request is complete, and the caller can repeat it.
    pub fn allow_retry(&mut self) {
        self.retry = Retry::Open { told: 0 };
    }

    /// The client has sent more than the first request.
    pub fn forbid_retry(&mut self) {
        self.retry.answered();
    }

    /// Whether the caller must repeat the first request. True once.
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

    /// Whether the request has had no effect, and the client has received nothing that the new rows could
    /// contradict, neither now nor by an earlier description, unless the request asks for a new one. (A
    /// procedure may have committed before it failed. A transaction that Paceline began can only be ended.)
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
