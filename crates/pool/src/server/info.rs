//! The properties of a server connection for the console.

use crate::replication::Replication;
use paceline_net::Cipher;
use paceline_net::{Peer, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The properties of a server connection for the console, idle or in use.
#[derive(Debug)]
pub struct ServerInfo {
    /// The server at its other end.
    pub peer: Peer,
    /// The TLS cipher; `None` without TLS.
    pub cipher: Option<Cipher>,
    /// Whether it is compressed.
    pub compressed: bool,
    /// The process id of the backend.
    pub process: u32,
    /// Its kind, if it is a replication connection.
    pub replication: Option<Replication>,
    connected: AtomicU32,
    requested: AtomicU32,
    prepared: AtomicU32,
}

impl ServerInfo {
    /// Of a new connection.
    pub(super) fn new(
        stream: &Stream,
        process: u32,
        replication: Option<Replication>,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer: stream.peer(),
            cipher: stream.cipher(),
            compressed: stream.is_compressed(),
            process,
            replication,
            connected: AtomicU32::new(0),
            requested: AtomicU32::new(0),
            prepared: AtomicU32::new(0),
        })
    }

    /// Notes that the connection was opened, `now` by the [`CoarseClock`](crate::clock::CoarseClock).
    pub(super) fn connected_at(&self, now: u32) {
        self.connected.store(now, Ordering::Relaxed);
        self.request_begins(now);
    }

    /// Notes that a request begins, `now` by the [`CoarseClock`](crate::clock::CoarseClock).
    pub fn request_begins(&self, now: u32) {
        self.requested.store(now, Ordering::Relaxed);
    }

    /// Notes the number of prepared statements.
    pub fn set_prepared(&self, statements: usize) {
        let statements = u32::try_from(statements).unwrap_or(u32::MAX);
        self.prepared.store(statements, Ordering::Relaxed);
    }

    /// The time at which the connection was opened, by the [`CoarseClock`](crate::clock::CoarseClock).
    pub fn connected(&self) -> u32 {
        self.connected.load(Ordering::Relaxed)
    }

    /// The time at which the last request began, by the [`CoarseClock`](crate::clock::CoarseClock).
    pub fn requested(&self) -> u32 {
        self.requested.load(Ordering::Relaxed)
    }

    /// The number of prepared statements.
    pub fn prepared(&self) -> u32 {
        self.prepared.load(Ordering::Relaxed)
    }
}
