//! One client of the shared `LISTEN`: its channels, and the notifications queued for it.

use bytes::{BufMut, Bytes, BytesMut};
use foldhash::HashSet;
use paceline_wire::backend;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of notifications queued for one client. Listeners share the bytes of a notification.
pub const QUEUED_MAX: usize = 64 * 1024;

/// Maximum number of bytes of notifications queued for one client.
pub const QUEUED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The client's queue has exceeded its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

#[derive(Debug, Default)]
pub(super) struct Listener {
    /// The process id that Paceline sent to the client.
    process: u32,
    channels: HashSet<Arc<str>>,
    /// Number of changes of `channels`.
    pub(super) version: u64,
    /// Channels on which the client's transaction may listen.
    pub(super) reserved: HashSet<Arc<str>>,
    /// Whether the client's transaction changes its channels.
    pub(super) changes: bool,
    /// The server process that executes the client's transaction.
    pub(super) server: Option<u32>,
    queue: VecDeque<Bytes>,
    /// Notifications of the client's own transaction, until the channels after it are known.
    held: Vec<(Arc<str>, Bytes)>,
    /// Bytes of `queue` and `held`.
    queued_bytes: usize,
    pub(super) overflow: bool,
}

impl Listener {
    pub(super) fn new(process: u32) -> Self {
        Self {
            process,
            ..Self::default()
        }
    }

    pub(super) fn channels(&self) -> &HashSet<Arc<str>> {
        &self.channels
    }

    /// Whether the client listens on the channel, or its transaction may.
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

    /// Holds a notification of the client's own transaction, which changes its channels.
    pub(super) fn hold(&mut self, channel: Arc<str>, message: Bytes) {
        if self.has_room(&message) {
            self.held.push((channel, message));
        }
    }

    /// All notifications of the client's transaction have arrived. `author`: the server process that executed it.
    pub(super) fn release_held(&mut self, author: u32) {
        for (channel, message) in std::mem::take(&mut self.held) {
            if self.channels.contains(&channel) {
                self.put(&message, author, true);
            } else {
                self.queued_bytes -= message.len();
            }
        }
    }

    /// Queues a notification of the server process `author`. `own`: whether that process executes the client's transaction.
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
            // Releases the memory of the queue.
            self.queue = VecDeque::new();
        }
        Ok(())
    }
}
