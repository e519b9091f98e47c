//! Console sessions by cancel key: a cancel request ends a wait for PAUSE, SUSPEND or WAIT_CLOSE.

use super::key::CancelKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Console sessions by process id.
#[derive(Debug, Default)]
pub struct ConsoleKeys(Mutex<HashMap<u32, ConsoleEntry>>);

#[derive(Debug)]
struct ConsoleEntry {
    key: CancelKey,
    /// The key names this process for its peers.
    is_of_peer: bool,
    cancelled: Arc<Notify>,
}

/// The access of a user to the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleAccess {
    /// Everything.
    Admin,
    /// SHOW.
    Stats,
}

/// A console session that is registered until this is dropped.
pub struct ConsoleGrant {
    keys: Arc<ConsoleKeys>,
    /// The access of the user.
    pub access: ConsoleAccess,
    /// The process id for cancel requests.
    pub process: u32,
    /// The secret for cancel requests.
    pub secret: u32,
    /// Notified by a cancel request.
    pub cancelled: Arc<Notify>,
}

impl ConsoleKeys {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, ConsoleEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of console sessions.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Handles a cancel request. False: the key belongs to no console session.
    pub(crate) fn cancel(&self, key: CancelKey) -> bool {
        let entries = self.lock();
        let Some(entry) = entries.get(&key.process) else {
            return false;
        };
        let given = match entry.is_of_peer {
            true => key.as_issued(),
            false => key,
        };
        let is_own = entry.key == given;
        if is_own {
            entry.cancelled.notify_waiters();
        }
        is_own
    }
}

impl ConsoleKeys {
    /// Registers a console session. `None`: the system has no random numbers.
    pub(crate) fn register(
        self: &Arc<Self>,
        peer_id: u16,
        access: ConsoleAccess,
    ) -> Option<ConsoleGrant> {
        let cancelled = Arc::new(Notify::new());
        let mut entries = self.lock();
        let key = loop {
            let key = match peer_id {
                0 => CancelKey::random()?,
                _ => CancelKey::of_peer(peer_id)?,
            };
            if key.process != 0 && !entries.contains_key(&key.process) {
                break key;
            }
        };
        let entry = ConsoleEntry {
            key,
            is_of_peer: peer_id > 0,
            cancelled: Arc::clone(&cancelled),
        };
        entries.insert(key.process, entry);
        drop(entries);
        Some(ConsoleGrant {
            keys: Arc::clone(self),
            access,
            process: key.process,
            secret: key.secret,
            cancelled,
        })
    }
}

impl Drop for ConsoleGrant {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.process);
    }
}
