//! Quotas: maximum numbers of server connections and clients per database and user, over all pools. Nothing here waits.

#[cfg(test)]
mod tests;

use arc_swap::ArcSwap;
use paceline_config::PoolSettings;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of one database or user.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    servers: AtomicUsize,
    clients: AtomicUsize,
    /// Pools that have no server connection and may not open one.
    starving: AtomicUsize,
}

/// The quotas for which a pool counts.
#[derive(Debug, Default)]
pub struct Quotas {
    database: Arc<Quota>,
    /// The user as which the pool logs in to the server; a reload may change it.
    server_user: ArcSwap<Quota>,
    /// The user that clients name.
    client_user: Arc<Quota>,
}

/// All quotas, by name.
#[derive(Debug, Default)]
pub(crate) struct QuotaBook {
    databases: Register,
    users: Register,
}

/// Quotas by name while a pool counts for them: clients may invent any number of names.
#[derive(Debug, Default)]
struct Register(Mutex<QuotaMap>);

#[derive(Debug, Default)]
struct QuotaMap {
    quotas: HashMap<String, Arc<Quota>>,
    /// Quotas in use at the last cleaning.
    in_use: usize,
}

/// Up to this number quotas are not cleaned.
const FEW: usize = 64;

/// The limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// That of the database.
    Database,
    /// That of the user.
    User,
}

/// The permission for one server connection, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerSlot([Arc<Quota>; 2]);

/// A pool that cannot have a connection while this exists.
#[derive(Debug)]
pub(crate) struct Starving(Arc<Quota>);

impl QuotaBook {
    /// The quotas of a pool.
    pub(crate) fn of(&self, database: &str, client_user: &str, server_user: &str) -> Quotas {
        Quotas {
            database: self.databases.of(database),
            server_user: ArcSwap::new(self.users.of(server_user)),
            client_user: self.users.of(client_user),
        }
    }

    /// Counts new connections of a pool for another user. Present connections count as before.
    pub(crate) fn change_user(&self, quotas: &Quotas, server_user: &str) {
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

    fn lock(&self) -> MutexGuard<'_, QuotaMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuotaMap {
    /// Drops unused quotas whenever their number has doubled.
    fn forget_unused(&mut self) {
        if self.quotas.len() >= FEW.max(2 * self.in_use) {
            self.quotas.retain(|_, quota| Arc::strong_count(quota) > 1);
            self.in_use = self.quotas.len();
        }
    }
}

impl Quotas {
    /// A slot for one more server connection.
    pub(crate) fn server_slot(&self, settings: &PoolSettings) -> Result<ServerSlot, Full> {
        take(&self.database.servers, settings.database_servers_max).ok_or(Full::Database)?;
        let server_user = self.server_user.load_full();
        if take(&server_user.servers, settings.user_servers_max).is_none() {
            self.database.servers.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::User);
        }
        Ok(ServerSlot([Arc::clone(&self.database), server_user]))
    }

    /// Counts one more client, until [`Quotas::leave`].
    ///
    /// # Errors
    /// The limit of the database or of the user is reached.
    pub fn enter(&self, settings: &PoolSettings) -> Result<(), Full> {
        take(&self.database.clients, settings.database_clients_max).ok_or(Full::Database)?;
        if take(&self.client_user.clients, settings.user_clients_max).is_none() {
            self.database.clients.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::User);
        }
        Ok(())
    }

    /// Counts one client less.
    pub fn leave(&self) {
        self.database.clients.fetch_sub(1, Ordering::Relaxed);
        self.client_user.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// Shows the pools that share this limit that this pool has no connection.
    pub(crate) fn starving(&self, full: Full) -> Starving {
        let quota = match full {
            Full::Database => Arc::clone(&self.database),
            Full::User => self.server_user.load_full(),
        };
        quota.starving.fetch_add(1, Ordering::Relaxed);
        Starving(quota)
    }

    /// Whether the limits allow no further server connection.
    pub(crate) fn are_full(&self, settings: &PoolSettings) -> bool {
        let full = |quota: &Quota, most: Option<usize>| {
            most.is_some_and(|most| quota.servers.load(Ordering::Relaxed) >= most)
        };
        full(&self.database, settings.database_servers_max)
            || full(&self.server_user.load(), settings.user_servers_max)
    }

    /// Whether another pool has no connection because of a limit that it shares with this one.
    pub(crate) fn others_starve(&self) -> bool {
        self.database.starving.load(Ordering::Relaxed) > 0
            || self.server_user.load().starving.load(Ordering::Relaxed) > 0
    }

    /// Whether the connections of both count for this limit.
    pub fn share(&self, other: &Self, full: Full) -> bool {
        match full {
            Full::Database => Arc::ptr_eq(&self.database, &other.database),
            Full::User => Arc::ptr_eq(&self.server_user.load(), &other.server_user.load()),
        }
    }
}

/// Adds one unless the limit is reached.
fn take(count: &AtomicUsize, most: Option<usize>) -> Option<()> {
    let one_more = |count| most.is_none_or(|most| count < most).then_some(count + 1);
    let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    taken.ok().map(drop)
}

impl Drop for ServerSlot {
    fn drop(&mut self) {
        for quota in &self.0 {
            quota.servers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Starving {
    fn drop(&mut self) {
        self.0.starving.fetch_sub(1, Ordering::Relaxed);
    }
}
