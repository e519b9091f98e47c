//! One client of the shared `LISTEN`: its channels, and the messages that wait for it.

use bytes::{BufMut, Bytes, BytesMut};
use foldhash::{HashSet, HashSetExt};
use paceline_wire::backend;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of messages that wait for one client. Listeners share the bytes of a message; each has its own reference.
pub const QUEUED_MAX: usize = 64 * 1024;

/// Maximum number of bytes of messages that wait for one client.
pub const QUEUED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// More notifications waited for a client than it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

#[derive(Debug)]
pub(super) struct Listener {
    /// The process id that the client was given.
    process: u32,
    channels: HashSet<Arc<str>>,
    /// Counts the changes of `channels`.
    pub(super) version: u64,
    /// Channels on which its transaction may listen.
    pub(super) reserved: HashSet<Arc<str>>,
    /// Its transaction changes on what it listens.
    pub(super) changes: bool,
    /// The server process that carries out its transaction.
    pub(super) server: Option<u32>,
    queue: VecDeque<Bytes>,
    /// Notifications of its own transaction, until it is known on which channels it listens then.
    held: Vec<(Arc<str>, Bytes)>,
    /// Of both.
    queued_bytes: usize,
    pub(super) overflow: bool,
}

impl Listener {
    pub(super) fn new(process: u32) -> Self {
        Self {
            process,
            channels: HashSet::new(),
            version: 0,
            reserved: HashSet::new(),
            changes: false,
            server: None,
            queue: VecDeque::new(),
            held: Vec::new(),
            queued_bytes: 0,
            overflow: false,
        }
    }

    pub(super) fn channels(&self) -> &HashSet<Arc<str>> {
        &self.channels
    }

    /// It listens on the channel, or its transaction may.
    pub(super) fn has(&self, channel: &str) -> bool {
        self.channels.contains(channel) || self.reserved.contains(channel)
    }

    /// The number of channels for which [`Listener::has`] is true.
    pub(super) fn count(&self) -> usize {
        let more = self.reserved.difference(&self.channels);
        self.channels.len() + more.count()
    }

    pub(super) fn listens(&mut self, channel: &Arc<str>) {
        self.version += 1;
        self.channels.insert(Arc::clone(channel));
    }

    pub(super) fn unlistens(&mut self, channel: &str) -> Option<Arc<str>> {
        self.version += 1;
        self.channels.take(channel)
    }

    pub(super) fn unlistens_all(&mut self) -> HashSet<Arc<str>> {
        self.version += 1;
        std::mem::take(&mut self.channels)
    }

    fn has_room(&mut self, message: &Bytes) -> bool {
        let waiting = self.queue.len() + self.held.len();
        let full = waiting >= QUEUED_MAX || self.queued_bytes + message.len() > QUEUED_BYTES_MAX;
        if self.overflow || full {
            self.overflow = true;
            self.queue = VecDeque::new();
            self.held = Vec::new();
            self.queued_bytes = 0;
            return false;
        }
        self.queued_bytes += message.len();
        true
    }

    /// A notification of its own transaction, which changes on what it listens.
    pub(super) fn hold(&mut self, channel: Arc<str>, message: Bytes) {
        if self.has_room(&message) {
            self.held.push((channel, message));
        }
    }

    /// All of its transaction, which the server process `author` has carried out, is here.
    pub(super) fn release_held(&mut self, author: u32) {
        for (channel, message) in std::mem::take(&mut self.held) {
            if self.channels.contains(&channel) {
                self.put(&message, author, true);
            } else {
                self.queued_bytes -= message.len();
            }
        }
    }

    /// A notification by the server process `author`, which is the client's `own` if that process carried out its transaction.
    pub(super) fn post(&mut self, message: &Bytes, author: u32, own: bool) {
        if self.has_room(message) {
            self.put(message, author, own);
        }
    }

    fn put(&mut self, message: &Bytes, author: u32, own: bool) {
        let renamed = backend::own_notification(message, author, own, self.process);
        self.queue
            .push_back(renamed.unwrap_or_else(|| message.clone()));
    }

    pub(super) fn has_queued(&self) -> bool {
        self.overflow || !self.queue.is_empty()
    }

    pub(super) fn take(&mut self, bytes: usize, out: &mut BytesMut) -> Result<(), Overflow> {
        if self.overflow {
            return Err(Overflow);
        }
        while out.len() < bytes
            && let Some(message) = self.queue.pop_front()
        {
            self.queued_bytes -= message.len();
            out.put_slice(&message);
        }
        if self.queue.is_empty() {
            // A client that has read everything keeps no memory.
            self.queue = VecDeque::new();
        }
        Ok(())
    }
}
