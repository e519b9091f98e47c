//! All server connections of a pool, for `SHOW SERVERS`: idle, with a client, or with a group run.

use super::ServerConn;
use super::generation::{Generation, GenerationGuard};
use super::info::ServerInfo;
use crate::address::Address;
use crate::clock::CoarseClock;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A server connection at one moment.
#[derive(Debug)]
pub struct ServerSnapshot {
    /// Its number in this process.
    pub id: u32,
    /// Its destination; `None` if the connection does not belong to a pool.
    pub address: Option<Arc<Address>>,
    /// The other properties for the console.
    pub info: Arc<ServerInfo>,
    /// Whether it is idle.
    pub idle: bool,
    /// Whether it is closed when it is free.
    pub close_needed: bool,
}

/// All connections of a pool.
#[derive(Debug, Default)]
pub(crate) struct ServerList(Mutex<Vec<ListedServer>>);

#[derive(Debug)]
struct ListedServer {
    id: u32,
    info: Weak<ServerInfo>,
    generation: Weak<Generation>,
}

impl ServerList {
    /// Adds a connection that was opened just now.
    pub(crate) fn add(&self, id: u32, clock: &CoarseClock, conn: &ServerConn) {
        let now = clock.seconds();
        conn.info.connected_at(now);
        let generation = conn.generation.as_ref();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.info.strong_count() > 0);
        entries.push(ListedServer {
            id,
            info: Arc::downgrade(&conn.info),
            generation: generation
                .map(GenerationGuard::generation)
                .unwrap_or_default(),
        });
    }

    /// All connections, given the idle ones and the current generation.
    pub(crate) fn snapshot(
        &self,
        idle: &[Arc<ServerInfo>],
        generation: &Weak<Generation>,
    ) -> Vec<ServerSnapshot> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = entries.iter().filter_map(|entry| {
            let info = entry.info.upgrade()?;
            Some(ServerSnapshot {
                id: entry.id,
                idle: idle.iter().any(|other| Arc::ptr_eq(other, &info)),
                close_needed: !entry.generation.ptr_eq(generation),
                address: entry
                    .generation
                    .upgrade()
                    .map(|own| Arc::clone(&own.address)),
                info,
            })
        });
        snapshot.collect()
    }
}
