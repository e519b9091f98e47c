//! Cancel requests (chapter "Canceling Requests in Progress"): from the key that a client was given to what the
//! client is doing now.
//!
//! A cancel never hits a neighbour: while one is on its way to a server, the client that it is meant for does not
//! give the connection back.

mod console_keys;
mod key;

pub use console_keys::{ConsoleAccess, ConsoleGrant, ConsoleKeys};
pub use key::CancelKey;

use crate::client_info::ClientInfo;
use paceline_batch::line::WaiterId;
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

/// Clients by their numbers and keys.
#[derive(Default)]
pub struct CancelKeys {
    clients: Mutex<HashMap<u32, Arc<ClientEntry>>>,
    /// The numbers of clients with keys of peers: those keep too few bits free for the process id to be the number.
    of_peers: Mutex<HashMap<CancelKey, u32>>,
}

/// Who a client is, and what it is doing, as far as a cancel request must know.
pub struct ClientEntry {
    /// Who it is.
    pub info: ClientInfo,
    key: CancelKey,
    state: Mutex<State>,
    /// A cancel has arrived at the server.
    delivered: Notify,
    /// A cancel has come for a unit that has departed.
    too_late: Notify,
}

#[derive(Default)]
struct State {
    doing: ClientState,
    /// It was cancelled after it had left the line, and before it relays.
    cancelled: bool,
    /// When its only unit so far was sent, if it relays for one, and how many such units there were.
    began: Option<Instant>,
    relays: u64,
    /// Cancel requests on their way to its server.
    on_the_way: usize,
    /// Its settings, as of its last relay.
    settings: Option<Arc<SessionSettings>>,
}

/// What a client is told that an operator ends while it waits for its login.
const DISCONNECTED: &str = "admin forced disconnect";

/// A cancel request that comes so soon after the statement was sent is repeated after this long.
const REPEATED_AFTER: Duration = Duration::from_millis(50);

/// What a client is doing, for those who look.
#[derive(Debug, Clone)]
pub enum Seen {
    /// Nothing.
    Idle,
    /// It has stood in the line since then.
    Waiting(Instant),
    /// It relays on the connection of this process.
    Relaying(u32),
    /// It travels with others.
    Travelling,
}

/// What a client is doing.
#[derive(Default)]
pub enum ClientState {
    /// Nothing that could be cancelled; also: it has departed with a group, and then it is too late.
    #[default]
    Nothing,
    /// It stands in the line, or has left it with others.
    Waiting(Arc<Pool>, WaiterId),
    /// It has a connection, and its unit has not been sent yet.
    Starting,
    /// It relays on this connection.
    Relaying(BackendKey),
}

/// A client that is registered as long as this lives.
pub struct Registration {
    cancel_keys: Arc<CancelKeys>,
    /// The client's number, for operators. Without peers it is the process id.
    id: u32,
    /// The process id that the client was given.
    pub process: u32,
    /// Its secret.
    pub secret: u32,
    /// What it is doing.
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

    /// The client that has been given this key.
    fn client(&self, key: CancelKey) -> Option<Arc<ClientEntry>> {
        let of_peer = self.lock_of_peers().get(&key.as_given()).copied();
        let client = self.lock().get(&of_peer.unwrap_or(key.process)).cloned();
        client.filter(|client| of_peer.is_some() || client.key == key)
    }

    /// Everybody, by number.
    pub fn all(&self) -> Vec<(u32, Arc<ClientEntry>)> {
        let clients = self.lock();
        let mut all: Vec<_> = clients.iter().map(|(id, c)| (*id, Arc::clone(c))).collect();
        drop(clients);
        all.sort_unstable_by_key(|(id, client)| (client.info.since, *id));
        all
    }

    /// Ends a client's connection wherever it is (`KILL_CLIENT`). False: there is none with this number.
    pub fn kill(&self, id: u32) -> bool {
        let client = self.lock().get(&id).cloned();
        client.is_some_and(|client| client.kill())
    }

    /// Gives a client a key. `None`: the system has no random numbers.
    pub fn register(self: &Arc<Self>, info: ClientInfo) -> Option<Registration> {
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
            too_late: Notify::new(),
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

    /// Carries out a cancel request. Servers have `limit` to take it (`cancel_wait_timeout`; zero is for ever). False: the key is
    /// no client's.
    pub async fn cancel(&self, key: CancelKey, limit: Duration) -> bool {
        let Some(client) = self.client(key) else {
            return false;
        };
        let Some((key, again)) = client.begin_cancel() else {
            return true;
        };
        carry_out(&client, &key, limit).await;
        if let Some(relay) = again {
            tokio::time::sleep(REPEATED_AFTER).await;
            if client.relays_still(relay) {
                carry_out(&client, &key, limit).await;
            }
        }
        true
    }
}

/// `peer_id` of this process; 0 without peers.
pub fn own_peer_id(shared: &Shared) -> u16 {
    u16::try_from(shared.config().paceline.listening.peer_id).unwrap_or_default()
}

/// Tells a server; the caller has counted the request.
async fn carry_out(client: &ClientEntry, key: &BackendKey, limit: Duration) {
    // Whatever becomes of this request, the client does not wait for it for ever.
    let _on_the_way = OnTheWay(client);
    deliver(key, limit).await;
}

/// Counts a cancel as long as it is on its way.
struct OnTheWay<'a>(&'a ClientEntry);

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        self.0.lock().on_the_way -= 1;
        self.0.delivered.notify_waiters();
    }
}

impl ClientEntry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A unit in line leaves it. The key of a server that must be told comes back, and the relay, if the server must be told
    /// once more should it last: its statement has been sent only now, though the client sent it earlier, and a server that
    /// has not read it yet ignores the request.
    fn begin_cancel(&self) -> Option<(BackendKey, Option<u64>)> {
        let mut state = self.lock();
        match &state.doing {
            ClientState::Nothing => None,
            ClientState::Waiting(pool, waiter) => {
                if !pool.cancel(*waiter) {
                    state.cancelled = true;
                    self.too_late.notify_waiters();
                }
                None
            }
            ClientState::Starting => {
                state.cancelled = true;
                None
            }
            ClientState::Relaying(key) => {
                let key = key.clone();
                let young = |began: Instant| began.elapsed() < REPEATED_AFTER;
                let again = state.began.is_some_and(young).then_some(state.relays);
                state.on_the_way += 1;
                Some((key, again))
            }
        }
    }

    /// What the client is doing.
    pub fn seen(&self) -> Seen {
        match &self.lock().doing {
            ClientState::Nothing | ClientState::Starting => Seen::Idle,
            ClientState::Relaying(key) => Seen::Relaying(key.process),
            ClientState::Waiting(pool, waiter) => match pool.waiting_since(*waiter) {
                Some(since) => Seen::Waiting(since),
                None => Seen::Travelling,
            },
        }
    }

    /// Cancel requests on their way to its server.
    pub fn cancels(&self) -> usize {
        self.lock().on_the_way
    }

    /// Its settings, as far as they are known here.
    pub fn settings(&self) -> Option<Arc<SessionSettings>> {
        self.lock().settings.clone()
    }

    /// From now on it has these settings.
    pub fn has_settings(&self, settings: &Arc<SessionSettings>) {
        let mut state = self.lock();
        let same = state.settings.as_ref().is_some_and(|s| s.id == settings.id);
        if !same {
            state.settings = Some(Arc::clone(settings));
        }
    }

    /// Its unit leaves the line, if it is still there: what an operator has ended must not be carried out. A client that waits for
    /// its login has no task of its own yet.
    fn kill(&self) -> bool {
        match &self.lock().doing {
            ClientState::Waiting(pool, waiter) if !self.info.has_task() => {
                return pool
                    .disconnect_waiter(*waiter, ErrorResponse::fatal("08P01", DISCONNECTED));
            }
            ClientState::Waiting(pool, waiter) => {
                pool.withdraw(*waiter);
            }
            ClientState::Nothing | ClientState::Starting | ClientState::Relaying(_) => {}
        }
        self.info.kill()
    }

    /// May it be told something now? In a relay a message may be half written.
    pub fn may_be_told(&self) -> bool {
        !matches!(self.lock().doing, ClientState::Relaying(_))
    }

    /// Returns when, from now on, a cancel comes for a unit that has departed.
    pub fn cancelled_too_late(&self) -> Notified<'_> {
        self.too_late.notified()
    }

    /// The client does something else now.
    pub fn now(&self, doing: ClientState) {
        self.lock().doing = doing;
    }

    /// The client waits no longer, and does this instead. True: it was cancelled after it had left the line.
    pub fn has_waited(&self, doing: ClientState) -> bool {
        let mut state = self.lock();
        state.doing = doing;
        std::mem::take(&mut state.cancelled)
    }

    /// Another unit follows in the same relay.
    pub fn relays_on(&self) {
        let mut state = self.lock();
        state.relays += 1;
        state.began = None;
    }

    /// The same relay goes on; counts a further request to its server.
    fn relays_still(&self, relay: u64) -> bool {
        let mut state = self.lock();
        let same = state.relays == relay && matches!(state.doing, ClientState::Relaying(_));
        state.on_the_way += usize::from(same);
        same
    }

    /// The client's unit is sent on this connection now; `None`: others may follow it. False: it was cancelled before.
    pub fn relay_begins(&self, key: BackendKey, now: Option<Instant>) -> bool {
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

    /// The client's relay ends: no further cancel goes to its server, and those on the way have arrived.
    pub async fn leave_server(&self) {
        self.now(ClientState::Nothing);
        loop {
            let delivered = self.delivered.notified();
            if self.lock().on_the_way == 0 {
                return;
            }
            delivered.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Proxy;
    use paceline_config::{Config, Host, SslMode, Tcp, Upstream, UpstreamTls};
    use paceline_net::Peer;
    use paceline_pool::address::Address;
    use tokio::net::TcpListener;

    const KEY: CancelKey = CancelKey {
        process: 7,
        secret: 3,
    };

    /// A server that takes connections, and a client that relays there.
    async fn relaying() -> (TcpListener, Arc<ClientEntry>) {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = server.local_addr().expect("an address").port();
        let address = Address {
            upstream: Upstream {
                host: Host::Tcp("127.0.0.1".to_owned()),
                port,
                user: None,
                password: None,
                dbname: None,
                tls: UpstreamTls {
                    sslmode: Some(SslMode::Disable),
                    ..UpstreamTls::default()
                },
            },
            database: "app".to_owned(),
            user: "app".to_owned(),
            keyring: Arc::default(),
            startup: Vec::new(),
            connect_query: String::new(),
            tcp: Tcp::default(),
        };
        let config = Config::for_upstream("postgres://db").expect("a configuration");
        let proxy = Arc::new(Proxy::new(config));
        let pool = proxy.pools.pool("app", "rider").expect("a pool");
        let client = Arc::new(ClientEntry {
            info: ClientInfo::new(&pool, Peer::Disconnected, None),
            key: KEY,
            state: Mutex::default(),
            delivered: Notify::new(),
            too_late: Notify::new(),
        });
        client.now(ClientState::Relaying(BackendKey::new(&Arc::new(address))));
        (server, client)
    }

    /// A request is dropped while the server has not taken note of it, as when its sender's time for logging in is up:
    /// the client it was meant for is not held up.
    #[tokio::test]
    async fn a_cancel_that_is_cut_short_holds_nobody_up() {
        let (server, client) = relaying().await;
        let cancels = CancelKeys::default();
        cancels.lock().insert(7, Arc::clone(&client));
        tokio::select! {
            _ = cancels.cancel(KEY, Duration::from_secs(10)) => panic!("the server has not answered"),
            taken = server.accept() => drop(taken.expect("the cancel request")),
        }
        assert_eq!(client.lock().on_the_way, 0);
        client.leave_server().await;
    }

    /// The server takes the connection and says nothing: `cancel_wait_timeout`.
    #[tokio::test]
    async fn a_cancel_that_the_server_does_not_take_is_given_up() {
        let (_server, client) = relaying().await;
        let cancels = CancelKeys::default();
        cancels.lock().insert(7, Arc::clone(&client));
        assert!(cancels.cancel(KEY, Duration::from_millis(20)).await);
        client.leave_server().await;
    }
}
