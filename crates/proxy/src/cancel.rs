//! Cancel requests (PostgreSQL documentation, chapter "Canceling Requests in Progress"): find the client that has the key, and
//! cancel its request.
//!
//! A cancel request never hits another client: while it is on its way to a server, its client does not return the server
//! connection. If the server does not confirm it within `cancel_wait_timeout`, the connection is closed.

mod console_keys;
mod key;
#[cfg(test)]
mod tests;

pub use console_keys::{ConsoleAccess, ConsoleGrant, ConsoleKeys};
pub(crate) use key::CancelKey;

use crate::client_info::ClientInfo;
use paceline_batch::line::WaiterId;
use paceline_pool::clock;
use paceline_pool::pool::Pool;
use paceline_pool::server::{BackendKey, deliver};
use paceline_pool::shared::Shared;
use paceline_relay::settings::SessionSettings;
use paceline_wire::ErrorResponse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// All clients, by their cancel keys.
#[derive(Default)]
pub struct CancelKeys {
    clients: Mutex<HashMap<u32, Arc<ClientEntry>>>,
    /// Ids of clients whose keys name this process for its peers: such a key has too few free bits for the process id to be the
    /// client id.
    of_peers: Mutex<HashMap<CancelKey, u32>>,
}

/// A client and its state.
pub struct ClientEntry {
    /// Fixed facts about the client.
    pub info: ClientInfo,
    key: CancelKey,
    state: Mutex<EntryState>,
    /// Notified when a cancel request has reached the server.
    delivered: Notify,
    /// Notified by a cancel request for a request in flight.
    in_flight_cancelled: Notify,
}

#[derive(Default)]
struct EntryState {
    doing: ClientState,
    /// Whether the client was cancelled between leaving the line and relaying.
    cancelled: bool,
    /// Start of the relay, if it relays a single request so far; and the number of requests relayed.
    began: Option<Instant>,
    relays: u64,
    /// Number of cancel requests on their way to the client's server.
    cancels_in_flight: usize,
    /// Whether a cancel request of this relay may reach the server at any later time.
    cancel_pending: bool,
    /// The client's settings, as of its last relay.
    settings: Option<Arc<SessionSettings>>,
}

/// Error for a client that an operator ends during its login.
const KILLED: &str = "admin forced disconnect";

/// A cancel request that arrives within this time after the statement was sent is repeated once, after this time.
const REPEATED_AFTER: Duration = Duration::from_millis(50);

/// The activity of a client, for the console.
#[derive(Debug, Clone)]
pub enum ClientActivity {
    /// It has no request that waits, and no server connection.
    Idle,
    /// A request waits since this time, in the line or for its turn.
    Waiting(Instant),
    /// It relays on the server connection of this backend process.
    Relaying(u32),
    /// Its request runs in a group.
    InGroup,
}

/// The state of a client, for cancel requests.
#[derive(Default)]
pub(crate) enum ClientState {
    /// Nothing that can be cancelled. Also: its group is in flight.
    #[default]
    Nothing,
    /// Its request waits for its turn since this time (`max_requests_per_second`).
    Throttled(Instant),
    /// A request in the line, or in flight in a group.
    Waiting(Arc<Pool>, WaiterId),
    /// Its request waits for the analysis of its template, or the client has a server connection for it. It has not been sent.
    Starting,
    /// It relays on this server connection.
    Relaying(BackendKey),
}

/// Keeps a client registered until it is dropped.
pub(crate) struct Registration {
    cancel_keys: Arc<CancelKeys>,
    /// The client id that the console shows. Without peers it is the process id.
    id: u32,
    /// The process id in the client's BackendKeyData.
    pub process: u32,
    /// The secret in the client's BackendKeyData.
    pub secret: u32,
    /// The client's entry.
    pub entry: Arc<ClientEntry>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let cancels = &self.cancel_keys;
        let client = cancels.lock().remove(&self.id);
        if let Some(client) = client {
            cancels.lock_of_peers().remove(&client.key);
        }
    }
}

impl CancelKeys {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<ClientEntry>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_of_peers(&self) -> MutexGuard<'_, HashMap<CancelKey, u32>> {
        self.of_peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client that has this key.
    fn client(&self, key: CancelKey) -> Option<Arc<ClientEntry>> {
        let of_peer = self.lock_of_peers().get(&key.as_issued()).copied();
        let client = self.lock().get(&of_peer.unwrap_or(key.process)).cloned();
        client.filter(|client| of_peer.is_some() || client.key == key)
    }

    /// All clients with their ids, in the order of their logins.
    pub fn all(&self) -> Vec<(u32, Arc<ClientEntry>)> {
        let clients = self.lock();
        let mut all: Vec<_> = clients.iter().map(|(id, c)| (*id, Arc::clone(c))).collect();
        drop(clients);
        all.sort_unstable_by_key(|(id, client)| (client.info.since, *id));
        all
    }

    /// Ends a client's connection (`KILL_CLIENT`). Returns false if there is no client with this id.
    pub fn kill(&self, id: u32) -> bool {
        let client = self.lock().get(&id).cloned();
        client.is_some_and(|client| client.kill())
    }

    /// Registers a client and gives it a key. `None`: the operating system has no random numbers.
    pub(crate) fn register(self: &Arc<Self>, info: ClientInfo) -> Option<Registration> {
        let cancels = self;
        let peer_id = own_peer_id(&info.pool.shared);
        let (mut clients, mut of_peers) = (cancels.lock(), cancels.lock_of_peers());
        let (id, key) = loop {
            let own = CancelKey::random()?;
            let key = match peer_id {
                0 => own,
                _ => CancelKey::of_peer(peer_id)?,
            };
            let is_new = !clients.contains_key(&own.process) && !of_peers.contains_key(&key);
            if own.process != 0 && is_new {
                break (own.process, key);
            }
        };
        let entry = Arc::new(ClientEntry {
            info,
            key,
            state: Mutex::default(),
            delivered: Notify::new(),
            in_flight_cancelled: Notify::new(),
        });
        clients.insert(id, Arc::clone(&entry));
        if peer_id > 0 {
            of_peers.insert(key, id);
        }
        drop((clients, of_peers));
        Some(Registration {
            cancel_keys: Arc::clone(self),
            id,
            process: key.process,
            secret: key.secret,
            entry,
        })
    }

    /// Handles a cancel request. The server has `limit` to take it (`cancel_wait_timeout`; zero means no limit). Returns false if
    /// no client has the key.
    pub(crate) async fn cancel(&self, key: CancelKey, limit: Duration) -> bool {
        let Some(client) = self.client(key) else {
            return false;
        };
        let Some((key, again)) = client.begin_cancel() else {
            return true;
        };
        send_cancel(&client, &key, limit).await;
        if let Some(relay) = again {
            tokio::time::sleep(REPEATED_AFTER).await;
            if client.count_repeated_cancel(relay) {
                send_cancel(&client, &key, limit).await;
            }
        }
        true
    }
}

/// `peer_id` of this process; 0 without peers.
pub(crate) fn own_peer_id(shared: &Shared) -> u16 {
    u16::try_from(shared.config().paceline.listening.peer_id).unwrap_or_default()
}

/// Sends a cancel request to a server. The caller has counted the request.
async fn send_cancel(client: &ClientEntry, key: &BackendKey, limit: Duration) {
    // Uncounts the request even if this future is dropped: the client waits for it.
    let mut in_flight = InFlightCancel {
        client,
        delivered: false,
    };
    in_flight.delivered = deliver(key, limit).await;
}

/// Uncounts a cancel request when it is dropped.
struct InFlightCancel<'a> {
    client: &'a ClientEntry,
    /// Whether the server has confirmed it.
    delivered: bool,
}

impl Drop for InFlightCancel<'_> {
    fn drop(&mut self) {
        let mut state = self.client.lock();
        state.cancels_in_flight -= 1;
        state.cancel_pending |= !self.delivered;
        drop(state);
        self.client.delivered.notify_waiters();
    }
}

impl ClientEntry {
    fn lock(&self) -> MutexGuard<'_, EntryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request out of the line, or returns the key of the server that must cancel it. In the second case also returns the
    /// number of the relay if its statement was sent very recently: the server may not have read it yet, and would ignore the
    /// cancel request, so the caller repeats it if the relay lasts.
    fn begin_cancel(&self) -> Option<(BackendKey, Option<u64>)> {
        let mut state = self.lock();
        match &state.doing {
            ClientState::Nothing => None,
            ClientState::Waiting(pool, waiter) => {
                if !pool.cancel(*waiter) {
                    state.cancelled = true;
                    self.in_flight_cancelled.notify_waiters();
                }
                None
            }
            ClientState::Throttled(_) | ClientState::Starting => {
                state.cancelled = true;
                self.in_flight_cancelled.notify_waiters();
                None
            }
            ClientState::Relaying(key) => {
                let key = key.clone();
                let young = |began: Instant| clock::elapsed(began) < REPEATED_AFTER;
                let again = state.began.is_some_and(young).then_some(state.relays);
                state.cancels_in_flight += 1;
                Some((key, again))
            }
        }
    }

    /// The activity of the client, for the console.
    pub fn activity(&self) -> ClientActivity {
        match &self.lock().doing {
            ClientState::Nothing | ClientState::Starting => ClientActivity::Idle,
            ClientState::Throttled(since) => ClientActivity::Waiting(*since),
            ClientState::Relaying(key) => ClientActivity::Relaying(key.process),
            ClientState::Waiting(pool, waiter) => match pool.waiting_since(*waiter) {
                Some(since) => ClientActivity::Waiting(since),
                None => ClientActivity::InGroup,
            },
        }
    }

    /// Number of cancel requests on their way to the client's server.
    pub fn cancels(&self) -> usize {
        self.lock().cancels_in_flight
    }

    /// The client's settings, if they are known.
    pub fn settings(&self) -> Option<Arc<SessionSettings>> {
        self.lock().settings.clone()
    }

    /// Sets the client's settings.
    pub(crate) fn set_settings(&self, settings: &Arc<SessionSettings>) {
        let mut state = self.lock();
        let same = state.settings.as_ref().is_some_and(|s| s.id == settings.id);
        if !same {
            state.settings = Some(Arc::clone(settings));
        }
    }

    /// Ends the client. A request in the line leaves it, so that it is not executed. A client during its login has no task yet:
    /// its login fails.
    fn kill(&self) -> bool {
        match &self.lock().doing {
            ClientState::Waiting(pool, waiter) if !self.info.has_task() => {
                return pool.disconnect_waiter(*waiter, ErrorResponse::fatal("08P01", KILLED));
            }
            ClientState::Waiting(pool, waiter) => {
                pool.withdraw(*waiter);
            }
            ClientState::Nothing
            | ClientState::Throttled(_)
            | ClientState::Starting
            | ClientState::Relaying(_) => {}
        }
        self.info.kill()
    }

    /// Whether a message may be sent to the client now. During a relay a message may be half written.
    pub(crate) fn can_receive_error(&self) -> bool {
        !matches!(self.lock().doing, ClientState::Relaying(_))
    }

    /// Returns when a cancel request arrives for a request that is in flight or about to start.
    pub(crate) fn cancelled_in_flight(&self) -> Notified<'_> {
        self.in_flight_cancelled.notified()
    }

    /// Sets the state of the client.
    pub(crate) fn set_state(&self, doing: ClientState) {
        self.lock().doing = doing;
    }

    /// Ends a wait, and sets the client's next state. Returns true if a cancel request arrived after the request left the
    /// line.
    pub(crate) fn wait_ended(&self, doing: ClientState) -> bool {
        let mut state = self.lock();
        state.doing = doing;
        std::mem::take(&mut state.cancelled)
    }

    /// Waits for something before a request enters the line or is sent; meanwhile the client is in this state. `None`: a cancel request
    /// has arrived.
    pub(crate) async fn unless_cancelled<T>(
        &self,
        doing: ClientState,
        wait: impl Future<Output = T>,
    ) -> Option<T> {
        let cancelled = self.cancelled_in_flight();
        self.set_state(doing);
        let result = tokio::select! {
            biased;
            result = wait => Some(result),
            () = cancelled => None,
        };
        let cancelled = self.wait_ended(ClientState::Nothing);
        result.filter(|_| !cancelled)
    }

    /// Notes that the relay continues with another request.
    pub(crate) fn next_request(&self) {
        let mut state = self.lock();
        state.relays += 1;
        state.began = None;
    }

    /// Whether this relay has not ended. If so, counts another cancel request.
    fn count_repeated_cancel(&self, relay: u64) -> bool {
        let mut state = self.lock();
        let same = state.relays == relay && matches!(state.doing, ClientState::Relaying(_));
        state.cancels_in_flight += usize::from(same);
        same
    }

    /// Begins a relay on the server connection with this key. `now` is its start if it relays a single request. Returns false if
    /// the client was cancelled before.
    pub(crate) fn relay_begins(&self, key: BackendKey, now: Option<Instant>) -> bool {
        let mut state = self.lock();
        state.relays += 1;
        state.began = now;
        let cancelled = std::mem::take(&mut state.cancelled);
        state.doing = match cancelled {
            true => ClientState::Nothing,
            false => ClientState::Relaying(key),
        };
        !cancelled
    }

    fn count_cancel(&self, key: &BackendKey) {
        let mut state = self.lock();
        state.doing = ClientState::Relaying(key.clone());
        state.cancels_in_flight += 1;
    }

    /// Cancels the statement that a relay has taken over on the server connection with this key.
    pub(crate) async fn relay_cancelled(&self, key: &BackendKey, limit: Duration) {
        self.count_cancel(key);
        send_cancel(self, key, limit).await;
    }

    /// Lets no further cancel request reach a server. Once none is on its way, returns whether one may reach the server at any later
    /// time.
    fn stop_cancels(&self) -> Option<bool> {
        let mut state = self.lock();
        state.doing = ClientState::Nothing;
        (state.cancels_in_flight == 0).then(|| std::mem::take(&mut state.cancel_pending))
    }

    /// Ends a relay: later cancel requests do not reach its server. Waits for those on their way. Returns true if one of them may reach
    /// the server at any later time, so that the server connection must serve no other client.
    pub(crate) async fn relay_ends(&self) -> bool {
        loop {
            let delivered = self.delivered.notified();
            if let Some(pending) = self.stop_cancels() {
                return pending;
            }
            delivered.await;
        }
    }
}
