//! The shared LISTEN of one database: its clients, and what they wait for.

use bytes::Bytes;
use paceline_pool::address::DatabaseAddress;
use paceline_pool::pool::Pool;
use paceline_relay::shared_listen::{ListenAnswer, ListenRequestId, ListenerId, SharedListen};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// The shared LISTEN of a database.
pub(super) struct Shared {
    pub(super) database: DatabaseAddress,
    state: Mutex<State>,
    /// There is something to send, or to look at.
    pub(super) work: Notify,
}

pub(super) struct State {
    pub(super) core: SharedListen,
    pub(super) clients: HashMap<ListenerId, Entry>,
    pub(super) answers: HashMap<ListenRequestId, oneshot::Sender<Result<(), Bytes>>>,
    /// A task has the connection, or opens one.
    pub(super) runs: bool,
}

pub(super) struct Entry {
    pub(super) pool: Arc<Pool>,
    /// There is something for the client to read.
    pub(super) mail: Arc<Notify>,
    /// The connection was lost, of which the client is to be told.
    pub(super) lost: bool,
}

impl Shared {
    pub(super) fn new(database: DatabaseAddress, marker: &Arc<str>) -> Self {
        Self {
            database,
            state: Mutex::new(State::new(Arc::clone(marker))),
            work: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn is_of(&self, pool: &Pool) -> bool {
        DatabaseAddress::of(&pool.address()) == self.database
    }

    /// Clients whose pool leads to another database now are told that they missed notifications.
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
                "clients listen no longer: the configuration names another database"
            );
        }
        moved.into_iter().for_each(|id| state.lose(id));
        drop(state);
        self.work.notify_one();
    }
}

impl State {
    pub(super) fn new(marker: Arc<str>) -> Self {
        Self {
            core: SharedListen::new(marker),
            clients: HashMap::new(),
            answers: HashMap::new(),
            runs: false,
        }
    }

    /// The client is to be told that its connection is lost.
    pub(super) fn is_lost(&self, id: ListenerId) -> bool {
        self.clients.get(&id).is_none_or(|client| client.lost)
    }

    pub(super) fn answer(&mut self, answers: Vec<ListenAnswer>) {
        for (ticket, outcome) in answers {
            if let Some(waits) = self.answers.remove(&ticket) {
                // A client that has gone needs no answer.
                let _ = waits.send(outcome);
            }
        }
    }

    /// Tells those that have something to read.
    pub(super) fn wake(&mut self) {
        for id in self.core.take_woken() {
            if let Some(client) = self.clients.get(&id) {
                client.mail.notify_one();
            }
        }
    }

    /// All clients are told that notifications may be missing; they take part no longer.
    pub(super) fn lose_all(&mut self, error: &Bytes) {
        let answers = self.core.fail(error);
        self.answer(answers);
        let all: Vec<ListenerId> = self.clients.keys().copied().collect();
        all.into_iter().for_each(|id| self.lose(id));
    }

    /// The client is told that notifications may be missing; it takes part no longer.
    pub(super) fn lose(&mut self, id: ListenerId) {
        let dropped = self.core.leave(id);
        // Whoever waits for them hears that the connection is lost.
        dropped
            .iter()
            .for_each(|ticket| drop(self.answers.remove(ticket)));
        if let Some(client) = self.clients.get_mut(&id) {
            client.lost = true;
            client.mail.notify_one();
        }
    }
}
