//! Peers (PgBouncer's `[peers]`): other processes that clients may reach at the same address. A cancel request arrives on a
//! connection of its own, so it may reach another process than the one that has the client. Its key names that process, and the
//! request is forwarded to it.

use crate::cancel::CancelKey;
use paceline_config::{Peer, Upstream, UpstreamTls};
use paceline_net::optional_timeout;
use paceline_pool::address::Address;
use paceline_pool::server::{BackendKey, deliver};
use paceline_pool::shared::Shared;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Cancel requests that are being forwarded.
#[derive(Debug, Default)]
pub struct Peers {
    loads: Mutex<HashMap<u16, PeerLoad>>,
    /// Notified when a request has arrived.
    arrived: Notify,
}

/// The requests for one peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerLoad {
    /// Requests that are being forwarded.
    pub sent: usize,
    /// Requests that wait because the peer's `pool_size` is reached.
    pub waiting: usize,
}

/// Counts a request until this is dropped.
struct CountedRequest<'a> {
    peers: &'a Peers,
    peer_id: u16,
    which: fn(&mut PeerLoad) -> &mut usize,
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        let mut loads = self.peers.lock();
        if let Some(load) = loads.get_mut(&self.peer_id) {
            *(self.which)(load) -= 1;
        }
        drop(loads);
        self.peers.arrived.notify_waiters();
    }
}

impl Peers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u16, PeerLoad>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests for a peer.
    pub fn load(&self, peer_id: u16) -> PeerLoad {
        self.lock().get(&peer_id).copied().unwrap_or_default()
    }

    /// Counts one more request. `None`: there are already `max`.
    fn count(
        &self,
        peer_id: u16,
        which: fn(&mut PeerLoad) -> &mut usize,
        max: usize,
    ) -> Option<CountedRequest<'_>> {
        let mut loads = self.lock();
        let count = which(loads.entry(peer_id).or_default());
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(CountedRequest {
            peers: self,
            peer_id,
            which,
        })
    }

    /// Waits until fewer than `max` requests are being forwarded to the peer.
    async fn slot(&self, peer_id: u16, max: usize) -> CountedRequest<'_> {
        let _waits = self.count(peer_id, |load| &mut load.waiting, usize::MAX);
        loop {
            let arrived = self.arrived.notified();
            if let Some(sent) = self.count(peer_id, |load| &mut load.sent, max) {
                return sent;
            }
            arrived.await;
        }
    }
}

/// Forwards a cancel request to the peer that its key names, if there is one. Returns when the peer has taken it.
pub(crate) async fn forward(peers: &Peers, shared: &Shared, key: CancelKey) {
    let config = shared.config();
    let peer_id = key.peer_id();
    let own = config.paceline.listening.peer_id;
    if own == 0 || own == usize::from(peer_id) {
        return;
    }
    let Some(peer) = config.peers.get(&peer_id) else {
        tracing::debug!(
            peer_id,
            "a cancel request is for a peer that is not configured"
        );
        return;
    };
    let Some(key) = key.forwarded() else {
        tracing::debug!(peer_id, "a cancel request has been forwarded too often");
        return;
    };
    let limit = config.paceline.timeouts.cancel_wait_timeout;
    let max = peer.pool_size(&config.paceline);
    let Some(_sent) = optional_timeout(limit, peers.slot(peer_id, max)).await else {
        tracing::debug!(
            peer_id,
            "too many cancel requests are being forwarded to the peer"
        );
        return;
    };
    let address = Arc::new(address(shared, peer));
    deliver(
        &BackendKey::of_peer(&address, key.process, key.secret),
        limit,
    )
    .await;
}

/// The address of a peer. Its connections are encrypted like those to servers, as in PgBouncer.
fn address(shared: &Shared, peer: &Peer) -> Address {
    Address {
        upstream: Upstream {
            host: peer.host.clone(),
            port: peer.port,
            user: None,
            password: None,
            dbname: None,
            tls: UpstreamTls::default(),
        },
        database: String::new(),
        user: String::new(),
        startup: Vec::new(),
        connect_query: String::new(),
        tcp: shared.config().paceline.tcp.clone(),
        keyring: Arc::clone(&shared.keyring),
        compression: None,
        location: None,
    }
}
