//! A peer: another process to which Paceline forwards cancel requests.

use crate::hosts::Host;
use crate::settings::Settings;

/// Another process.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// An address at which only this process listens.
    pub host: Host,
    /// The port there.
    pub port: u16,
    pub(crate) pool_size: Option<usize>,
}

impl Peer {
    /// Maximum number of cancel requests on their way to the peer.
    pub fn pool_size(&self, settings: &Settings) -> usize {
        let default = settings.pooling.default_pool_size;
        self.pool_size.unwrap_or(default)
    }
}
