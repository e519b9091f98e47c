//! A pool of a database with several hosts follows the primary. While there is none, the pool opens no connection, and requests
//! wait in the line.

use super::{Inner, Pool, PoolState};
use crate::address::Address;
use crate::clock;
use crate::close_reason;
use crate::hosts::{DatabaseHosts, NoPrimary, PrimaryState, is_same_server};
use crate::messages;
use bytes::Bytes;
use paceline_config::Upstream;
use std::sync::{Arc, Weak};
use std::time::Instant;

impl Inner {
    /// The error for clients if there has been no primary for `failover_timeout`. Clients of a paused or suspended database wait for
    /// the operator, who may be changing the primary.
    pub(super) fn gave_up(&self, now: Instant) -> Option<Bytes> {
        if matches!(self.admin.state, PoolState::Paused | PoolState::Suspended) {
            return None;
        }
        let gave_up = self.servers.no_primary.filter(|none| none.until <= now)?;
        Some(messages::no_primary(now.duration_since(gave_up.since)))
    }

    fn is_of(&self, hosts: &Arc<DatabaseHosts>) -> bool {
        let own = self.servers.hosts.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, hosts))
    }
}

impl Pool {
    /// This host is the primary now. Cuts the connections to other hosts: these may be alive, and must not commit anything more for
    /// clients. The pool uses the primary after [`Pool::follow_primary`].
    pub(crate) fn leave_others(&self, hosts: &Arc<DatabaseHosts>, upstream: &Upstream) {
        let mut inner = self.lock();
        if !inner.is_of(hosts) {
            return;
        }
        let address = Arc::clone(&inner.servers.generation.address);
        let upstream = &self.with_login(&address.upstream, upstream);
        let is_other = address.upstream != *upstream;
        if is_other || inner.servers.generation.has_moved() {
            let none = &mut inner.servers.no_primary;
            none.get_or_insert_with(NoPrimary::until_pools_switch);
        }
        if is_other {
            let address = Address {
                upstream: upstream.clone(),
                location: hosts.location(upstream),
                ..(*address).clone()
            };
            self.change_address(&mut inner, address, close_reason::PRIMARY_CHANGED);
        }
        self.cut_others(&mut inner);
    }

    /// Cuts the connections of a database with several hosts to other servers than that of new connections.
    fn cut_others(&self, inner: &mut Inner) {
        if inner.servers.hosts.is_none() {
            return;
        }
        if inner.servers.generation.has_moved() {
            inner.analyses.clear();
            self.replace_connections(inner, close_reason::PRIMARY_CHANGED);
            inner.replication.replace();
        }
        let primary = &inner.servers.generation.address.upstream;
        let past = inner.servers.past.iter().filter_map(Weak::upgrade);
        past.filter(|past| past.has_moved() || !is_same_server(&past.address.upstream, primary))
            .for_each(|past| past.cut());
    }

    /// The primary of these hosts has changed. A pool of other hosts ignores it.
    pub(crate) fn follow_primary(
        self: &Arc<Self>,
        hosts: &Arc<DatabaseHosts>,
        primary: &PrimaryState,
    ) {
        let now = clock::now();
        let mut inner = self.lock();
        if !inner.is_of(hosts) {
            return;
        }
        match primary {
            PrimaryState::Known(_) => {
                inner.servers.forget_failures();
                self.apply_primary(&mut inner, None);
            }
            PrimaryState::Unknown(none) => self.apply_primary(&mut inner, Some(*none)),
        }
        self.give_up_failover(&mut inner, now);
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
        self.signals.look_again.notify_one();
    }

    /// Whether the pool has a primary that it may use.
    #[cfg(test)]
    pub(crate) fn has_primary(&self) -> bool {
        self.lock().servers.no_primary.is_none()
    }

    /// A statement of a client was rejected because the server is read only (SQLSTATE 25006).
    pub fn suspect_primary(&self) {
        self.suspect_host(&self.lock());
    }

    /// Notes whether there is a primary, to which the present address leads.
    ///
    /// If there is none, closes idle connections. Those in use remain: if the server is gone, they are lost; else it may become the
    /// primary again. If there is one, cuts the connections to other hosts: these may be alive, and must not commit anything more
    /// for clients.
    pub(super) fn apply_primary(&self, inner: &mut Inner, no_primary: Option<NoPrimary>) {
        let before = std::mem::replace(&mut inner.servers.no_primary, no_primary);
        if no_primary.is_some() {
            if before.is_none() {
                self.replace_connections(inner, close_reason::PRIMARY_CHANGED);
            }
            return;
        }
        self.cut_others(inner);
    }

    /// The address of a host, with the login of this pool: those of a shard's hosts have none.
    pub(super) fn with_login(&self, own: &Upstream, host: &Upstream) -> Upstream {
        match self.is_of_shard() {
            true => own.on_host(host),
            false => host.clone(),
        }
    }

    /// If there has been no primary for too long, ends the connections of the clients that wait. The coordinator executes statements for
    /// a shard.
    pub(super) fn give_up_failover(&self, inner: &mut Inner, now: Instant) {
        if let Some(message) = inner.gave_up(now) {
            if self.is_of_shard() {
                return self.send_elsewhere(inner, now);
            }
            let waiting = inner.line.drain(now);
            self.reject(waiting, &message);
            inner.replication.reject(&message);
        }
    }
}
