//! Quotas: how many server connections and clients a database or a user has, all its pools together. Nobody waits here:
//! there is room or there is none.

#[cfg(test)]
mod tests;

use arc_swap::ArcSwap;
use paceline_config::PoolSettings;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// The user who logs in to the server; a reload may say that it is another one.
    server_user: ArcSwap<Quota>,
    /// The user that the clients name.
    client_user: Arc<Quota>,
}

/// All of them, by name.
#[derive(Debug, Default)]
pub(crate) struct QuotaBook {
    databases: Register,
    users: Register,
}

/// Quotas by name, as long as somebody counts on them: there is no end to the names that clients invent.
#[derive(Debug, Default)]
struct Register(Mutex<Named>);

#[derive(Debug, Default)]
struct Named {
    quotas: HashMap<String, Arc<Quota>>,
    /// How many were in use when it was looked at last.
    in_use: usize,
}

/// So many are not worth a look.
const FEW: usize = 64;

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
pub(crate) struct Hunger(Arc<Quota>);

impl QuotaBook {
    /// Those of a pool.
    pub(crate) fn of(&self, database: &str, client_user: &str, server_user: &str) -> Quotas {
        Quotas {
            database: self.databases.of(database),
            server_user: ArcSwap::new(self.users.of(server_user)),
            client_user: self.users.of(client_user),
        }
    }

    /// From now on the connections of a pool log in as this user. Those that there are count where they did.
    pub(crate) fn move_to(&self, quotas: &Quotas, server_user: &str) {
        quotas.server_user.store(self.users.of(server_user));
    }
}

impl Register {
    fn of(&self, name: &str) -> Arc<Quota> {
        let mut named = self.lock();
        if let Some(quota) = named.quotas.get(name) {
            return Arc::clone(quota);
        }
        named.forget_unused();
        Arc::clone(named.quotas.entry(name.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Named> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Named {
    /// Looks at them whenever they have doubled, so that a name costs little on average.
    fn forget_unused(&mut self) {
        if self.quotas.len() >= FEW.max(2 * self.in_use) {
            self.quotas.retain(|_, quota| Arc::strong_count(quota) > 1);
            self.in_use = self.quotas.len();
        }
    }
}

impl Quotas {
    /// A place for one more server connection.
    pub(crate) fn server_place(&self, settings: &PoolSettings) -> Result<ServerPlace, Full> {
        take(&self.database.servers, settings.database_servers_max).ok_or(Full::Database)?;
        let server_user = self.server_user.load_full();
        if take(&server_user.servers, settings.user_servers_max).is_none() {
            self.database.servers.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::User);
        }
        Ok(ServerPlace([Arc::clone(&self.database), server_user]))
    }

    /// A place for one more client, to be given back with [`Quotas::leave`].
    pub(crate) fn enter(&self, settings: &PoolSettings) -> Result<(), Full> {
        take(&self.database.clients, settings.database_clients_max).ok_or(Full::Database)?;
        if take(&self.client_user.clients, settings.user_clients_max).is_none() {
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

    /// From now on those who share what is full know that this pool has nothing; others could do nothing for it.
    pub(crate) fn hunger(&self, full: Full) -> Hunger {
        let quota = match full {
            Full::Database => Arc::clone(&self.database),
            Full::User => self.server_user.load_full(),
        };
        quota.hungry.fetch_add(1, Ordering::Relaxed);
        Hunger(quota)
    }

    /// Is there no place for one more server connection?
    pub(crate) fn are_full(&self, settings: &PoolSettings) -> bool {
        let full = |quota: &Quota, most: Option<usize>| {
            most.is_some_and(|most| quota.servers.load(Ordering::Relaxed) >= most)
        };
        full(&self.database, settings.database_servers_max)
            || full(&self.server_user.load(), settings.user_servers_max)
    }

    /// Does a pool have nothing because its database or user, which is that of this one, is full?
    pub(crate) fn others_hunger(&self) -> bool {
        self.database.hungry.load(Ordering::Relaxed) > 0
            || self.server_user.load().hungry.load(Ordering::Relaxed) > 0
    }

    /// Do connections of both count for what is full?
    pub(crate) fn share(&self, other: &Self, full: Full) -> bool {
        match full {
            Full::Database => Arc::ptr_eq(&self.database, &other.database),
            Full::User => Arc::ptr_eq(&self.server_user.load(), &other.server_user.load()),
        }
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
        self.0.hungry.fetch_sub(1, Ordering::Relaxed);
    }
}
