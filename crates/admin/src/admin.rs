//! The state that the console and signals change.

use crate::config_snapshot::ConfigSnapshot;
use crate::config_source::ConfigSource;
use crate::log;
use paceline_pool::pool::Pool;
use paceline_proxy::proxy::Proxy;
use std::sync::Arc;

/// The proxy and the source of its configuration.
pub struct Admin {
    /// The proxy that serves the clients.
    pub proxy: Arc<Proxy>,
    pub(crate) source: ConfigSource,
}

impl Admin {
    /// Creates the state of a proxy whose configuration comes from `source`.
    pub fn new(proxy: Arc<Proxy>, source: ConfigSource) -> Arc<Self> {
        Arc::new(Self { proxy, source })
    }

    /// The active configuration. Only the holder of the reload lock may replace it.
    pub(crate) fn config_snapshot(&self) -> ConfigSnapshot {
        ConfigSnapshot {
            config: Arc::clone(&self.proxy.config()),
            files: self.proxy.auth.files(),
            keys: self.proxy.shared.keyring.keys(),
            log: None,
        }
    }

    /// Replaces the active configuration as a whole.
    pub fn apply(&self, snapshot: ConfigSnapshot) {
        let proxy = &self.proxy;
        let (before, keys) = (proxy.shared.keyring.keys(), snapshot.keys);
        proxy.shared.keyring.replace(Arc::clone(&keys));
        proxy.auth.set_files(&snapshot.config, &snapshot.files);
        if let Some(targets) = snapshot.log {
            log::write_to(targets);
        }
        log::set_verbose(snapshot.config.paceline.logging.verbose);
        proxy.set_config(snapshot.config);
        // Replace server connections whose TLS keys have changed.
        let pools = proxy.pools.all();
        let stale = |pool: &&Arc<Pool>| !keys.agree(&before, &pool.address().upstream);
        pools.iter().filter(stale).for_each(Pool::reconnect);
    }
}
