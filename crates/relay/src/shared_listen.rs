//! `LISTEN` of many clients by one server connection, without sockets (`listen_mode = "shared"`).
//!
//! **Order.** When a transaction commits, PostgreSQL appends its notifications to one queue. Every session reads that queue
//! in order. Therefore the shared connection receives notifications in the order of commits, and passes them to each
//! listener in this order.
//!
//! **Rounds.** The caller sends messages in rounds, one round at a time. A round consists of a `LISTEN` for each new channel
//! and an `UNLISTEN` for each channel without a listener, at most [`STEPS_MAX`] of both, or of a `Sync` only. Before a
//! server answers a message, it sends all notifications that were committed before the message arrived. So when a round is
//! answered, all earlier notifications have been received, and the requests that wait for them are answered. If the channels
//! of a request do not fit into a round, the request waits for a later round. Other requests do not wait for it.
//!
//! **Transactions.** In place of a client's `LISTEN` inside a transaction, its server executes a NOTIFY on a channel of this
//! process, whose name clients cannot guess. The payload says what changes ([`Marker`]). If the transaction commits,
//! PostgreSQL delivers it at the transaction's position among all notifications. The process id of the server identifies
//! the client of the marker. Before the marker is sent, the shared connection listens on the channel
//! ([`SharedListen::reserve`]), so that the client misses no notification after that position. Clients cannot listen on the
//! channel of markers and receive no markers.
//!
//! **Own notifications.** A notification that the server sends for a client's transaction is the client's own. In the
//! message to that client, the process id that the client knows replaces that of the server. If the transaction changes the
//! client's channels, PostgreSQL applies all changes before it delivers the transaction's own notifications to the session.
//! So the listener holds these until all of them have arrived: until a notification of another process arrives (those of a
//! transaction are contiguous in the queue), or until the client has caught up. Other listeners receive them at once.

mod listener;
mod marker;
mod rounds;
mod state;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use foldhash::HashSet;
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
use std::sync::Arc;

impl SharedListen {
    /// `marker`: the channel of markers.
    pub fn new(marker: Arc<str>) -> Self {
        Self {
            marker,
            ..Self::default()
        }
    }

    /// Adds a client. `process`: the process id that Paceline sent to it.
    pub fn join(&mut self, process: u32) -> ListenerId {
        let id = ListenerId(self.next_id());
        self.listeners.insert(id, Listener::new(process));
        id
    }

    /// Removes a client. Returns its requests, which are not answered.
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

    /// Whether there are no clients.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Whether the client listens on a channel.
    pub fn is_listening(&self, id: ListenerId) -> bool {
        let listener = self.listeners.get(&id);
        listener.is_some_and(|listener| !listener.channels().is_empty())
    }

    /// A number that changes whenever the client's channels change.
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

    /// `LISTEN` outside a transaction. The client listens as soon as the request is answered.
    pub fn listen(&mut self, id: ListenerId, channel: &str) -> ListenRequestId {
        let channel = self.channel(channel);
        self.reserve_one(id, &channel);
        self.request(id, ListenGoal::Listen(channel))
    }

    /// Whether the client may listen on these channels in addition.
    ///
    /// # Errors
    /// The reason why not.
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

    /// The process `server` is about to execute a statement that changes the client's channels. The shared connection must
    /// listen on these channels first.
    pub fn reserve(&mut self, id: ListenerId, server: u32, channels: &[String]) -> ListenRequestId {
        self.is_served(id, server);
        let channels: Vec<_> = channels.iter().map(|name| self.channel(name)).collect();
        let mut kept = Vec::new();
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.changes = true;
            let reserved = &mut listener.reserved;
            kept.extend(channels.iter().filter(|c| reserved.insert(Arc::clone(c))));
        }
        // The transaction keeps them reserved after the answer.
        for channel in kept.into_iter().chain(&channels) {
            self.reserve_one(id, channel);
        }
        self.request(id, ListenGoal::Reserve(channels))
    }

    /// The process `server` executes the client's statements now. Its notifications are the client's own.
    pub fn is_served(&mut self, id: ListenerId, server: u32) {
        if let Some(listener) = self.listeners.get_mut(&id)
            && let Some(before) = listener.server.replace(server)
            && before != server
        {
            self.served_by.remove(&before);
        }
        self.served_by.insert(server, id);
    }

    /// A request to receive all notifications that were committed before. `None` if there is no connection.
    pub fn catch_up(&mut self, id: ListenerId) -> Option<ListenRequestId> {
        self.connected
            .then(|| self.request(id, ListenGoal::CatchUp))
    }

    /// The client's transaction has ended, and its notifications have been received.
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
    /// The message is malformed.
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

    /// All notifications of the transaction have arrived. Its changes apply to all of them, whatever their order.
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
                // A client listens only on channels that it reserved.
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

    /// Queues a LISTEN or UNLISTEN if the channel has become wanted or unwanted.
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

    /// Listeners that have received notifications since the last call.
    pub fn take_woken(&mut self) -> Vec<ListenerId> {
        self.woken.drain().collect()
    }

    /// Appends notifications for the client, until `out` has this many bytes.
    ///
    /// # Errors
    /// The queue exceeded its limit, and notifications are lost.
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

    /// Whether notifications are queued for the client, or its queue has overflowed.
    pub fn has_queued(&self, id: ListenerId) -> bool {
        self.listeners.get(&id).is_some_and(Listener::has_queued)
    }

    /// Whether the client's queue has exceeded its limit.
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
