//! The connections of `listen_mode = "shared"`: one for each database listens for all clients. What is sent and who gets what
//! is decided in [`paceline_relay::shared_listen`].
//!
//! LISTEN needs no privilege in PostgreSQL and a notification carries no role, so one connection serves the clients of all
//! users of a database. It logs in as the user of one of the clients that listen. It is no connection of a pool and counts for
//! no limit of one, so that a LISTEN never waits for a transaction of others. It exists while clients listen.

mod client;
mod connection;

pub(crate) use client::{ListeningClient, MailEnd, is_silent, mail};

use crate::pool::Pool;
use crate::proxy::Proxy;
use crate::server::Address;
use bytes::Bytes;
use paceline_config::Host;
use paceline_relay::shared_listen::{ListenAnswer, ListenRequestId, ListenerId, SharedListen};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// The shared LISTEN of each database.
pub(crate) struct SharedListens {
    /// The channel of markers.
    pub(crate) marker: Arc<str>,
    by_database: Mutex<HashMap<DatabaseKey, Arc<Shared>>>,
}

/// A database of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DatabaseKey {
    host: Host,
    port: u16,
    database: String,
}

impl DatabaseKey {
    fn of(address: &Address) -> Self {
        Self {
            host: address.upstream.host.clone(),
            port: address.upstream.port,
            database: address.database.clone(),
        }
    }
}

/// The shared LISTEN of a database.
struct Shared {
    database: DatabaseKey,
    state: Mutex<State>,
    /// There is something to send, or to look at.
    work: Notify,
}

struct State {
    core: SharedListen,
    clients: HashMap<ListenerId, Entry>,
    answers: HashMap<ListenRequestId, oneshot::Sender<Result<(), Bytes>>>,
    /// A task has the connection, or opens one.
    runs: bool,
}

struct Entry {
    pool: Arc<Pool>,
    /// There is something for the client to read.
    mail: Arc<Notify>,
    /// The connection was lost, of which the client is to be told.
    lost: bool,
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

    fn lock(&self) -> MutexGuard<'_, HashMap<DatabaseKey, Arc<Shared>>> {
        self.by_database
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, address: &Address) -> Arc<Shared> {
        let mut all = self.lock();
        // Those that nobody uses are forgotten: clients may name many databases.
        all.retain(|_, shared| Arc::strong_count(shared) > 1);
        let database = DatabaseKey::of(address);
        let shared = all.entry(database.clone()).or_insert_with(|| {
            Arc::new(Shared {
                database,
                state: Mutex::new(State::new(Arc::clone(&self.marker))),
                work: Notify::new(),
            })
        });
        Arc::clone(shared)
    }

    /// The configuration has changed: clients whose database is led elsewhere now listen no longer.
    pub(crate) fn reconfigure(&self) {
        for shared in self.lock().values() {
            shared.lose_moved();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client joins; the first one has the connection opened.
    fn join(
        self: &Arc<Self>,
        proxy: &Arc<Proxy>,
        pool: &Arc<Pool>,
        process: u32,
    ) -> ListeningClient {
        let mail = Arc::new(Notify::new());
        let mut state = self.lock();
        let id = state.core.join(process);
        let entry = Entry {
            pool: Arc::clone(pool),
            mail: Arc::clone(&mail),
            lost: false,
        };
        state.clients.insert(id, entry);
        if !self.is_of(pool) {
            // The configuration has changed meanwhile.
            state.lose(id);
        }
        if !std::mem::replace(&mut state.runs, true) {
            tokio::spawn(connection::run(Arc::clone(self), Arc::clone(proxy)));
        }
        drop(state);
        ListeningClient::new(Arc::clone(self), id, mail)
    }
}

impl Shared {
    fn is_of(&self, pool: &Pool) -> bool {
        DatabaseKey::of(&pool.address()) == self.database
    }

    /// Clients whose pool leads to another database now are told that they missed notifications.
    fn lose_moved(&self) {
        let mut state = self.lock();
        let moved = state.clients.iter();
        let moved = moved.filter(|(_, client)| !client.lost && !self.is_of(&client.pool));
        let moved: Vec<ListenerId> = moved.map(|(id, _)| *id).collect();
        if !moved.is_empty() {
            let database = self.database.database.as_str();
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
    fn new(marker: Arc<str>) -> Self {
        Self {
            core: SharedListen::new(marker),
            clients: HashMap::new(),
            answers: HashMap::new(),
            runs: false,
        }
    }

    /// The client is to be told that its connection is lost.
    fn is_lost(&self, id: ListenerId) -> bool {
        self.clients.get(&id).is_none_or(|client| client.lost)
    }

    fn answer(&mut self, answers: Vec<ListenAnswer>) {
        for (ticket, outcome) in answers {
            if let Some(waits) = self.answers.remove(&ticket) {
                // A client that has gone needs no answer.
                let _ = waits.send(outcome);
            }
        }
    }

    /// Tells those that have something to read.
    fn wake(&mut self) {
        for id in self.core.take_woken() {
            if let Some(client) = self.clients.get(&id) {
                client.mail.notify_one();
            }
        }
    }

    /// All clients are told that notifications may be missing; they take part no longer.
    fn lose_all(&mut self, error: &Bytes) {
        let answers = self.core.fail(error);
        self.answer(answers);
        let all: Vec<ListenerId> = self.clients.keys().copied().collect();
        all.into_iter().for_each(|id| self.lose(id));
    }

    /// The client is told that notifications may be missing; it takes part no longer.
    fn lose(&mut self, id: ListenerId) {
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
