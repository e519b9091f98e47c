//! The shared LISTEN of one database: its clients and their pending requests.

use bytes::Bytes;
use paceline_pool::address::DatabaseAddress;
use paceline_pool::pool::Pool;
use paceline_relay::shared_listen::{ListenAnswer, ListenRequestId, ListenerId, SharedListen};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// The shared LISTEN of a database.
pub(super) struct DatabaseListen {
    pub(super) database: DatabaseAddress,
    state: Mutex<ListenState>,
    /// Notified when there is something to send or to check.
    pub(super) work: Notify,
}

pub(super) struct ListenState {
    pub(super) core: SharedListen,
    pub(super) clients: HashMap<ListenerId, ListenEntry>,
    pub(super) answers: HashMap<ListenRequestId, oneshot::Sender<Result<(), Bytes>>>,
    /// Whether a task runs that has the connection or opens it.
    pub(super) has_task: bool,
}

pub(super) struct ListenEntry {
    pub(super) pool: Arc<Pool>,
    /// Notified when notifications wait for the client.
    pub(super) wake: Arc<Notify>,
    /// Whether the connection was lost for this client, which gets an error.
    pub(super) lost: bool,
}

impl DatabaseListen {
    pub(super) fn new(database: DatabaseAddress, marker: &Arc<str>) -> Self {
        Self {
            database,
            state: Mutex::new(ListenState::new(Arc::clone(marker))),
            work: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ListenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DatabaseListen {
    pub(super) fn is_of(&self, pool: &Pool) -> bool {
        DatabaseAddress::of(&pool.address()) == self.database
    }

    /// Disconnects clients whose pool now leads to another database: they may have missed notifications.
    pub(super) fn lose_moved(&self) {
        let mut state = self.lock();
        let moved = state.clients.iter();
        let moved = moved.filter(|(_, client)| !client.lost && !self.is_of(&client.pool));
        let moved: Vec<ListenerId> = moved.map(|(id, _)| *id).collect();
        if !moved.is_empty() {
            let database = self.database.database();
            tracing::warn!(
                database,
                clients = moved.len(),
                "clients that listen are disconnected: their database is now on another server"
            );
        }
        moved.into_iter().for_each(|id| state.lose(id));
        drop(state);
        self.work.notify_one();
    }
}

impl ListenState {
    pub(super) fn new(marker: Arc<str>) -> Self {
        Self {
            core: SharedListen::new(marker),
            clients: HashMap::new(),
            answers: HashMap::new(),
            has_task: false,
        }
    }

    /// Whether the connection is lost for this client.
    pub(super) fn is_lost(&self, id: ListenerId) -> bool {
        self.clients.get(&id).is_none_or(|client| client.lost)
    }

    pub(super) fn answer(&mut self, answers: Vec<ListenAnswer>) {
        for (ticket, outcome) in answers {
            if let Some(waits) = self.answers.remove(&ticket) {
                // A client that has left needs no answer.
                let _ = waits.send(outcome);
            }
        }
    }

    /// Wakes clients for which notifications have arrived.
    pub(super) fn wake(&mut self) {
        for id in self.core.take_woken() {
            if let Some(client) = self.clients.get(&id) {
                client.wake.notify_one();
            }
        }
    }

    /// Disconnects all clients: they may have missed notifications.
    pub(super) fn lose_all(&mut self, error: &Bytes) {
        let answers = self.core.fail(error);
        self.answer(answers);
        let all: Vec<ListenerId> = self.clients.keys().copied().collect();
        all.into_iter().for_each(|id| self.lose(id));
    }

    /// Disconnects a client: it may have missed notifications.
    pub(super) fn lose(&mut self, id: ListenerId) {
        let dropped = self.core.leave(id);
        // When the senders are dropped, waiting clients notice that the connection is lost.
        dropped
            .iter()
            .for_each(|ticket| drop(self.answers.remove(ticket)));
        if let Some(client) = self.clients.get_mut(&id) {
            client.lost = true;
            client.wake.notify_one();
        }
    }
}
