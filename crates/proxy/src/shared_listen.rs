//! The connections of `listen_mode = "shared"`: one for each database listens for all clients. What is sent and who gets what
//! is decided in [`paceline_relay::shared_listen`].
//!
//! LISTEN needs no privilege in PostgreSQL and a notification carries no role, so one connection serves the clients of all
//! users of a database. It logs in as the user of one of the clients that listen. It is no connection of a pool and counts for
//! no limit of one, so that a LISTEN never waits for a transaction of others. It exists while clients listen.

mod client;
mod connection;
mod errors;
mod state;

pub(crate) use client::{ListeningClient, MailEnd, is_silent, mail};

use paceline_pool::address::{Address, DatabaseAddress};
use state::Shared;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shared LISTEN of each database.
pub struct SharedListens {
    /// The channel of markers.
    pub(crate) marker: Arc<str>,
    by_database: Mutex<HashMap<DatabaseAddress, Arc<Shared>>>,
}

impl SharedListens {
    pub(crate) fn new() -> Self {
        // Its keys are random numbers of the operating system.
        let random = || RandomState::new().hash_one(0);
        Self {
            marker: format!("pacelinelisten_{:016x}{:016x}", random(), random()).into(),
            by_database: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DatabaseAddress, Arc<Shared>>> {
        self.by_database
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, address: &Address) -> Arc<Shared> {
        let mut all = self.lock();
        // Those that nobody uses are forgotten: clients may name many databases.
        all.retain(|_, shared| Arc::strong_count(shared) > 1);
        let database = DatabaseAddress::of(address);
        let shared = all
            .entry(database.clone())
            .or_insert_with(|| Arc::new(Shared::new(database, &self.marker)));
        Arc::clone(shared)
    }

    /// The configuration has changed: clients whose database is led elsewhere now listen no longer.
    pub(crate) fn reconfigure(&self) {
        for shared in self.lock().values() {
            shared.lose_moved();
        }
    }
}
