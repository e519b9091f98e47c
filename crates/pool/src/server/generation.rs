//! Generations of a pool's connections: those that were opened between two orders to replace all connections.
//!
//! An order to reconnect begins a generation; connections of earlier ones are closed when they are returned. A generation ends
//! when its last connection is closed.

use super::ServerError;
use super::log::Replaced;
use crate::address::Address;
use paceline_net::Stream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// One generation. It exists while the pool or a connection refers to it.
#[derive(Debug)]
pub(crate) struct Generation {
    /// The destination of its connections.
    pub(crate) address: Arc<Address>,
    /// [`Address::moves`] when the generation began.
    moves: u64,
    /// To tasks that wait for its end.
    ended: Arc<Notify>,
    /// The reason why a later generation has begun.
    pub(crate) replaced: Replaced,
    /// Whether a later generation has begun.
    is_past: watch::Sender<bool>,
    /// For [`Generation::shut_down`].
    sockets: Mutex<Vec<Weak<OwnedFd>>>,
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.ended.notify_waiters();
    }
}

/// Makes a connection part of a generation while the connection exists.
#[derive(Debug)]
pub(crate) struct GenerationGuard {
    generation: Arc<Generation>,
    _socket: Option<Arc<OwnedFd>>,
}

impl GenerationGuard {
    /// Makes the connection of this stream part of the generation.
    pub(crate) fn new(generation: &Arc<Generation>, stream: &Stream) -> Self {
        Self {
            generation: Arc::clone(generation),
            _socket: generation.register(stream),
        }
    }

    /// Whether the connection belongs to this generation.
    pub(crate) fn is_of(&self, generation: &Arc<Generation>) -> bool {
        Arc::ptr_eq(&self.generation, generation)
    }

    /// The generation, for comparison.
    pub(super) fn generation(&self) -> Weak<Generation> {
        Arc::downgrade(&self.generation)
    }
}

impl Generation {
    /// A generation without connections. `ended` is notified when it ends.
    pub(crate) fn new(address: Arc<Address>, ended: &Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            moves: address.moves(),
            address,
            ended: Arc::clone(ended),
            replaced: Replaced::default(),
            is_past: watch::Sender::new(false),
            sockets: Mutex::default(),
        })
    }

    /// Whether the name of the server leads to another address than when the generation began.
    pub(crate) fn has_moved(&self) -> bool {
        self.moves != self.address.moves()
    }

    /// Notes that a later generation has begun, and why. Attempts to open connections of this one end.
    pub(crate) fn replace(&self, why: &'static str) {
        self.replaced.set(why);
        self.is_past.send_replace(true);
    }

    /// Returns the result of an attempt to open a connection of this generation. Once a later generation has begun, the connection
    /// would not be used, and its server may never answer.
    ///
    /// # Errors
    /// That of the attempt, or [`ServerError::Replaced`].
    pub(crate) async fn attempt<T>(
        &self,
        opening: impl Future<Output = Result<T, ServerError>>,
    ) -> Result<T, ServerError> {
        let mut is_past = self.is_past.subscribe();
        tokio::select! {
            biased;
            opened = opening => opened,
            _ = is_past.wait_for(|is_past| *is_past) => Err(ServerError::Replaced),
        }
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Weak<OwnedFd>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If the process has no file descriptor left, the connection cannot be shut down; it is closed when it is returned.
    fn register(&self, stream: &Stream) -> Option<Arc<OwnedFd>> {
        let socket = Arc::new(stream.duplicate().ok()?);
        let mut sockets = self.sockets();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(&socket));
        Some(socket)
    }

    /// Shuts down all connections as [`Generation::shut_down`] does, and does not send what their servers have not received yet: the
    /// network may have lost it until now, and a server that is not the primary any more must not execute it later.
    pub(crate) fn cut(&self) {
        for socket in self.sockets().iter().filter_map(Weak::upgrade) {
            // Then the operating system discards it when the socket is closed.
            let now = Some(Duration::ZERO);
            if let Err(error) = rustix::net::sockopt::set_socket_linger(&socket, now) {
                tracing::debug!(%error, "SO_LINGER could not be set");
            }
        }
        self.shut_down();
    }

    /// Shuts down the sockets of all connections, idle or in use.
    pub(crate) fn shut_down(&self) {
        for socket in self.sockets().iter().filter_map(Weak::upgrade) {
            if let Err(error) = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both) {
                tracing::debug!(%error, "a server connection was closed already");
            }
        }
    }
}
