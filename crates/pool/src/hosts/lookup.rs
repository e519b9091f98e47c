//! Looks up the name of a host. While the monitor has a connection, it looks the name up from time to time, in the background: a resolver
//! that does not answer must not delay the probes.

use super::DatabaseHosts;
use super::probe::PROBE_LIMIT;
use crate::address::Address;
use crate::clock;
use paceline_cluster::{HostId, Observation, ProbeError};
use paceline_config::{Host, Upstream};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The looks at one name.
pub(super) struct Lookup {
    due: Instant,
    running: Option<JoinHandle<Vec<IpAddr>>>,
}

impl Lookup {
    pub(super) fn new() -> Self {
        Self {
            due: clock::now(),
            running: None,
        }
    }

    /// Returns the addresses of the name if a look has ended since the last call, an empty list if the name cannot be resolved now.
    /// Waits for them if the monitor is about to connect.
    pub(super) async fn addresses(
        &mut self,
        upstream: &Upstream,
        is_connected: bool,
    ) -> Option<Vec<IpAddr>> {
        let Host::Tcp(host) = &upstream.host else {
            return None;
        };
        if !is_connected {
            // An older look may be outdated.
            *self = Self::new();
            self.due += LOOK_EVERY;
            return Some(resolve(host.clone(), upstream.port).await);
        }
        let now = clock::now();
        if let Some(ended) = self.running.take_if(|running| running.is_finished()) {
            return ended.await.ok();
        }
        if self.running.is_none() && self.due <= now && host.parse::<IpAddr>().is_err() {
            self.due = now + LOOK_EVERY;
            self.running = Some(tokio::spawn(resolve(host.clone(), upstream.port)));
        }
        None
    }
}

/// The addresses of a host name; an empty list if it cannot be resolved now.
async fn resolve(host: String, port: u16) -> Vec<IpAddr> {
    let found = tokio::time::timeout(PROBE_LIMIT, tokio::net::lookup_host((host, port))).await;
    match found {
        Ok(Ok(addresses)) => addresses
            .map(|address| address.ip().to_canonical())
            .collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

impl DatabaseHosts {
    /// The address of the monitor, at the server that it has found before.
    pub(super) fn monitored_at_location(&self, id: HostId, address: &Arc<Address>) -> Arc<Address> {
        Arc::new(Address {
            location: self.locations.get(id.0).map(Arc::clone),
            ..(**address).clone()
        })
    }

    /// The address of the monitor at the primary; `None` while there is none.
    pub(crate) fn monitored_primary(&self) -> Option<Arc<Address>> {
        let primary = self.roles.load().primary?;
        let address = self.config.monitored.get(primary.0)?;
        Some(self.monitored_at_location(primary, address))
    }

    /// The monitor has found the server of a host at this address.
    pub(super) fn located(&self, HostId(host): HostId, address: Option<SocketAddr>) {
        if let Some(location) = self.locations.get(host) {
            location.found(address);
        }
    }

    /// Takes the addresses that the name of a host leads to, and where the monitor is connected. Returns whether the monitor should
    /// connect to the server there: the name leads elsewhere.
    ///
    /// A replica that may serve reads keeps its role: its name may resolve to several replicas, and each lookup may return another one.
    pub(super) fn looked_up(
        &self,
        id: HostId,
        addresses: &[IpAddr],
        connected: Option<IpAddr>,
    ) -> bool {
        let names = addresses.iter().map(IpAddr::to_string);
        self.lock().resolved(id, names.collect());
        let Some(location) = self.locations.get(id.0) else {
            return false;
        };
        // If a resolver answers for IPv4 only, or for IPv6, that says nothing about the other.
        let is_comparable = |at: IpAddr| {
            addresses
                .iter()
                .any(|known| known.is_ipv4() == at.is_ipv4())
        };
        let is_left = |at: IpAddr| is_comparable(at) && !addresses.contains(&at);
        let located = location.present_address();
        let located = located.map(|address| address.ip().to_canonical());
        if self.is_readable(id) || ![connected, located].into_iter().flatten().any(is_left) {
            return false;
        }
        let (database, shard) = (self.entry.as_str(), self.shard());
        let name = self.name(id);
        tracing::warn!(database, shard, host = %name, ?addresses, "the name of a host leads elsewhere");
        location.moved();
        // The report of the old server is not valid for the new one.
        let why = "the name of the host leads elsewhere".to_owned();
        self.observed(id, Observation::Failed(ProbeError::Other(why)));
        true
    }
}
