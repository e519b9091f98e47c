//! A peer: another process to which cancel requests are passed on.

use crate::settings::Settings;
use crate::upstream::Host;

/// Another process.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// Where it listens and no other process does.
    pub host: Host,
    /// The port there.
    pub port: u16,
    pub(crate) pool_size: Option<usize>,
}

impl Peer {
    /// Most cancel requests that are on their way to it.
    pub fn pool_size(&self, settings: &Settings) -> usize {
        let default = settings.pooling.default_pool_size;
        self.pool_size.unwrap_or(default)
    }
}
