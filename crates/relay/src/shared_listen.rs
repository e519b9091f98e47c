//! `LISTEN` of many clients by one server connection, without sockets (`listen_mode = "shared"`).
//!
//! **Order.** PostgreSQL writes the notifications of a transaction to one queue when it commits, and every session reads that
//! queue in order. So the order in which the shared connection receives notifications is the order of commits, and each
//! listener gets its own in this order.
//!
//! **Rounds.** The caller sends a round of messages, at most one at a time: a `LISTEN` for each channel that is new, an
//! `UNLISTEN` for each that has no listener, at most [`STEPS_MAX`] of both, or only a `Sync`. A server sends all notifications
//! that were committed before a message arrived in front of its answer. So a round that has been answered proves that all earlier
//! notifications have been received; requests wait for that. A request whose channels do not all fit into a round waits for a later
//! one, while others are answered.
//!
//! **Transactions.** In place of a client's `LISTEN` inside a transaction its server executes a NOTIFY to a channel of this process
//! of Paceline, whose name nobody can guess. The payload says what changes ([`Marker`]). PostgreSQL delivers it if and when the
//! transaction commits, at its place among all notifications. It is known by the process of its server to be the client's. The
//! channel has been listened on before ([`SharedListen::reserve`]), so that nothing after that place is missed. No client listens on
//! the channel of markers, or receives one.
//!
//! **Own notifications.** What is notified by the server that carries out a client's transaction is that client's own: the
//! process in the message is replaced by the one that the client was given. If the transaction changes on what the client listens,
//! PostgreSQL applies all changes before it delivers the transaction's own notifications to the session. So the listener holds
//! these until all are here: until a message of another process comes (those of a transaction follow each other in PostgreSQL's
//! queue), or until the client has caught up. Other listeners receive them at once.

mod listener;
mod marker;
mod rounds;
mod state;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use listener::Listener;
pub use listener::{Overflow, QUEUED_BYTES_MAX, QUEUED_MAX};
pub use marker::Marker;
use paceline_sql::Listening;
use paceline_wire::{Frame, WireError, backend};
pub use rounds::STEPS_MAX;
pub use state::{
    CLIENT_CHANNELS_MAX, DATABASE_CHANNELS_MAX, ListenAnswer, ListenRequestId, ListenerId, NoRoom,
    RoundStep, SharedListen,
};
use state::{ChannelState, ListenGoal, ListenRequest};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

impl SharedListen {
    /// `marker`: the channel of markers.
    pub fn new(marker: Arc<str>) -> Self {
        Self {
            marker,
            connected: false,
            listeners: HashMap::new(),
            channels: HashMap::new(),
            to_listen: VecDeque::new(),
            to_unlisten: BTreeSet::new(),
            served_by: HashMap::new(),
            waiting: Vec::new(),
            round: None,
            run: None,
            woken: HashSet::new(),
            last_id: 0,
        }
    }

    /// A client that was given this process id.
    pub fn join(&mut self, process: u32) -> ListenerId {
        let id = ListenerId(self.next_id());
        self.listeners.insert(id, Listener::new(process));
        id
    }

    /// The client has gone. Returns its requests, which are not answered.
    pub fn leave(&mut self, id: ListenerId) -> Vec<ListenRequestId> {
        self.settle(id);
        self.unlisten_all(id);
        let dropped = self.drop_requests(id);
        self.listeners.remove(&id);
        self.woken.remove(&id);
        dropped
    }

    fn drop_requests(&mut self, id: ListenerId) -> Vec<ListenRequestId> {
        let waiting = std::mem::take(&mut self.waiting);
        let (gone, stay) = waiting.into_iter().partition(|r| r.listener == id);
        self.waiting = stay;
        let mut gone: Vec<ListenRequest> = gone;
        if let Some(round) = &mut self.round {
            let sent = std::mem::take(&mut round.requests);
            let (of_it, others): (Vec<_>, _) = sent.into_iter().partition(|r| r.listener == id);
            round.requests = others;
            gone.extend(of_it);
        }
        for request in &gone {
            self.release(id, request.goal.channels());
        }
        gone.iter().map(|request| request.id).collect()
    }

    /// No client is left.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// The client listens on a channel.
    pub fn is_listening(&self, id: ListenerId) -> bool {
        let listener = self.listeners.get(&id);
        listener.is_some_and(|listener| !listener.channels().is_empty())
    }

    /// Differs from the number of another call if the channels of the client are others.
    pub fn version_of(&self, id: ListenerId) -> u64 {
        self.listeners
            .get(&id)
            .map_or(0, |listener| listener.version)
    }

    /// The channels on which the client listens, sorted.
    pub fn channels_of(&self, id: ListenerId) -> Vec<Arc<str>> {
        let listener = self.listeners.get(&id);
        let mut channels: Vec<_> = listener.map_or_else(Vec::new, |listener| {
            listener.channels().iter().map(Arc::clone).collect()
        });
        channels.sort_unstable();
        channels
    }

    /// `LISTEN` outside a transaction: the client listens from the answer on.
    pub fn listen(&mut self, id: ListenerId, channel: &str) -> ListenRequestId {
        let channel = self.channel(channel);
        self.reserve_one(id, &channel);
        self.request(id, ListenGoal::Listen(channel))
    }

    /// Whether the client may listen on these channels, too.
    ///
    /// # Errors
    /// There are too many.
    pub fn check_room(&self, id: ListenerId, names: &[String]) -> Result<(), NoRoom> {
        let Some(listener) = self.listeners.get(&id) else {
            return Ok(());
        };
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        if names.contains(&*self.marker) {
            return Err(NoRoom::Reserved);
        }
        let of_client = names.iter().filter(|name| !listener.has(name)).count();
        if of_client > 0 && listener.count() + of_client > CLIENT_CHANNELS_MAX {
            return Err(NoRoom::OfClient);
        }
        let is_new = |name: &&&str| !self.channels.contains_key(**name);
        let of_database = names.iter().filter(is_new).count();
        if of_database > 0 && self.channels.len() + of_database > DATABASE_CHANNELS_MAX {
            return Err(NoRoom::OfDatabase);
        }
        Ok(())
    }

    /// A transaction of the client, which the process `server` carries out, is about to listen on these channels, or to
    /// change otherwise on what the client listens.
    pub fn reserve(&mut self, id: ListenerId, server: u32, channels: &[String]) -> ListenRequestId {
        self.is_served(id, server);
        let channels: Vec<_> = channels.iter().map(|name| self.channel(name)).collect();
        let mut kept = Vec::new();
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.changes = true;
            let reserved = &mut listener.reserved;
            kept.extend(channels.iter().filter(|c| reserved.insert(Arc::clone(c))));
        }
        // The transaction keeps them reserved beyond the answer.
        for channel in kept.into_iter().chain(&channels) {
            self.reserve_one(id, channel);
        }
        self.request(id, ListenGoal::Reserve(channels))
    }

    /// The server process carries out what the client says now: its notifications are the client's own.
    pub fn is_served(&mut self, id: ListenerId, server: u32) {
        if let Some(listener) = self.listeners.get_mut(&id)
            && let Some(before) = listener.server.replace(server)
            && before != server
        {
            self.served_by.remove(&before);
        }
        self.served_by.insert(server, id);
    }

    /// All that was committed before is to be received. `None`: without a connection, none of it will be.
    pub fn catch_up(&mut self, id: ListenerId) -> Option<ListenRequestId> {
        self.connected
            .then(|| self.request(id, ListenGoal::CatchUp))
    }

    /// The client's transaction is over, and what it notified has been received.
    pub fn settle(&mut self, id: ListenerId) {
        if self.run.is_some_and(|(_, of)| of == id) {
            self.end_run();
        }
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        listener.changes = false;
        let reserved: Vec<_> = std::mem::take(&mut listener.reserved).into_iter().collect();
        if let Some(server) = listener.server.take()
            && self.served_by.get(&server) == Some(&id)
        {
            self.served_by.remove(&server);
        }
        self.release(id, &reserved);
    }

    /// `UNLISTEN` outside a transaction.
    pub fn unlisten(&mut self, id: ListenerId, channel: &str) {
        self.apply(id, &Listening::Unlisten(channel.to_owned()));
    }

    /// `UNLISTEN *` outside a transaction, and `DISCARD ALL`.
    pub fn unlisten_all(&mut self, id: ListenerId) {
        self.apply(id, &Listening::UnlistenAll);
    }

    /// The shared connection has received a `NotificationResponse`.
    ///
    /// # Errors
    /// It is none.
    pub fn notification(&mut self, message: Bytes) -> Result<(), WireError> {
        let frame = Frame {
            tag: backend::tag::NOTIFICATION_RESPONSE,
            bytes: &message,
        };
        let (process, channel, payload) = backend::read_notification(frame.body())?;
        if self.run.is_some_and(|(before, _)| before != process) {
            self.end_run();
        }
        let author = self.served_by.get(&process).copied();
        let changing = author.filter(|id| self.listeners.get(id).is_some_and(|l| l.changes));
        if channel == self.marker.as_bytes() {
            if let (Some(id), Some(marker)) = (changing, Marker::read(payload)) {
                self.apply(id, &marker.listening);
            }
            return Ok(());
        }
        let name = String::from_utf8_lossy(channel);
        let Some((name, channel)) = self.channels.get_key_value(name.as_ref()) else {
            return Ok(());
        };
        for id in &channel.listeners {
            if Some(*id) != changing
                && let Some(listener) = self.listeners.get_mut(id)
            {
                listener.post(&message, process, author == Some(*id));
                self.woken.insert(*id);
            }
        }
        if let Some(id) = changing
            && let Some(listener) = self.listeners.get_mut(&id)
            && listener.has(name)
        {
            listener.hold(Arc::clone(name), message);
            self.run = Some((process, id));
        }
        Ok(())
    }

    /// All messages of a transaction are here: its changes are in force for its own notifications, whatever their order.
    fn end_run(&mut self) {
        if let Some((process, id)) = self.run.take()
            && let Some(listener) = self.listeners.get_mut(&id)
        {
            listener.release_held(process);
            self.woken.insert(id);
        }
    }

    fn apply(&mut self, id: ListenerId, change: &Listening) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        match change {
            Listening::Listen(name) => {
                // Only what has been reserved is listened on.
                if let Some((name, channel)) = self.channels.get_key_value(name.as_str())
                    && channel.reserved.contains_key(&id)
                {
                    let name = Arc::clone(name);
                    listener.listens(&name);
                    if let Some(channel) = self.channels.get_mut(&name) {
                        channel.listeners.insert(id);
                    }
                }
            }
            Listening::Unlisten(name) => {
                if let Some(name) = listener.unlistens(name) {
                    self.removed(id, &name);
                }
            }
            Listening::UnlistenAll => {
                for name in listener.unlistens_all() {
                    self.removed(id, &name);
                }
            }
        }
    }

    fn removed(&mut self, id: ListenerId, name: &Arc<str>) {
        if let Some(channel) = self.channels.get_mut(name) {
            channel.listeners.remove(&id);
            self.follow(name);
        }
    }

    /// A channel may have become wanted or unwanted: something may have to be sent.
    fn follow(&mut self, name: &Arc<str>) {
        let Some(channel) = self.channels.get_mut(name) else {
            return;
        };
        match (channel.state, channel.is_wanted()) {
            (ChannelState::Off, true) => {
                channel.state = ChannelState::Queued;
                self.to_listen.push_back(Arc::clone(name));
            }
            (ChannelState::Off, false) => drop(self.channels.remove(name)),
            (ChannelState::On, false) => {
                self.to_unlisten.insert(Arc::clone(name));
            }
            (ChannelState::Queued | ChannelState::Asked, _) | (ChannelState::On, true) => {}
        }
    }

    /// Listeners that have something to read since this was asked last.
    pub fn take_woken(&mut self) -> Vec<ListenerId> {
        self.woken.drain().collect()
    }

    /// Takes messages for the client, up to about so many bytes.
    ///
    /// # Errors
    /// So many were waiting that some are lost.
    pub fn take_queued(
        &mut self,
        id: ListenerId,
        bytes: usize,
        out: &mut bytes::BytesMut,
    ) -> Result<(), Overflow> {
        match self.listeners.get_mut(&id) {
            Some(listener) => listener.take(bytes, out),
            None => Ok(()),
        }
    }

    /// Something waits for the client.
    pub fn has_queued(&self, id: ListenerId) -> bool {
        self.listeners.get(&id).is_some_and(Listener::has_queued)
    }

    /// More messages waited for the client than it may have.
    pub fn has_overflowed(&self, id: ListenerId) -> bool {
        let listener = self.listeners.get(&id);
        listener.is_some_and(|listener| listener.overflow)
    }

    fn channel(&self, name: &str) -> Arc<str> {
        match self.channels.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        }
    }

    fn reserve_one(&mut self, id: ListenerId, name: &Arc<str>) {
        let channel = self.channels.entry(Arc::clone(name)).or_default();
        *channel.reserved.entry(id).or_default() += 1;
        self.follow(name);
    }

    fn release(&mut self, id: ListenerId, channels: &[Arc<str>]) {
        for name in channels {
            if let Some(channel) = self.channels.get_mut(name)
                && let Some(count) = channel.reserved.get_mut(&id)
            {
                *count -= 1;
                if *count == 0 {
                    channel.reserved.remove(&id);
                    self.follow(name);
                }
            }
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
