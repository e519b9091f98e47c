//! Keys and certificates for clients and for each server, from the files in the configuration. Private keys are never logged.

use crate::net_settings::tls_settings;
use arc_swap::ArcSwap;
use paceline_config::{Config, Encryption, Side, Upstream};
use paceline_net::{Acceptor, Connector, TlsError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

/// The keys and certificates in force. Replacing them does not affect connections that exist.
#[derive(Default)]
pub struct Keyring(ArcSwap<TlsKeys>);

/// Keys and certificates that were read together.
#[derive(Default)]
pub struct TlsKeys {
    settings: Encryption,
    clients: Option<Arc<Acceptor>>,
    servers: HashMap<Side, Arc<Connector>>,
}

impl TlsKeys {
    /// Reads the files that a configuration names, for clients and for its servers.
    ///
    /// # Errors
    /// The first file that is missing or cannot be used.
    pub fn read(config: &Config) -> Result<Self, TlsError> {
        let databases = config.databases.values();
        let servers = databases.map(|database| &database.primary);
        Self::for_servers(&config.paceline.encryption, servers)
    }

    /// Reads the files for clients and for these servers.
    ///
    /// # Errors
    /// The first file that is missing or cannot be used.
    pub fn for_servers<'a>(
        settings: &Encryption,
        upstreams: impl IntoIterator<Item = &'a Upstream>,
    ) -> Result<Self, TlsError> {
        let mut servers = HashMap::new();
        for upstream in upstreams {
            if let Entry::Vacant(entry) = servers.entry(settings.towards(upstream)) {
                let connector = Connector::new(&tls_settings(entry.key()))?;
                entry.insert(Arc::new(connector));
            }
        }
        Ok(Self {
            settings: settings.clone(),
            clients: Acceptor::new(&tls_settings(&settings.client))?.map(Arc::new),
            servers,
        })
    }

    /// Whether Paceline verifies certificates that clients send.
    pub fn verify_clients(&self) -> bool {
        let clients = self.clients.as_ref();
        clients.is_some_and(|_| self.settings.client.ca_file.is_some())
    }

    /// Whether the keys were read for these settings.
    pub fn are_those_of(&self, settings: &Encryption) -> bool {
        self.settings == *settings
    }

    /// Whether connections to this server use the same TLS settings in both.
    pub fn agree(&self, others: &Self, upstream: &Upstream) -> bool {
        self.settings.towards(upstream) == others.settings.towards(upstream)
    }
}

impl Keyring {
    /// Uses these keys for new connections.
    pub fn replace(&self, keys: Arc<TlsKeys>) {
        self.0.store(keys);
    }

    /// Returns the keys that new connections use.
    pub fn keys(&self) -> Arc<TlsKeys> {
        self.0.load_full()
    }

    /// Returns the TLS acceptor for clients; `None` if it is disabled.
    pub fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.0.load().clients.clone()
    }

    /// Returns the TLS connector for this server. For a server that is not in the configuration, this reads the files.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub(crate) fn connector(&self, upstream: &Upstream) -> Result<Arc<Connector>, TlsError> {
        let loaded = self.0.load();
        let side = loaded.settings.towards(upstream);
        match loaded.servers.get(&side) {
            Some(connector) => Ok(Arc::clone(connector)),
            None => Connector::new(&tls_settings(&side)).map(Arc::new),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Keyring")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_config::SslMode;

    #[test]
    fn new_files_apply_when_the_keys_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [cert, key] = ["cert", "key"].map(|file| folder.path().join(file));
        let write = || {
            let signed = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
            std::fs::write(&cert, signed.cert.pem()).unwrap();
            std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        };
        let mut settings = Encryption::default();
        settings.client = Side {
            sslmode: SslMode::Require,
            key_file: Some(key.clone()),
            cert_file: Some(cert.clone()),
            ..settings.client
        };
        let keyring = Keyring::default();
        let binding = || keyring.acceptor().unwrap().channel_binding();
        let read = || TlsKeys::for_servers(&settings, []).map(Arc::new);
        write();
        keyring.replace(read().unwrap());
        let first = binding();

        write();
        assert_eq!(binding(), first);
        keyring.replace(read().unwrap());
        let second = binding();
        assert_ne!(first, second);

        std::fs::write(&cert, "not a certificate").unwrap();
        let error = read().map(drop).unwrap_err().to_string();
        assert!(error.contains("cannot read a certificate from "), "{error}");
        assert_eq!(binding(), second);
    }
}
