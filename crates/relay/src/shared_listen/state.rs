//! The state of the shared `LISTEN` of a database.

use super::listener::Listener;
use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of channels of one client.
pub const CLIENT_CHANNELS_MAX: usize = 10_000;

/// Maximum number of channels of all clients of a database. For each notification, PostgreSQL searches all of them.
pub const DATABASE_CHANNELS_MAX: usize = 100_000;

/// Identifies a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(super) u64);

/// Identifies a request that a round answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenRequestId(pub(super) u64);

/// A message of a round. The server answers each with one ReadyForQuery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundStep {
    /// `LISTEN` or `UNLISTEN` of a channel.
    Query(String),
    /// Only a `Sync`.
    Sync,
}

/// The reason why a client may not listen on further channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// The client has [`CLIENT_CHANNELS_MAX`].
    OfClient,
    /// All clients of the database have [`DATABASE_CHANNELS_MAX`].
    OfDatabase,
    /// The channel is that of markers.
    Reserved,
}

/// The shared `LISTEN` of a database.
#[derive(Debug, Default)]
pub struct SharedListen {
    /// The channel of markers.
    pub(super) marker: Arc<str>,
    /// Whether there is a connection. It listens on the channel of markers.
    pub(super) connected: bool,
    pub(super) listeners: HashMap<ListenerId, Listener>,
    pub(super) channels: HashMap<Arc<str>, SharedChannel>,
    /// Channels in the state [`ChannelState::Queued`].
    pub(super) to_listen: VecDeque<Arc<str>>,
    /// Channels that may have no listener any more.
    pub(super) to_unlisten: BTreeSet<Arc<str>>,
    /// Clients, by the server process that executes their transaction.
    pub(super) served_by: HashMap<u32, ListenerId>,
    /// Requests for the next rounds.
    pub(super) waiting: Vec<ListenRequest>,
    /// The current round.
    pub(super) round: Option<Round>,
    /// The process of the last notification and its client, which holds the notifications of that process.
    pub(super) run: Option<(u32, ListenerId)>,
    /// Listeners that have received notifications, for [`SharedListen::take_woken`].
    pub(super) woken: HashSet<ListenerId>,
    pub(super) last_id: u64,
}

#[derive(Debug, Default)]
pub(super) struct SharedChannel {
    pub(super) state: ChannelState,
    pub(super) listeners: HashSet<ListenerId>,
    /// Clients that may listen on it when their transaction commits or their request is answered, with the number of
    /// reservations.
    pub(super) reserved: HashMap<ListenerId, usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelState {
    /// The shared connection does not listen on the channel.
    #[default]
    Off,
    /// A LISTEN must be sent.
    Queued,
    /// A LISTEN has been sent.
    Asked,
    /// The shared connection listens on the channel.
    On,
}

impl SharedChannel {
    pub(super) fn is_wanted(&self) -> bool {
        !self.listeners.is_empty() || !self.reserved.is_empty()
    }
}

/// The answer to a request: the server's `ErrorResponse` if it rejected a channel.
pub type ListenAnswer = (ListenRequestId, Result<(), Bytes>);

#[derive(Debug)]
pub(super) struct ListenRequest {
    pub(super) id: ListenRequestId,
    pub(super) listener: ListenerId,
    pub(super) goal: ListenGoal,
}

#[derive(Debug)]
pub(super) enum ListenGoal {
    /// To receive all notifications that were committed before.
    CatchUp,
    /// To listen from the answer on, outside a transaction.
    Listen(Arc<str>),
    /// To reserve these channels for a transaction.
    Reserve(Vec<Arc<str>>),
}

impl ListenGoal {
    pub(super) fn channels(&self) -> &[Arc<str>] {
        match self {
            Self::CatchUp => &[],
            Self::Listen(channel) => std::slice::from_ref(channel),
            Self::Reserve(channels) => channels,
        }
    }
}

#[derive(Debug)]
pub(super) struct Round {
    pub(super) requests: Vec<ListenRequest>,
    /// The channel of each step.
    pub(super) steps: Vec<Option<Arc<str>>>,
    pub(super) answered: usize,
    /// The channels that the server rejected, with its error.
    pub(super) refused: HashMap<Arc<str>, Bytes>,
}
