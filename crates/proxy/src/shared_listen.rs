//! The connections of `listen_mode = "shared"`: one for each database listens for all clients. What is sent and who gets what
//! is decided in [`paceline_line::shared_listen`].
//!
//! LISTEN needs no privilege in PostgreSQL and a notification carries no role, so one connection serves the clients of all
//! users of a database. It logs in as the user of one of the clients that listen. It is no connection of a pool and counts for
//! no limit of one, so that a LISTEN never waits for a transaction of others. It exists while clients listen.

mod client;
mod connection;

pub(crate) use client::{ListeningClient, MailEnd, mail};

use crate::pool::Pool;
use crate::proxy::Proxy;
use crate::server::Address;
use bytes::Bytes;
use paceline_config::Host;
use paceline_line::shared_listen::{Answer, ListenerId, SharedListen, Ticket};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// The shared LISTEN of each database.
#[derive(Default)]
pub(crate) struct SharedListens {
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
    state: Mutex<State>,
    /// There is something to send, or to look at.
    work: Notify,
    /// The configuration has changed: the connection may lead elsewhere.
    reconfigured: AtomicBool,
}

#[derive(Default)]
struct State {
    core: SharedListen,
    clients: HashMap<ListenerId, Entry>,
    answers: HashMap<Ticket, oneshot::Sender<Result<(), Bytes>>>,
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
    fn lock(&self) -> MutexGuard<'_, HashMap<DatabaseKey, Arc<Shared>>> {
        self.by_database
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, address: &Address) -> Arc<Shared> {
        let mut all = self.lock();
        // Those that nobody uses are forgotten: clients may name many databases.
        all.retain(|_, shared| Arc::strong_count(shared) > 1);
        let shared = all.entry(DatabaseKey::of(address)).or_insert_with(|| {
            Arc::new(Shared {
                state: Mutex::default(),
                work: Notify::new(),
                reconfigured: AtomicBool::new(false),
            })
        });
        Arc::clone(shared)
    }

    /// The configuration has changed: connections that lead elsewhere now are replaced.
    pub(crate) fn reconfigure(&self) {
        for shared in self.lock().values() {
            shared.reconfigured.store(true, Ordering::Release);
            shared.work.notify_one();
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
        if !std::mem::replace(&mut state.runs, true) {
            tokio::spawn(connection::run(Arc::clone(self), Arc::clone(proxy)));
        }
        drop(state);
        ListeningClient::new(Arc::clone(self), id, mail)
    }
}

impl State {
    /// The client is to be told that its connection is lost.
    fn is_lost(&self, id: ListenerId) -> bool {
        self.clients.get(&id).is_none_or(|client| client.lost)
    }

    fn answer(&mut self, answers: Vec<Answer>) {
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
        for (id, client) in &mut self.clients {
            self.core.leave(*id);
            client.lost = true;
            client.mail.notify_one();
        }
    }
}
