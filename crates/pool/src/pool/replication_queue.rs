//! The queue of replication clients that wait for a server connection.

use crate::quota::ServerSlot;
use crate::server::Generation;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// The replication clients of a pool.
#[derive(Debug, Default)]
pub(super) struct ReplicationQueue {
    waiting: VecDeque<Waiting>,
    /// Connections that clients have, or that are being opened for them.
    pub(super) open: usize,
    replaced: watch::Sender<()>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    answer: oneshot::Sender<Result<Grant, Bytes>>,
}

/// The permission to open one connection, for a client that has waited.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) generation: Arc<Generation>,
    pub(super) slot: ServerSlot,
    pub(super) replaced: watch::Receiver<()>,
}

impl ReplicationQueue {
    /// Whether a client waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Since when the first client has waited.
    pub(super) fn first_since(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.since)
    }

    /// Adds a client, in the order of `since`: a client that tries again after a failure keeps its turn.
    pub(super) fn enqueue(&mut self, since: Instant) -> oneshot::Receiver<Result<Grant, Bytes>> {
        let (answer, grant) = oneshot::channel();
        let later = |other: &Waiting| other.since > since;
        let at = self.waiting.iter().position(later);
        let at = at.unwrap_or(self.waiting.len());
        self.waiting.insert(at, Waiting { since, answer });
        grant
    }

    /// Drops clients that have left.
    pub(super) fn forget_left(&mut self) {
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
    }

    /// Grants the first client a connection. Returns since when it has waited, and whether it is still there; `None` if no client
    /// waits.
    pub(super) fn grant(
        &mut self,
        generation: &Arc<Generation>,
        slot: ServerSlot,
    ) -> Option<(Instant, bool)> {
        let first = self.waiting.pop_front()?;
        let grant = Grant {
            generation: Arc::clone(generation),
            slot,
            replaced: self.replaced.subscribe(),
        };
        let is_there = first.answer.send(Ok(grant)).is_ok();
        self.open += usize::from(is_there);
        Some((first.since, is_there))
    }

    /// Has the present connections replaced.
    pub(super) fn replace(&self) {
        self.replaced.send_replace(());
    }

    /// Ends the waits with this error.
    pub(super) fn reject(&mut self, message: &Bytes) {
        for waiting in self.waiting.drain(..) {
            // A client that has left needs no answer.
            let _ = waiting.answer.send(Err(message.clone()));
        }
    }
}
