//! The state of the shared `LISTEN` of a database.

use super::listener::Listener;
use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of channels of one client.
pub const CLIENT_CHANNELS_MAX: usize = 10_000;

/// Maximum number of channels of all clients of a database. PostgreSQL looks through all of them for each notification.
pub const DATABASE_CHANNELS_MAX: usize = 100_000;

/// Names a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(super) u64);

/// Names a request that is answered when a round is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenRequestId(pub(super) u64);

/// What goes to the server in a round; each is answered by one ReadyForQuery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundStep {
    /// `LISTEN` or `UNLISTEN` of a channel.
    Query(String),
    /// Nothing but a `Sync`.
    Sync,
}

/// Why a client may not listen on more channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// It has [`CLIENT_CHANNELS_MAX`].
    OfClient,
    /// All clients of the database have [`DATABASE_CHANNELS_MAX`].
    OfDatabase,
    /// It is the channel of markers.
    Reserved,
}

/// The shared `LISTEN` of a database.
#[derive(Debug)]
pub struct SharedListen {
    /// The channel of markers.
    pub(super) marker: Arc<str>,
    /// There is a connection, which listens on the channel of markers.
    pub(super) connected: bool,
    pub(super) listeners: HashMap<ListenerId, Listener>,
    pub(super) channels: HashMap<Arc<str>, SharedChannel>,
    /// Channels that are [`ChannelState::Queued`].
    pub(super) to_listen: VecDeque<Arc<str>>,
    /// Channels on which nobody may listen any more.
    pub(super) to_unlisten: BTreeSet<Arc<str>>,
    /// Listeners by the server process that carries out their transaction.
    pub(super) served_by: HashMap<u32, ListenerId>,
    /// Requests for the next rounds.
    pub(super) waiting: Vec<ListenRequest>,
    /// The round that was sent last.
    pub(super) round: Option<Round>,
    /// The process whose notifications came last, and its listener, which holds them.
    pub(super) run: Option<(u32, ListenerId)>,
    /// Listeners that have something to read, of whom nobody has been told.
    pub(super) woken: HashSet<ListenerId>,
    pub(super) last_id: u64,
}

#[derive(Debug, Default)]
pub(super) struct SharedChannel {
    pub(super) state: ChannelState,
    pub(super) listeners: HashSet<ListenerId>,
    /// Listeners that may listen on it when their transaction commits, or the round is answered.
    pub(super) reserved: HashMap<ListenerId, usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelState {
    /// The shared connection does not listen on it.
    #[default]
    Off,
    /// A LISTEN is to be sent.
    Queued,
    /// A LISTEN is under way.
    Asked,
    /// It does.
    On,
}

impl SharedChannel {
    pub(super) fn is_wanted(&self) -> bool {
        !self.listeners.is_empty() || !self.reserved.is_empty()
    }
}

/// A request that is answered: with the server's `ErrorResponse` if it refused a channel.
pub type ListenAnswer = (ListenRequestId, Result<(), Bytes>);

#[derive(Debug)]
pub(super) struct ListenRequest {
    pub(super) id: ListenRequestId,
    pub(super) listener: ListenerId,
    pub(super) goal: ListenGoal,
}

#[derive(Debug)]
pub(super) enum ListenGoal {
    /// To have received what was committed before.
    CatchUp,
    /// To listen from the answer on, outside a transaction.
    Listen(Arc<str>),
    /// To have these channels listened on, for a transaction.
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
    /// What the server refused.
    pub(super) refused: HashMap<Arc<str>, Bytes>,
}
