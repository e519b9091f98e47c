//! A client of a shared LISTEN connection.

use super::SharedListens;
use super::connection;
use super::errors::{lost, to_bytes};
use super::state::{DatabaseListen, ListenEntry};
use bytes::{Bytes, BytesMut};
use paceline_pool::address::{Address, DatabaseAddress};
use paceline_pool::pool::Pool;
use paceline_relay::shared_listen::{
    CLIENT_CHANNELS_MAX, DATABASE_CHANNELS_MAX, ListenRequestId, ListenerId, NoRoom, SharedListen,
};
use paceline_wire::ErrorResponse;
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};

/// Maximum number of bytes of notifications that are taken for one write.
const TAKEN_BYTES: usize = 64 * 1024;

/// A client that listens through the shared connection until this is dropped.
pub(crate) struct ListeningClient {
    shared: Arc<DatabaseListen>,
    id: ListenerId,
    wake: Arc<Notify>,
    /// Notifications that are being written to the client.
    pub(crate) out: BytesMut,
    /// Version of the channels that the session has.
    pub(crate) version: u64,
}

/// The reason why a client gets no more notifications. Its connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationEnd {
    /// Too many notifications wait for the client.
    Overflow,
    /// The shared connection was lost.
    Lost,
}

impl NotificationEnd {
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

/// The `ErrorResponse` if the shared connection does not answer in time.
pub(crate) fn is_silent() -> Bytes {
    let message = "the server connection that listens for clients does not answer";
    to_bytes(&ErrorResponse::error("08006", message))
}

type ListenResult = Result<(), Bytes>;

impl ListeningClient {
    /// Joins the connection of the pool's database. `process` is the client's process id.
    pub(crate) fn join(listens: &SharedListens, pool: &Arc<Pool>, process: u32) -> Box<Self> {
        let shared = listens.of(&pool.address());
        Box::new(Self::of(shared, &listens.marker, pool, process))
    }

    /// Joins a connection; the first client starts the task that opens it.
    fn of(shared: Arc<DatabaseListen>, marker: &Arc<str>, pool: &Arc<Pool>, process: u32) -> Self {
        let wake = Arc::new(Notify::new());
        let mut state = shared.lock();
        let id = state.core.join(process);
        let entry = ListenEntry {
            pool: Arc::clone(pool),
            wake: Arc::clone(&wake),
            lost: false,
        };
        state.clients.insert(id, entry);
        if !shared.is_of(pool) {
            // A reload has changed the address of the pool in the meantime.
            state.lose(id);
        }
        if !std::mem::replace(&mut state.has_task, true) {
            tokio::spawn(connection::run(Arc::clone(&shared), Arc::clone(marker)));
        }
        drop(state);
        Self::new(shared, id, wake)
    }

    pub(super) fn new(shared: Arc<DatabaseListen>, id: ListenerId, wake: Arc<Notify>) -> Self {
        Self {
            shared,
            id,
            wake,
            out: BytesMut::new(),
            version: 0,
        }
    }

    /// Listens on a channel, outside a transaction.
    ///
    /// # Errors
    /// The server's `ErrorResponse`, or Paceline's if the connection is lost.
    pub(crate) async fn listen(&self, channel: &String) -> ListenResult {
        self.check_limits(std::slice::from_ref(channel))?;
        let result = self.ask(|core| Some(core.listen(self.id, channel)));
        wait(result).await
    }

    /// Listens on channels for the client's transaction on the server process `server`.
    ///
    /// # Errors
    /// As for [`ListeningClient::listen`].
    pub(crate) async fn reserve(&self, server: u32, channels: &[String]) -> ListenResult {
        self.check_limits(channels)?;
        let result = self.ask(|core| Some(core.reserve(self.id, server, channels)));
        wait(result).await
    }

    /// Checks the limits of channels.
    fn check_limits(&self, channels: &[String]) -> ListenResult {
        let limits = self.shared.lock().core.check_room(self.id, channels);
        limits.map_err(|none| {
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

    /// Waits until everything that was committed before has been received.
    pub(crate) async fn catch_up(&self) {
        let result = self.ask(|core| core.catch_up(self.id));
        // If the connection is lost, waiting is useless.
        let _ = wait(result).await;
    }

    /// Sends a request to the task of the connection. `None`: the request needs no answer.
    fn ask(
        &self,
        request: impl FnOnce(&mut SharedListen) -> Option<ListenRequestId>,
    ) -> oneshot::Receiver<ListenResult> {
        let (answer, waits) = oneshot::channel();
        let mut state = self.shared.lock();
        if state.is_lost(self.id) {
            // The receiver exists.
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

    /// Changes the state of the connection without waiting.
    fn update(&self, change: impl FnOnce(&mut SharedListen)) {
        change(&mut self.shared.lock().core);
        self.shared.work.notify_one();
    }

    /// Notes that the client's transaction runs on the server process `server`: notifications from there are its own.
    pub(crate) fn is_served(&self, server: u32) {
        self.update(|core| core.is_served(self.id, server));
    }

    /// Notes that the client's transaction ended and its notifications have been received.
    pub(crate) fn settle(&self) {
        self.update(|core| core.settle(self.id));
    }

    /// `UNLISTEN`, outside a transaction.
    pub(crate) fn unlisten(&self, channel: &str) {
        self.update(|core| core.unlisten(self.id, channel));
    }

    /// `UNLISTEN *`, outside a transaction.
    pub(crate) fn unlisten_all(&self) {
        self.update(|core| core.unlisten_all(self.id));
    }

    /// The client's channels, sorted, with their version; `None` if this is the current version.
    pub(crate) fn channels_since(&self, version: u64) -> Option<(Vec<Arc<str>>, u64)> {
        let state = self.shared.lock();
        let now = state.core.version_of(self.id);
        (now != version).then(|| (state.core.channels_of(self.id), now))
    }

    /// Whether this address leads to the database of the connection.
    pub(crate) fn is_of(&self, address: &Address) -> bool {
        DatabaseAddress::of(address) == self.shared.database
    }

    /// Appends some of the notifications that wait for the client.
    ///
    /// # Errors
    /// The client can get no more notifications.
    pub(crate) fn take(&self, out: &mut BytesMut) -> Result<(), NotificationEnd> {
        self.take_up_to(out.len() + TAKEN_BYTES, out)
    }

    /// Appends all notifications that wait for the client.
    ///
    /// # Errors
    /// The client can get no more notifications.
    pub(crate) fn take_all(&self, out: &mut BytesMut) -> Result<(), NotificationEnd> {
        self.take_up_to(usize::MAX, out)
    }

    fn take_up_to(&self, limit: usize, out: &mut BytesMut) -> Result<(), NotificationEnd> {
        let mut state = self.shared.lock();
        if state.is_lost(self.id) {
            return Err(NotificationEnd::Lost);
        }
        let taken = state.core.take_queued(self.id, limit, out);
        taken.map_err(|_| NotificationEnd::Overflow)
    }

    /// Refills `out` with the notifications that are written next.
    ///
    /// # Errors
    /// The client can get no more notifications.
    pub(crate) fn refill(&mut self) -> Result<(), NotificationEnd> {
        let mut out = std::mem::take(&mut self.out);
        let taken = match out.is_empty() {
            true => self.take(&mut out),
            false => self.ended().map_or(Ok(()), Err),
        };
        self.out = out;
        taken
    }

    /// The reason why the client can get no more notifications.
    pub(crate) fn ended(&self) -> Option<NotificationEnd> {
        let state = self.shared.lock();
        if state.is_lost(self.id) {
            return Some(NotificationEnd::Lost);
        }
        let overflows = state.core.has_overflowed(self.id);
        overflows.then_some(NotificationEnd::Overflow)
    }

    /// The `ErrorResponse` of a LISTEN on a connection that is lost.
    pub(crate) fn lost(&self) -> Bytes {
        to_bytes(&lost(ErrorResponse::error))
    }

    /// Whether the client must be woken: notifications wait for it, or it can get no more. While `out` is not empty, only the
    /// latter counts.
    fn must_wake(&self) -> bool {
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

async fn wait(answer: oneshot::Receiver<ListenResult>) -> ListenResult {
    let lost_error = || Err(to_bytes(&lost(ErrorResponse::error)));
    answer.await.unwrap_or_else(|_| lost_error())
}

/// Returns when the client must be woken; never without a shared connection.
pub(crate) async fn notification_ready(listening: Option<&ListeningClient>) {
    let Some(client) = listening else {
        return std::future::pending().await;
    };
    while !client.must_wake() {
        // `Notify` keeps a notification that arrives before this wait.
        client.wake.notified().await;
    }
}
