//! One client of the shared `LISTEN`: its channels, and the messages that wait for it.

use bytes::{BufMut, Bytes, BytesMut};
use foldhash::{HashSet, HashSetExt};
use paceline_wire::backend;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most messages that wait for one client. Listeners share the bytes of a message; each has its own reference.
pub const MAIL_MAX: usize = 16 * 1024;

/// Most bytes of messages that wait for one client.
pub const MAIL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// More notifications waited for a client than it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

#[derive(Debug)]
pub(super) struct Listener {
    /// The process id that the client was given.
    process: u32,
    pub(super) channels: HashSet<Arc<str>>,
    /// Channels on which its transaction may listen.
    pub(super) reserved: Vec<Arc<str>>,
    /// Its transaction changes on what it listens.
    pub(super) changes: bool,
    /// The server process that carries out its transaction.
    pub(super) server: Option<u32>,
    mail: VecDeque<Bytes>,
    mail_bytes: usize,
    pub(super) overflow: bool,
}

impl Listener {
    pub(super) fn new(process: u32) -> Self {
        Self {
            process,
            channels: HashSet::new(),
            reserved: Vec::new(),
            changes: false,
            server: None,
            mail: VecDeque::new(),
            mail_bytes: 0,
            overflow: false,
        }
    }

    /// A notification by the server process `author`, which is the client's `own` if that process carried out its transaction.
    pub(super) fn post(&mut self, message: &Bytes, author: u32, own: bool) {
        let full = self.mail.len() >= MAIL_MAX || self.mail_bytes + message.len() > MAIL_BYTES_MAX;
        if self.overflow || full {
            self.overflow = true;
            self.mail = VecDeque::new();
            self.mail_bytes = 0;
            return;
        }
        self.mail_bytes += message.len();
        let renamed = backend::own_notification(message, author, own, self.process);
        self.mail
            .push_back(renamed.unwrap_or_else(|| message.clone()));
    }

    pub(super) fn has_mail(&self) -> bool {
        self.overflow || !self.mail.is_empty()
    }

    pub(super) fn take(&mut self, bytes: usize, out: &mut BytesMut) -> Result<(), Overflow> {
        if self.overflow {
            return Err(Overflow);
        }
        while out.len() < bytes
            && let Some(message) = self.mail.pop_front()
        {
            self.mail_bytes -= message.len();
            out.put_slice(&message);
        }
        if self.mail.is_empty() {
            // A client that has read everything keeps no memory.
            self.mail = VecDeque::new();
        }
        Ok(())
    }
}
