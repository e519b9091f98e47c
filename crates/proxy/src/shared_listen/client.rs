//! A client of a shared LISTEN.

use super::SharedListens;
use super::connection;
use super::errors::{lost, to_bytes};
use super::state::{Entry, Shared};
use bytes::{Bytes, BytesMut};
use paceline_pool::address::{Address, DatabaseAddress};
use paceline_pool::pool::Pool;
use paceline_relay::shared_listen::{
    CLIENT_CHANNELS_MAX, DATABASE_CHANNELS_MAX, ListenRequestId, ListenerId, NoRoom, SharedListen,
};
use paceline_wire::ErrorResponse;
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};

/// Bytes of notifications that are taken at a time to be written.
const TAKEN_BYTES: usize = 64 * 1024;

/// A client that listens by a shared connection, as long as this lives.
pub(crate) struct ListeningClient {
    shared: Arc<Shared>,
    id: ListenerId,
    mail: Arc<Notify>,
    /// Notifications that are being written to the client.
    pub(crate) out: BytesMut,
    /// Version of the channels that the session knows.
    pub(crate) version: u64,
}

/// Why a client gets no more notifications. Its connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MailEnd {
    /// Too many wait for it.
    Overflow,
    /// The shared connection is lost.
    Lost,
}

impl MailEnd {
    /// The `ErrorResponse` that the client receives.
    pub(crate) fn error(self) -> ErrorResponse {
        match self {
            Self::Overflow => {
                ErrorResponse::fatal("53400", "too many notifications wait for this client")
                    .with_hint("Read notifications as they come, and keep transactions short.")
            }
            Self::Lost => lost(ErrorResponse::fatal),
        }
    }
}

/// The `ErrorResponse` of a request for which the shared connection would have to do something that takes too long.
pub(crate) fn is_silent() -> Bytes {
    let message = "the server connection that listens for clients does not answer";
    to_bytes(&ErrorResponse::error("08006", message))
}

type Outcome = Result<(), Bytes>;

impl ListeningClient {
    /// A client of the pool that was given this process id.
    pub(crate) fn join(listens: &SharedListens, pool: &Arc<Pool>, process: u32) -> Box<Self> {
        let shared = listens.of(&pool.address());
        Box::new(Self::of(shared, &listens.marker, pool, process))
    }

    /// A client joins; the first one has the connection opened.
    fn of(shared: Arc<Shared>, marker: &Arc<str>, pool: &Arc<Pool>, process: u32) -> Self {
        let mail = Arc::new(Notify::new());
        let mut state = shared.lock();
        let id = state.core.join(process);
        let entry = Entry {
            pool: Arc::clone(pool),
            mail: Arc::clone(&mail),
            lost: false,
        };
        state.clients.insert(id, entry);
        if !shared.is_of(pool) {
            // The configuration has changed meanwhile.
            state.lose(id);
        }
        if !std::mem::replace(&mut state.runs, true) {
            tokio::spawn(connection::run(Arc::clone(&shared), Arc::clone(marker)));
        }
        drop(state);
        Self::new(shared, id, mail)
    }

    pub(super) fn new(shared: Arc<Shared>, id: ListenerId, mail: Arc<Notify>) -> Self {
        Self {
            shared,
            id,
            mail,
            out: BytesMut::new(),
            version: 0,
        }
    }

    /// Listens on a channel, outside a transaction.
    ///
    /// # Errors
    /// The server's `ErrorResponse`, or one that says why there is none.
    pub(crate) async fn listen(&self, channel: &String) -> Outcome {
        self.check_room(std::slice::from_ref(channel))?;
        let asked = self.ask(|core| Some(core.listen(self.id, channel)));
        wait(asked).await
    }

    /// Has channels listened on for the transaction that the process `server` carries out.
    ///
    /// # Errors
    /// As for [`ListeningClient::listen`].
    pub(crate) async fn reserve(&self, server: u32, channels: &[String]) -> Outcome {
        self.check_room(channels)?;
        let asked = self.ask(|core| Some(core.reserve(self.id, server, channels)));
        wait(asked).await
    }

    /// The client may listen on these channels, too.
    fn check_room(&self, channels: &[String]) -> Outcome {
        let room = self.shared.lock().core.check_room(self.id, channels);
        room.map_err(|none| {
            let detail = match none {
                NoRoom::OfClient => format!(
                    "A client may listen on {CLIENT_CHANNELS_MAX} channels at a time, its transaction included."
                ),
                NoRoom::OfDatabase => format!(
                    "All clients of a database may listen on {DATABASE_CHANNELS_MAX} channels at a time."
                ),
                NoRoom::Reserved => "Paceline itself uses this channel.".to_owned(),
            };
            to_bytes(&ErrorResponse::error("53400", "too many channels").with_detail(detail))
        })
    }

    /// Waits until what was committed before has been received.
    pub(crate) async fn catch_up(&self) {
        let asked = self.ask(|core| core.catch_up(self.id));
        // If the connection is lost, there is nothing to wait for.
        let _ = wait(asked).await;
    }

    /// Passes a request on. `None`: nothing needs to be waited for.
    fn ask(
        &self,
        request: impl FnOnce(&mut SharedListen) -> Option<ListenRequestId>,
    ) -> oneshot::Receiver<Outcome> {
        let (answer, waits) = oneshot::channel();
        let mut state = self.shared.lock();
        if state.is_lost(self.id) {
            // The receiver is here.
            let _ = answer.send(Err(to_bytes(&lost(ErrorResponse::error))));
            return waits;
        }
        match request(&mut state.core) {
            Some(ticket) => drop(state.answers.insert(ticket, answer)),
            None => drop(answer.send(Ok(()))),
        }
        drop(state);
        self.shared.work.notify_one();
        waits
    }

    /// Carries out what needs no answer of the server.
    fn tell(&self, what: impl FnOnce(&mut SharedListen)) {
        what(&mut self.shared.lock().core);
        self.shared.work.notify_one();
    }

    /// What the process `server` notifies is the client's own.
    pub(crate) fn is_served(&self, server: u32) {
        self.tell(|core| core.is_served(self.id, server));
    }

    /// The client's transaction is over, and its notifications have been received.
    pub(crate) fn settle(&self) {
        self.tell(|core| core.settle(self.id));
    }

    /// `UNLISTEN`, outside a transaction.
    pub(crate) fn unlisten(&self, channel: &str) {
        self.tell(|core| core.unlisten(self.id, channel));
    }

    /// `UNLISTEN *`, outside a transaction.
    pub(crate) fn unlisten_all(&self) {
        self.tell(|core| core.unlisten_all(self.id));
    }

    /// The channels on which the client listens, sorted, and their version; `None`: this is the version.
    pub(crate) fn channels_since(&self, version: u64) -> Option<(Vec<Arc<str>>, u64)> {
        let state = self.shared.lock();
        let now = state.core.version_of(self.id);
        (now != version).then(|| (state.core.channels_of(self.id), now))
    }

    /// The shared connection is of the database to which this address leads.
    pub(crate) fn is_of(&self, address: &Address) -> bool {
        DatabaseAddress::of(address) == self.shared.database
    }

    /// Appends some notifications for the client.
    ///
    /// # Errors
    /// It gets no more.
    pub(crate) fn take(&self, out: &mut BytesMut) -> Result<(), MailEnd> {
        self.take_up_to(out.len() + TAKEN_BYTES, out)
    }

    /// Appends all notifications that wait for the client.
    ///
    /// # Errors
    /// It gets no more.
    pub(crate) fn take_all(&self, out: &mut BytesMut) -> Result<(), MailEnd> {
        self.take_up_to(usize::MAX, out)
    }

    fn take_up_to(&self, limit: usize, out: &mut BytesMut) -> Result<(), MailEnd> {
        let mut state = self.shared.lock();
        if state.is_lost(self.id) {
            return Err(MailEnd::Lost);
        }
        let taken = state.core.take_queued(self.id, limit, out);
        taken.map_err(|_| MailEnd::Overflow)
    }

    /// Takes what is written to the client next.
    ///
    /// # Errors
    /// It gets no more.
    pub(crate) fn refill(&mut self) -> Result<(), MailEnd> {
        let mut out = std::mem::take(&mut self.out);
        let taken = match out.is_empty() {
            true => self.take(&mut out),
            false => self.ended().map_or(Ok(()), Err),
        };
        self.out = out;
        taken
    }

    /// Why the client gets no more.
    pub(crate) fn ended(&self) -> Option<MailEnd> {
        let state = self.shared.lock();
        if state.is_lost(self.id) {
            return Some(MailEnd::Lost);
        }
        let overflows = state.core.has_overflowed(self.id);
        overflows.then_some(MailEnd::Overflow)
    }

    /// The `ErrorResponse` of a LISTEN that would come to nothing.
    pub(crate) fn lost(&self) -> Bytes {
        to_bytes(&lost(ErrorResponse::error))
    }

    /// There is something to tell the client: while notifications are being written, only that it gets no more.
    fn has_queued(&self) -> bool {
        let waits = || self.shared.lock().core.has_queued(self.id);
        self.ended().is_some() || (self.out.is_empty() && waits())
    }
}

impl Drop for ListeningClient {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.core.leave(self.id);
        state.clients.remove(&self.id);
        drop(state);
        self.shared.work.notify_one();
    }
}

async fn wait(answer: oneshot::Receiver<Outcome>) -> Outcome {
    let gone = || Err(to_bytes(&lost(ErrorResponse::error)));
    answer.await.unwrap_or_else(|_| gone())
}

/// Returns when there is something to tell the client; never if it does not listen by a shared connection.
pub(crate) async fn mail(listening: Option<&ListeningClient>) {
    let Some(client) = listening else {
        return std::future::pending().await;
    };
    while !client.has_queued() {
        // A notification that comes before this is kept by the `Notify`.
        client.mail.notified().await;
    }
}
