//! Counts client connections.

use crate::proxy::Proxy;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counts one connection until this is dropped.
pub struct ConnectionGuard(Arc<Proxy>);

impl ConnectionGuard {
    /// Counts a connection that was just accepted.
    pub fn new(proxy: &Arc<Proxy>) -> Self {
        proxy.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(proxy))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
