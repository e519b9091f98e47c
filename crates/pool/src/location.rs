//! The address of the server of a host that may be the primary, as the monitor has found it.
//!
//! The name of a host may resolve to another server at any time, before the monitor has probed that server. So pools connect to the address
//! that the monitor has found, without looking up the name again. When the name resolves to another server, the host is not the primary
//! until the monitor has probed that server. Connections that began before are closed when they are free, and cut when a primary is found.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The location of a host's server.
#[derive(Debug, Default)]
pub struct Location(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    /// `None`: not found yet, or a Unix socket.
    address: Option<SocketAddr>,
    /// The name leads elsewhere, and the server there was not found yet.
    is_left: bool,
    moves: u64,
}

impl Location {
    fn lock(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the server that was last found; `None`: the name decides.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.lock().address
    }

    /// As [`Location::address`]; `None` also if the name leads elsewhere.
    pub(crate) fn present_address(&self) -> Option<SocketAddr> {
        let found = self.lock();
        found.address.filter(|_| !found.is_left)
    }

    /// A number that changes when the name leads elsewhere, and again when the server there is found.
    pub(crate) fn moves(&self) -> u64 {
        self.lock().moves
    }

    /// The server was found here.
    pub(crate) fn found(&self, address: Option<SocketAddr>) {
        let mut found = self.lock();
        let ip = |address: SocketAddr| address.ip().to_canonical();
        let is_elsewhere = found.address.is_some() && found.address.map(ip) != address.map(ip);
        if std::mem::replace(&mut found.is_left, false) || is_elsewhere {
            found.moves += 1;
        }
        found.address = address;
    }

    /// The name does not lead to the address any more. Until the server there is found, connections lead to the old one: nothing is known
    /// of the new one.
    pub(crate) fn moved(&self) {
        let mut found = self.lock();
        found.is_left = true;
        found.moves += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_lead_to_the_server_that_was_found() {
        let location = Location::default();
        let [one, other] = ["10.0.0.1:5432", "10.0.0.2:5432"].map(|text| text.parse().ok());
        assert_eq!(location.address(), None);
        location.found(one);
        location.found(one);
        assert_eq!((location.address(), location.moves()), (one, 0));
        // The name has several addresses.
        location.found(other);
        assert_eq!((location.address(), location.moves()), (other, 1));
        location.moved();
        assert_eq!(location.present_address(), None);
        assert_eq!(location.address(), other);
        let between = location.moves();
        location.found(one);
        assert_eq!(location.present_address(), one);
        assert!(between > 1 && location.moves() > between);
    }
}
