//! Quotas: how many server connections and clients a database or a user has, all its pools together. Nobody waits here:
//! there is room or there is none.

#[cfg(test)]
mod tests;

use crate::config::Terms;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What one database or user has.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    servers: AtomicUsize,
    clients: AtomicUsize,
    /// Pools that have no server connection and may not open one.
    hungry: AtomicUsize,
}

/// Those that a pool counts for.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    database: Arc<Quota>,
    /// The user who logs in to the server.
    server_user: Arc<Quota>,
    /// The user that the clients name.
    client_user: Arc<Quota>,
}

/// All of them, by name.
#[derive(Debug, Default)]
pub(crate) struct QuotaBook {
    databases: Mutex<HashMap<String, Arc<Quota>>>,
    users: Mutex<HashMap<String, Arc<Quota>>>,
}

/// What there are too many connections of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Database,
    User,
}

/// The place of a server connection; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ServerPlace([Arc<Quota>; 2]);

/// A pool that cannot have a connection, as long as this lives.
#[derive(Debug)]
pub(crate) struct Hunger([Arc<Quota>; 2]);

impl QuotaBook {
    /// Those of a pool.
    pub(crate) fn of(&self, database: &str, client_user: &str, server_user: &str) -> Quotas {
        Quotas {
            database: named(&self.databases, database),
            server_user: named(&self.users, server_user),
            client_user: named(&self.users, client_user),
        }
    }
}

fn named(quotas: &Mutex<HashMap<String, Arc<Quota>>>, name: &str) -> Arc<Quota> {
    let mut quotas = quotas.lock().unwrap_or_else(PoisonError::into_inner);
    match quotas.get(name) {
        Some(quota) => Arc::clone(quota),
        None => Arc::clone(quotas.entry(name.to_owned()).or_default()),
    }
}

impl Quotas {
    /// A place for one more server connection.
    pub(crate) fn server_place(&self, terms: &Terms) -> Result<ServerPlace, Full> {
        take(&self.database.servers, terms.database_servers_max).ok_or(Full::Database)?;
        if take(&self.server_user.servers, terms.user_servers_max).is_none() {
            self.database.servers.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::User);
        }
        Ok(ServerPlace(self.of_servers()))
    }

    /// A place for one more client, to be given back with [`Quotas::leave`].
    pub(crate) fn enter(&self, terms: &Terms) -> Result<(), Full> {
        take(&self.database.clients, terms.database_clients_max).ok_or(Full::Database)?;
        if take(&self.client_user.clients, terms.user_clients_max).is_none() {
            self.database.clients.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::User);
        }
        Ok(())
    }

    /// A client has gone.
    pub(crate) fn leave(&self) {
        self.database.clients.fetch_sub(1, Ordering::Relaxed);
        self.client_user.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// From now on others know that this pool has nothing.
    pub(crate) fn hunger(&self) -> Hunger {
        let quotas = self.of_servers();
        for quota in &quotas {
            quota.hungry.fetch_add(1, Ordering::Relaxed);
        }
        Hunger(quotas)
    }

    /// Is there no place for one more server connection?
    pub(crate) fn are_full(&self, terms: &Terms) -> bool {
        let full = |quota: &Quota, most: Option<usize>| {
            most.is_some_and(|most| quota.servers.load(Ordering::Relaxed) >= most)
        };
        full(&self.database, terms.database_servers_max)
            || full(&self.server_user, terms.user_servers_max)
    }

    /// Does a pool of the same database or user have nothing?
    pub(crate) fn others_hunger(&self) -> bool {
        self.database.hungry.load(Ordering::Relaxed) > 0
            || self.server_user.hungry.load(Ordering::Relaxed) > 0
    }

    /// Do connections of both count for what is full?
    pub(crate) fn share(&self, other: &Self, full: Full) -> bool {
        match full {
            Full::Database => Arc::ptr_eq(&self.database, &other.database),
            Full::User => Arc::ptr_eq(&self.server_user, &other.server_user),
        }
    }

    fn of_servers(&self) -> [Arc<Quota>; 2] {
        [Arc::clone(&self.database), Arc::clone(&self.server_user)]
    }
}

/// One more, if there is room.
fn take(count: &AtomicUsize, most: Option<usize>) -> Option<()> {
    let one_more = |count| most.is_none_or(|most| count < most).then_some(count + 1);
    let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    taken.ok().map(drop)
}

impl Drop for ServerPlace {
    fn drop(&mut self) {
        for quota in &self.0 {
            quota.servers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Hunger {
    fn drop(&mut self) {
        for quota in &self.0 {
            quota.hungry.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
