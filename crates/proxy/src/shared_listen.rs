//! The connections of `listen_mode = "shared"`: one connection per database listens for all clients.
//! [`paceline_relay::shared_listen`] decides what it sends and which client gets which notification.
//!
//! LISTEN needs no privilege in PostgreSQL, and a notification carries no role, so one connection serves the clients of all users
//! of a database. It logs in as the user of a client that listens. It is outside the pools and their limits, so that a LISTEN
//! never waits for the transactions of other clients. It exists while clients listen.

mod client;
mod connection;
mod errors;
mod state;

pub(crate) use client::{ListeningClient, NotificationEnd, is_silent, notification_ready};

use paceline_pool::address::{Address, DatabaseAddress};
use state::DatabaseListen;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shared LISTEN connections, one per database.
pub(crate) struct SharedListens {
    /// The channel on which marker notifications are sent.
    pub(crate) marker: Arc<str>,
    by_database: Mutex<HashMap<DatabaseAddress, Arc<DatabaseListen>>>,
}

impl SharedListens {
    pub(crate) fn new() -> Self {
        // The keys of a `RandomState` are random numbers of the operating system.
        let random = || RandomState::new().hash_one(0);
        Self {
            marker: format!("pacelinelisten_{:016x}{:016x}", random(), random()).into(),
            by_database: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DatabaseAddress, Arc<DatabaseListen>>> {
        self.by_database
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, address: &Address) -> Arc<DatabaseListen> {
        let mut all = self.lock();
        // Drops unused entries: clients may name any number of databases.
        all.retain(|_, shared| Arc::strong_count(shared) > 1);
        let database = DatabaseAddress::of(address);
        let shared = all
            .entry(database.clone())
            .or_insert_with(|| Arc::new(DatabaseListen::new(database, &self.marker)));
        Arc::clone(shared)
    }

    /// Applies a new configuration: clients whose pool now leads to another database are disconnected from the shared connection.
    pub(crate) fn reconfigure(&self) {
        for shared in self.lock().values() {
            shared.lose_moved();
        }
    }
}
