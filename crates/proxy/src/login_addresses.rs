//! The addresses to which clients have logged in, one per server. `/ready` logs in to the servers as these users.

use paceline_config::Upstream;
use paceline_pool::address::Address;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One address per server.
#[derive(Debug, Default)]
pub struct LoginAddresses(Mutex<Vec<Arc<Address>>>);

/// Whether both lead to the same server.
pub fn is_same_server(one: &Upstream, other: &Upstream) -> bool {
    one.host == other.host && one.port == other.port
}

impl LoginAddresses {
    /// Remembers the address of a login.
    pub(crate) fn add(&self, address: Arc<Address>) {
        let mut addresses = self.lock();
        let is_known = |other: &Arc<Address>| is_same_server(&other.upstream, &address.upstream);
        if !addresses.iter().any(is_known) {
            addresses.push(address);
        }
    }

    /// An address on this server to which a client has logged in.
    pub fn on(&self, upstream: &Upstream) -> Option<Arc<Address>> {
        let addresses = self.lock();
        let address = addresses
            .iter()
            .find(|other| is_same_server(&other.upstream, upstream))?;
        Some(Arc::new(Address {
            upstream: upstream.clone(),
            ..Address::clone(address)
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Address>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
