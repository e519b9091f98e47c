//! Bookkeeping of a pool's server connections.

use super::{Pool, Servers};
use crate::clock;
use crate::hosts::DatabaseHosts;
use crate::server::{ServerConn, ServerInfo, ServerSnapshot};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;

impl Servers {
    /// Whether the connection belongs to the current generation.
    pub(super) fn is_current(&self, conn: &ServerConn) -> bool {
        let generation = conn.generation.as_ref();
        generation.is_some_and(|guard| guard.is_of(&self.generation))
    }

    /// Closes all idle and suspended connections.
    pub(super) fn close_idle(&mut self) {
        let idle = self.idle.drain(..).chain(self.suspended.drain(..));
        let closed = idle.map(|conn| conn.terminate()).count();
        self.open -= closed;
    }

    /// The error for a client that needs a connection now: the last login of a pool without connections was refused for good.
    pub(super) fn refusal(&self, now: Instant) -> Option<Bytes> {
        if self.open > 0 {
            return None;
        }
        let backoff = self.backoff.as_ref().filter(|backoff| now < backoff.until);
        backoff.and_then(|backoff| backoff.message.clone())
    }

    /// Whether there is no connection, and none can be opened now. If there are several hosts, requests wait for a primary while
    /// `failover_timeout` permits it.
    pub(super) fn is_unreachable(&self, now: Instant) -> bool {
        match &self.hosts {
            Some(_) => {
                let gave_up = self.no_primary.is_some_and(|none| none.until <= now);
                gave_up || self.refusal(now).is_some()
            }
            None => self.open == 0 && self.grow_not_before > now,
        }
    }

    /// Whether a further connection may be opened now. Connections are opened one at a time: the server may be away.
    pub(super) fn may_open(&self, now: Instant) -> bool {
        self.opening == 0 && self.grow_not_before <= now
    }

    /// The next attempt may succeed although earlier ones failed.
    pub(super) fn forget_failures(&mut self) {
        self.backoff = None;
        self.grow_not_before = clock::now();
    }
}

impl Pool {
    /// The server connections, for the console.
    pub fn servers(&self) -> Vec<ServerSnapshot> {
        let inner = self.lock();
        let idle = inner.servers.idle.iter().chain(&inner.servers.suspended);
        let idle: Vec<Arc<ServerInfo>> = idle.map(|conn| Arc::clone(&conn.info)).collect();
        let generation = Arc::downgrade(&inner.servers.generation);
        drop(inner);
        self.server_list.snapshot(&idle, &generation)
    }

    /// The hosts of the database; `None` if it has one that is not monitored.
    pub fn hosts(&self) -> Option<Arc<DatabaseHosts>> {
        match &self.replica {
            Some(replica) => Some(Arc::clone(&replica.hosts)),
            None => self.lock().servers.hosts.clone(),
        }
    }
}
