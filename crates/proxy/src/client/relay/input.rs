//! Messages of the client on their way into a relay.

use bytes::{Bytes, BytesMut};
use paceline_cluster::SentAt;
use paceline_relay::relay::{ListenNeed, NotYet};
use paceline_relay::template::{Template, Unparsed};
use std::sync::Arc;

/// The work for which the client's next message must wait, apart from that of the server.
pub(super) enum Blocked {
    /// A text must be parsed in another thread.
    Parse(Unparsed),
    /// The shared LISTEN connection must do this.
    Listen(ListenNeed),
}

/// A request that the server has received, or a part of it. What the server has answered is in the connection's buffer.
pub(super) struct SentRequest {
    /// The messages for the server.
    pub(super) messages: BytesMut,
    /// Number of their bytes that were sent.
    pub(super) len: usize,
    /// The position of the primary that was known before that.
    pub(super) at: SentAt,
}

/// The rest of a message that is forwarded without reading it: CopyData, or the end of a long message.
#[derive(Default)]
pub(super) struct Body {
    /// Number of bytes that have not arrived yet.
    pub(super) left: usize,
    /// False if the bytes are dropped instead.
    pub(super) forwarded: bool,
}

/// Messages that have been taken out of the client's buffer, and the state of those that follow.
#[derive(Default)]
pub(super) struct ClientInput {
    /// Complete messages that the relay has not taken yet.
    pub(super) pending: Bytes,
    /// Whether `pending` is a part of the first request of the relay.
    pub(super) pending_is_first: bool,
    /// The template of the only query in `pending`, if it is known.
    pub(super) template: Option<Arc<Template>>,
    /// The relay begins with a long message, which has not been taken yet.
    pub(super) awaits_long: bool,
    pub(super) body: Body,
    pub(super) blocked: Option<Blocked>,
    /// The client has sent more than the first request.
    pub(super) has_more: bool,
    /// The client has sent something since the timers were set.
    pub(super) is_active: bool,
}

impl ClientInput {
    /// Passes the first request to the relay, for the first time or again.
    pub(super) fn set_first(&mut self, request: Bytes) {
        self.pending = request;
        self.pending_is_first = true;
    }

    /// Passes a later message to the relay.
    pub(super) fn set_message(&mut self, message: Bytes) {
        self.pending = message;
        self.pending_is_first = false;
    }

    /// Remembers why the next message cannot be taken now. If the server describes a statement first, its next answer ends that.
    pub(super) fn block(&mut self, reason: NotYet) {
        match reason {
            NotYet::Unparsed(unparsed) => self.blocked = Some(Blocked::Parse(unparsed)),
            NotYet::Listening(need) => self.blocked = Some(Blocked::Listen(need)),
            NotYet::Describing => {}
        }
    }

    /// Whether the client has begun a message that the relay has not taken completely.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.pending.is_empty() || self.awaits_long || self.body.left > 0
    }
}
