//! `LISTEN` of many clients by one server connection, without sockets (`listen_mode = "shared"`).
//!
//! **Order.** PostgreSQL writes the notifications of a transaction to one queue when it commits, and every session reads that
//! queue in order. So the order in which the shared connection receives notifications is the order of commits, and each
//! listener gets its own in this order.
//!
//! **Rounds.** The caller sends a round of messages, at most one at a time: a `LISTEN` for each channel that is new, an
//! `UNLISTEN` for each that has no listener, or only a `Sync`. A server sends all notifications that were committed before a
//! message arrived in front of its answer. So a round that has been answered proves that all earlier notifications have been
//! received; requests wait for that.
//!
//! **Transactions.** In place of a client's `LISTEN` inside a transaction its server executes a NOTIFY to [`CHANNEL`], whose
//! payload says what changes ([`Marker`]). PostgreSQL delivers it if and when the transaction commits, at its place among all
//! notifications. It is known by the process of its server to be the client's. The channel has been listened on before
//! ([`SharedListen::reserve`]), so that nothing after that place is missed.
//!
//! **Own notifications.** What is notified by the server that carries out a client's transaction is that client's own: the
//! process in the message is replaced by the one that the client was given.

mod listener;
mod marker;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt, HashSet};
use listener::Listener;
pub use listener::{MAIL_BYTES_MAX, MAIL_MAX, Overflow};
pub use marker::{CHANNEL, Marker};
use paceline_sql::Listening;
use paceline_wire::{Frame, WireError, backend};
use std::sync::Arc;

/// Maximum number of messages that are kept until all of a transaction is here; those beyond are taken as another's.
const RUN_MAX: usize = 1_024;

/// Names a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(u64);

/// Names a request that is answered when a round is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What goes to the server in a round; each is answered by one ReadyForQuery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `LISTEN` or `UNLISTEN` of a channel.
    Query(String),
    /// Nothing but a `Sync`.
    Sync,
}

/// The shared `LISTEN` of a database.
#[derive(Debug, Default)]
pub struct SharedListen {
    listeners: HashMap<ListenerId, Listener>,
    channels: HashMap<Arc<str>, Channel>,
    /// Channels for which a round may have something to do.
    dirty: HashSet<Arc<str>>,
    /// Listeners by the server process that carries out their transaction.
    served_by: HashMap<u32, ListenerId>,
    /// Requests for the next round.
    waiting: Vec<Request>,
    /// The round that was sent last.
    round: Option<Round>,
    /// Notifications of one process whose listener changes channels in its transaction, until all of them are here.
    run: Vec<Notification>,
    /// Listeners that have something to read, of whom nobody has been told.
    woken: HashSet<ListenerId>,
    last_id: u64,
}

#[derive(Debug, Default)]
struct Channel {
    state: ChannelState,
    listeners: HashSet<ListenerId>,
    /// Listeners that may listen on it when their transaction commits, or the round is answered.
    reserved: HashMap<ListenerId, usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ChannelState {
    /// The shared connection does not listen on it.
    #[default]
    Off,
    /// A LISTEN is under way.
    Asked,
    /// It does.
    On,
}

impl Channel {
    fn is_wanted(&self) -> bool {
        !self.listeners.is_empty() || !self.reserved.is_empty()
    }
}

#[derive(Debug)]
struct Request {
    ticket: Ticket,
    listener: ListenerId,
    wants: Wants,
}

#[derive(Debug)]
enum Wants {
    /// To have received what was committed before.
    CatchUp,
    /// To listen from the answer on, outside a transaction.
    Listen(Arc<str>),
    /// To have these channels listened on, for a transaction.
    Reserve(Vec<Arc<str>>),
}

impl Wants {
    fn channels(&self) -> &[Arc<str>] {
        match self {
            Self::CatchUp => &[],
            Self::Listen(channel) => std::slice::from_ref(channel),
            Self::Reserve(channels) => channels,
        }
    }
}

#[derive(Debug)]
struct Round {
    requests: Vec<Request>,
    /// The channel of each step.
    steps: Vec<Option<Arc<str>>>,
    answered: usize,
    /// What the server refused.
    refused: HashMap<Arc<str>, Bytes>,
}

/// A request that is answered: with the server's `ErrorResponse` if it refused a channel.
pub type Answer = (Ticket, Result<(), Bytes>);

#[derive(Debug, Clone)]
struct Notification {
    process: u32,
    channel: Arc<str>,
    payload: Bytes,
    message: Bytes,
}

impl SharedListen {
    /// A client that was given this process id.
    pub fn join(&mut self, process: u32) -> ListenerId {
        let id = ListenerId(self.next_id());
        self.listeners.insert(id, Listener::new(process));
        id
    }

    /// The client has gone.
    pub fn leave(&mut self, id: ListenerId) {
        self.settle(id);
        self.unlisten_all(id);
        self.drop_requests(id);
        self.listeners.remove(&id);
        self.woken.remove(&id);
    }

    fn drop_requests(&mut self, id: ListenerId) {
        let waiting = std::mem::take(&mut self.waiting);
        let (gone, stay) = waiting.into_iter().partition(|r| r.listener == id);
        self.waiting = stay;
        let mut gone: Vec<Request> = gone;
        if let Some(round) = &mut self.round {
            let sent = std::mem::take(&mut round.requests);
            let (of_it, others): (Vec<_>, _) = sent.into_iter().partition(|r| r.listener == id);
            round.requests = others;
            gone.extend(of_it);
        }
        for request in gone {
            self.release(id, request.wants.channels());
        }
    }

    /// No client is left.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// The client listens on a channel.
    pub fn is_listening(&self, id: ListenerId) -> bool {
        let listener = self.listeners.get(&id);
        listener.is_some_and(|listener| !listener.channels.is_empty())
    }

    /// The channels on which the client listens, sorted.
    pub fn channels_of(&self, id: ListenerId) -> Vec<Arc<str>> {
        let listener = self.listeners.get(&id);
        let mut channels: Vec<_> = listener.map_or_else(Vec::new, |listener| {
            listener.channels.iter().map(Arc::clone).collect()
        });
        channels.sort_unstable();
        channels
    }

    /// `LISTEN` outside a transaction: the client listens from the answer on.
    pub fn listen(&mut self, id: ListenerId, channel: &str) -> Ticket {
        let channel = self.channel(channel);
        self.reserve_one(id, &channel);
        self.request(id, Wants::Listen(channel))
    }

    /// A transaction of the client, which the process `server` carries out, is about to listen on these channels, or to
    /// change otherwise on what the client listens.
    pub fn reserve(&mut self, id: ListenerId, server: u32, channels: &[String]) -> Ticket {
        self.is_served(id, server);
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.changes = true;
        }
        let channels: Vec<_> = channels.iter().map(|name| self.channel(name)).collect();
        for channel in &channels {
            self.reserve_one(id, channel);
            if let Some(listener) = self.listeners.get_mut(&id) {
                listener.reserved.push(Arc::clone(channel));
            }
        }
        // The transaction keeps them reserved beyond the answer.
        channels
            .iter()
            .for_each(|channel| self.reserve_one(id, channel));
        self.request(id, Wants::Reserve(channels))
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

    /// All that was committed before is to be received.
    pub fn catch_up(&mut self, id: ListenerId) -> Ticket {
        self.request(id, Wants::CatchUp)
    }

    /// The client's transaction is over, and what it notified has been received.
    pub fn settle(&mut self, id: ListenerId) {
        self.end_run();
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        listener.changes = false;
        let reserved = std::mem::take(&mut listener.reserved);
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

    /// The steps of the next round; `None`: one is under way, or none is needed.
    pub fn next_round(&mut self) -> Option<Vec<Step>> {
        if self.round.is_some() {
            return None;
        }
        let mut dirty: Vec<_> = self.dirty.drain().collect();
        dirty.sort_unstable();
        let (mut steps, mut channels) = (Vec::new(), Vec::new());
        for name in dirty {
            let Some(channel) = self.channels.get_mut(&name) else {
                continue;
            };
            let quoted = paceline_sql::quote_ident(&name);
            match (channel.state, channel.is_wanted()) {
                (ChannelState::Off, true) => {
                    channel.state = ChannelState::Asked;
                    steps.push(Step::Query(format!("LISTEN {quoted}")));
                    channels.push(Some(name));
                }
                (ChannelState::On, false) => {
                    self.channels.remove(&name);
                    steps.push(Step::Query(format!("UNLISTEN {quoted}")));
                    channels.push(None);
                }
                (ChannelState::Off, false) => drop(self.channels.remove(&name)),
                (ChannelState::Asked, _) | (ChannelState::On, true) => {}
            }
        }
        if steps.is_empty() && self.waiting.is_empty() {
            return None;
        }
        if steps.is_empty() {
            steps.push(Step::Sync);
            channels.push(None);
        }
        self.round = Some(Round {
            requests: std::mem::take(&mut self.waiting),
            steps: channels,
            answered: 0,
            refused: HashMap::new(),
        });
        Some(steps)
    }

    /// A round is under way.
    pub fn awaits_answer(&self) -> bool {
        self.round.is_some()
    }

    /// The server has refused the step that is under way.
    pub fn refused(&mut self, error: Bytes) {
        if let Some(round) = &mut self.round
            && let Some(Some(channel)) = round.steps.get(round.answered)
        {
            round.refused.insert(Arc::clone(channel), error);
        }
    }

    /// The server is ready again: the step is over. Returns the requests that are answered with the round.
    pub fn ready(&mut self) -> Vec<Answer> {
        self.end_run();
        let Some(round) = &mut self.round else {
            return Vec::new();
        };
        if let Some(Some(name)) = round.steps.get(round.answered)
            && let Some(channel) = self.channels.get_mut(name)
        {
            channel.state = match round.refused.contains_key(name) {
                true => ChannelState::Off,
                false => ChannelState::On,
            };
            // It may have become unwanted, or wanted again, meanwhile.
            self.dirty.insert(Arc::clone(name));
        }
        round.answered += 1;
        if round.answered < round.steps.len() {
            return Vec::new();
        }
        let Some(round) = self.round.take() else {
            return Vec::new();
        };
        let Round {
            requests, refused, ..
        } = round;
        let answers = requests.into_iter();
        answers
            .map(|request| self.answer(request, &refused))
            .collect()
    }

    fn answer(&mut self, request: Request, refused: &HashMap<Arc<str>, Bytes>) -> Answer {
        let Request {
            ticket,
            listener,
            wants,
        } = request;
        let channels = wants.channels();
        let error = channels.iter().find_map(|name| refused.get(name));
        if let (Wants::Listen(channel), None) = (&wants, error) {
            self.apply(listener, &Listening::Listen(channel.as_ref().to_owned()));
        }
        self.release(listener, channels);
        (ticket, error.map_or(Ok(()), |error| Err(error.clone())))
    }

    /// The connection is lost. No request waits any longer to catch up; those for channels stay, for the next connection.
    pub fn disconnected(&mut self) -> Vec<Answer> {
        self.end_run();
        for (name, channel) in &mut self.channels {
            channel.state = ChannelState::Off;
            self.dirty.insert(Arc::clone(name));
        }
        let sent = self
            .round
            .take()
            .map_or_else(Vec::new, |round| round.requests);
        let all = sent.into_iter().chain(std::mem::take(&mut self.waiting));
        let (ended, stay) = all.partition(|r: &Request| matches!(r.wants, Wants::CatchUp));
        self.waiting = stay;
        let ended: Vec<Request> = ended;
        ended.into_iter().map(|r| (r.ticket, Ok(()))).collect()
    }

    /// No connection can be opened: all requests fail with this.
    pub fn fail(&mut self, error: &Bytes) -> Vec<Answer> {
        let mut answers = self.disconnected();
        for request in std::mem::take(&mut self.waiting) {
            self.release(request.listener, request.wants.channels());
            answers.push((request.ticket, Err(error.clone())));
        }
        answers
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
        let name = String::from_utf8_lossy(channel);
        let known = self.channels.get_key_value(name.as_ref());
        let channel = known.map_or_else(|| Arc::from(name.as_ref()), |(name, _)| Arc::clone(name));
        let payload = message.slice_ref(payload);
        let notification = Notification {
            process,
            channel,
            payload,
            message,
        };
        let of_run = self.run.last().is_some_and(|last| last.process == process);
        if !of_run || self.run.len() >= RUN_MAX {
            self.end_run();
        }
        if of_run || self.changes_channels(process) {
            self.run.push(notification);
        } else {
            self.deliver(&notification);
        }
        Ok(())
    }

    /// The process carries out a transaction that changes on what its client listens.
    fn changes_channels(&self, process: u32) -> bool {
        let id = self.served_by.get(&process);
        let listener = id.and_then(|id| self.listeners.get(id));
        listener.is_some_and(|listener| listener.changes)
    }

    /// All messages of a transaction are here: its changes are in force for its own notifications, whatever their order.
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        for notification in run.iter().filter(|n| n.channel.as_ref() == CHANNEL) {
            let id = self.served_by.get(&notification.process).copied();
            let marker = Marker::read(&notification.payload);
            if let (Some(id), Some(marker)) = (id, marker) {
                self.apply(id, &marker.listening);
            }
        }
        for notification in &run {
            self.deliver(notification);
        }
    }

    fn deliver(&mut self, notification: &Notification) {
        let Some(channel) = self.channels.get(&notification.channel) else {
            return;
        };
        let author = self.served_by.get(&notification.process);
        for id in &channel.listeners {
            if let Some(listener) = self.listeners.get_mut(id) {
                let own = author == Some(id);
                listener.post(&notification.message, notification.process, own);
                self.woken.insert(*id);
            }
        }
    }

    fn apply(&mut self, id: ListenerId, change: &Listening) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        match change {
            Listening::Listen(name) => {
                // Only what has been reserved is listened on.
                let known = self.channels.get_key_value(name.as_str());
                if let Some(name) = known.map(|(name, _)| Arc::clone(name))
                    && let Some(channel) = self.channels.get_mut(&name)
                {
                    channel.listeners.insert(id);
                    listener.channels.insert(name);
                }
            }
            Listening::Unlisten(name) => {
                if let Some(name) = listener.channels.take(name.as_str())
                    && let Some(channel) = self.channels.get_mut(&name)
                {
                    channel.listeners.remove(&id);
                    self.dirty.insert(name);
                }
            }
            Listening::UnlistenAll => {
                for name in listener.channels.drain() {
                    if let Some(channel) = self.channels.get_mut(&name) {
                        channel.listeners.remove(&id);
                    }
                    self.dirty.insert(name);
                }
            }
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
    pub fn take_mail(
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
    pub fn has_mail(&self, id: ListenerId) -> bool {
        self.listeners.get(&id).is_some_and(Listener::has_mail)
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
        self.dirty.insert(Arc::clone(name));
    }

    fn release(&mut self, id: ListenerId, channels: &[Arc<str>]) {
        for name in channels {
            if let Some(channel) = self.channels.get_mut(name)
                && let Some(count) = channel.reserved.get_mut(&id)
            {
                *count -= 1;
                if *count == 0 {
                    channel.reserved.remove(&id);
                    self.dirty.insert(Arc::clone(name));
                }
            }
        }
    }

    fn request(&mut self, listener: ListenerId, wants: Wants) -> Ticket {
        let ticket = Ticket(self.next_id());
        self.waiting.push(Request {
            ticket,
            listener,
            wants,
        });
        ticket
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
