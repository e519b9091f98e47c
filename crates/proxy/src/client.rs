//! A client connection: login, then one request after another. Each request is answered at once, relayed, or put into the line.

mod deferred;
mod deferred_transaction;
mod end;
mod idle_timer;
mod listening;
mod logging;
mod login;
mod query_timers;
mod relay;
mod replicas;
mod replication;
mod requests;
mod rest;
mod send;
mod serve;
mod shards;
mod single;
mod slot;
mod taken;
mod throttle;
mod trace;
mod wait;
mod work_budget;

pub use login::ConsoleLogin;
pub use serve::serve;

use crate::cancel::Registration;
use crate::proxy::Proxy;
use crate::shared_listen::ListeningClient;
use bytes::BytesMut;
use deferred_transaction::DeferredTransaction;
use end::{ClientEnd, disconnected, shut_down};
use idle_timer::IdleTimer;
use paceline_config::PoolMode;
use paceline_net::Stream;
use paceline_pool::pool::{Admission, DisconnectSignal, Pool, SettingsCache};
use paceline_pool::replicas::{ReplicasInForce, Seen, ShardsSeen};
use paceline_pool::sharding::ShardsInForce;
use paceline_relay::request::RequestScanner;
use paceline_relay::session::ClientSession;
use paceline_wire::ErrorResponse;
use slot::ClientSlot;
use std::sync::Arc;
use taken::Taken;
use tokio::sync::watch;
use trace::RequestTrace;
use work_budget::WorkBudget;

/// Size of a client in bytes, without its buffers and statements.
pub const SIZE: usize = size_of::<Client>();

/// A client that is logged in.
pub(crate) struct Client {
    proxy: Arc<Proxy>,
    pool: Arc<Pool>,
    /// The settings of the pool.
    pool_settings: SettingsCache,
    stream: Stream,
    input: BytesMut,
    scanner: RequestScanner,
    session: ClientSession,
    registration: Registration,
    /// The mode of the pool at login.
    mode: PoolMode,
    /// Whether the pool may refuse the present request.
    admission: Admission,
    /// The messages of the request that have been taken from `input`.
    taken: Taken,
    budget: WorkBudget,
    /// Present while the client listens through the shared connection.
    listening: Option<Box<ListeningClient>>,
    replicas: ReplicasInForce,
    shards: ShardsInForce,
    /// The state of a database with replicas that the client has seen.
    seen: Seen,
    /// The states of the shards of its database that the client has seen.
    shards_seen: ShardsSeen,
    /// Present in a transaction that has not begun on a server.
    deferred: Option<Box<DeferredTransaction>>,
    /// Limits the idle time.
    idle_timer: Option<Box<IdleTimer>>,
    /// The span of the request that has no answer, unless a relay has it.
    trace: Option<Box<RequestTrace>>,
    disconnect: watch::Receiver<DisconnectSignal>,
    _slot: ClientSlot,
}

impl Drop for Client {
    fn drop(&mut self) {
        let entry = &self.registration.entry;
        if !entry.info.is_killed() {
            return;
        }
        self.log_error("admin forced disconnect");
        if entry.can_receive_error() {
            let mut out = BytesMut::new();
            ErrorResponse::fatal("08P01", "admin forced disconnect").write(&mut out);
            // The connection is closed whether or not this write succeeds.
            let _ = self.stream.write_now(&mut out);
        }
    }
}
