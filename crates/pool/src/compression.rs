//! Compression of connections to servers that may be Pacelines, and of clients that are.
//!
//! All connections to one server share a compressor, and so do those of all clients: they share a link.

use paceline_config::{Compression, CompressionMethod, Host, Upstream};
use paceline_net::{ByteCounts, CompressionSettings, Compressor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long compression is not offered to a server that has refused a startup packet with the offer.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// The compressors of the process.
#[derive(Debug, Default)]
pub struct Compressors {
    clients: Mutex<Option<Arc<Compressor>>>,
    servers: Mutex<HashMap<(Host, u16, CompressionSettings), Arc<ServerLink>>>,
    /// Bytes of connections of clients.
    pub client_bytes: Arc<ByteCounts>,
    /// Bytes of connections to servers.
    pub server_bytes: Arc<ByteCounts>,
}

impl Compressors {
    /// For clients that offer compression; `None` if it is off.
    pub fn for_clients(&self, config: &Compression) -> Option<Arc<Compressor>> {
        let settings = settings(config.client_compression, config)?;
        let mut present = lock(&self.clients);
        let same = present.take().filter(|one| one.settings() == settings);
        let compressor =
            same.unwrap_or_else(|| Arc::new(Compressor::new(settings, self.client_bytes.clone())));
        Some(Arc::clone(present.insert(compressor)))
    }

    fn for_server(&self, upstream: &Upstream, settings: CompressionSettings) -> Arc<ServerLink> {
        let key = (upstream.host.clone(), upstream.port, settings);
        let mut servers = lock(&self.servers);
        let link = servers.entry(key).or_insert_with(|| {
            Arc::new(ServerLink {
                compressor: Arc::new(Compressor::new(settings, self.server_bytes.clone())),
                refused: Mutex::default(),
            })
        });
        Arc::clone(link)
    }

    /// Offers compression again to servers that have refused it.
    pub(crate) fn forget_refusals(&self) {
        for link in lock(&self.servers).values() {
            *lock(&link.refused) = None;
        }
    }
}

/// Compression of connections to the servers of a database.
#[derive(Debug, Clone)]
pub struct ServerCompression {
    settings: CompressionSettings,
    compressors: Arc<Compressors>,
}

impl PartialEq for ServerCompression {
    /// A process has one set of compressors.
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl ServerCompression {
    /// As the settings of a database say; `None` if it is off.
    pub(crate) fn new(config: &Compression, compressors: &Arc<Compressors>) -> Option<Self> {
        Some(Self {
            settings: settings(config.server_compression, config)?,
            compressors: Arc::clone(compressors),
        })
    }

    /// The link to a server.
    pub(crate) fn towards(&self, upstream: &Upstream) -> Arc<ServerLink> {
        self.compressors.for_server(upstream, self.settings)
    }
}

/// Compression of connections to one server.
#[derive(Debug)]
pub(crate) struct ServerLink {
    /// Compresses the connections.
    pub(crate) compressor: Arc<Compressor>,
    /// When a startup packet was refused for the offer.
    refused: Mutex<Option<Instant>>,
}

impl ServerLink {
    /// Whether a login offers compression.
    pub(crate) fn offers(&self, now: Instant) -> bool {
        let refused = *lock(&self.refused);
        refused.is_none_or(|at| now.saturating_duration_since(at) >= REFUSED_FOR)
    }

    /// Notes that the server, or something in front of it, has refused the offer with the whole startup packet.
    pub(crate) fn is_refused(&self, now: Instant) {
        *lock(&self.refused) = Some(now);
    }
}

fn settings(method: CompressionMethod, config: &Compression) -> Option<CompressionSettings> {
    Some(CompressionSettings {
        level: method.level()?,
        shared_window: config.compression_shared_window,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_config::{ANY_DATABASE, Config};

    fn config(method: &str) -> Compression {
        let mut config = Config::default();
        for side in ["client", "server"] {
            config.set(&format!("{side}_compression={method}")).unwrap();
        }
        config.paceline.compression
    }

    fn upstream(url: &str) -> Upstream {
        let mut config = Config::for_upstream(url).unwrap();
        config.databases.remove(ANY_DATABASE).unwrap().primary
    }

    #[test]
    fn connections_to_one_server_share_a_compressor() {
        let compressors = Arc::new(Compressors::default());
        assert_eq!(ServerCompression::new(&config("off"), &compressors), None);
        let compression = ServerCompression::new(&config("zstd"), &compressors).unwrap();
        let one = compression.towards(&upstream("postgres://a@db:5432/x"));
        let same = compression.towards(&upstream("postgres://b@db:5432/y"));
        let other = compression.towards(&upstream("postgres://a@db:5433/x"));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        assert_eq!(one.compressor.settings().level, 3);
    }

    #[test]
    fn clients_share_a_compressor_until_the_settings_change() {
        let compressors = Compressors::default();
        assert!(compressors.for_clients(&config("off")).is_none());
        let one = compressors.for_clients(&config("zstd:1")).unwrap();
        let same = compressors.for_clients(&config("zstd:1")).unwrap();
        let other = compressors.for_clients(&config("zstd:2")).unwrap();
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn a_refusal_is_remembered_for_a_while_or_until_a_reload() {
        let compressors = Arc::new(Compressors::default());
        let compression = ServerCompression::new(&config("zstd"), &compressors).unwrap();
        let link = compression.towards(&upstream("postgres://a@db:5432/x"));
        let now = Instant::now();
        assert!(link.offers(now));
        link.is_refused(now);
        assert!(!link.offers(now + REFUSED_FOR - Duration::from_millis(1)));
        assert!(link.offers(now + REFUSED_FOR));
        compressors.forget_refusals();
        assert!(link.offers(now));
    }
}
