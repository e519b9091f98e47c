//! Databases that a statement of some client needs without other sessions (`DROP DATABASE` and its like): connections of pools
//! that lead there would make it fail, though nobody uses them.
//!
//! While such a statement runs, connections that are free are closed, and none is opened: units wait, as a new session would
//! wait for PostgreSQL's lock on the database. A connection in use stays, and PostgreSQL's own error is right then, unless it
//! comes back while the statement waits for it.

use super::{Inner, Pool};
use crate::proxy::Proxy;
use crate::server::Address;
use paceline_config::Host;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A database on a server. Two names of one machine are taken for two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    host: Host,
    port: u16,
    database: String,
}

impl Place {
    /// A database on the server of this address.
    pub(crate) fn beside(address: &Address, database: String) -> Self {
        Self {
            host: address.upstream.host.clone(),
            port: address.upstream.port,
            database,
        }
    }

    /// Does this address lead there?
    pub(crate) fn is_at(&self, address: &Address) -> bool {
        let Self {
            host,
            port,
            database,
        } = self;
        (host, *port, database)
            == (
                &address.upstream.host,
                address.upstream.port,
                &address.database,
            )
    }
}

/// One statement's use of a database, until it is dropped.
#[derive(Debug)]
pub(crate) struct Use;

/// A statement that must find no other session in a database is about to run, until this is dropped.
pub(crate) struct Exclusive {
    proxy: Arc<Proxy>,
    /// `None` only while it is dropped.
    running: Option<Arc<Use>>,
}

impl Exclusive {
    /// Closes what is free of all pools that lead there.
    pub(crate) fn begin(proxy: &Arc<Proxy>, place: Place) -> Self {
        let running = Arc::new(Use);
        proxy.uses(place, &Arc::downgrade(&running));
        Self {
            proxy: Arc::clone(proxy),
            running: Some(running),
        }
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        self.running = None;
        let pools = self.proxy.pools();
        pools.iter().for_each(Pool::is_free_again);
    }
}

impl Inner {
    /// Does a statement need its database without other sessions?
    pub(super) fn is_excluded(&self) -> bool {
        !self.uses.is_empty() && self.uses.iter().any(|running| running.strong_count() > 0)
    }
}

impl Pool {
    /// A statement needs its database without other sessions.
    pub(crate) fn exclude(&self, running: &Weak<Use>) {
        let mut inner = self.lock();
        inner.uses.push(Weak::clone(running));
        // It opens none until the statement is over, whatever other pools leave to it.
        inner.hunger = None;
        let Inner { idle, parked, .. } = &mut *inner;
        let free: Vec<_> = idle.drain(..).chain(parked.drain(..)).collect();
        inner.open -= free.len();
        free.into_iter().for_each(|conn| conn.say_goodbye());
    }

    /// Such a statement is over; those who wait may have connections again.
    fn is_free_again(self: &Arc<Self>) {
        let mut inner = self.lock();
        if inner.uses.is_empty() {
            return;
        }
        inner.uses.retain(|running| running.strong_count() > 0);
        self.dispatch(&mut inner, Instant::now());
        self.tend(&mut inner);
        self.look_again.notify_one();
    }
}
