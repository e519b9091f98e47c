//! TLS towards clients and servers, with rustls and the ciphers of ring. What the operator's files amount to is kept in a
//! [`Keyring`]; what one connection needs, in [`session`].
//!
//! There is no resumption of sessions, no early data and no renegotiation: PostgreSQL has none of them either. Keys never
//! reach a log.

mod certificate;
mod cipher;
mod clients;
mod engine;
mod files;
mod servers;
pub(crate) mod session;
#[cfg(test)]
mod tests;
mod verify;

use arc_swap::ArcSwap;
pub(crate) use cipher::Cipher;
pub(crate) use clients::Acceptor;
use paceline_config::{Config, Encryption, Protocols, Side, Upstream};
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedProtocolVersion, server::VerifierBuilderError};
pub(crate) use servers::Connector;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The protocol in which both sides agree within TLS (ALPN): registered for PostgreSQL, required by direct TLS.
const ALPN: &[u8] = b"postgresql";

/// Keys and certificates as they were read last. Connections that there are keep what they began with.
#[derive(Default)]
pub(crate) struct Keyring(ArcSwap<Keys>);

/// What was read together.
#[derive(Default)]
pub(crate) struct Keys {
    settings: Encryption,
    clients: Option<Arc<Acceptor>>,
    servers: HashMap<Side, Arc<Connector>>,
}

impl Keys {
    /// Reads the files that a configuration names, for clients and for its servers.
    ///
    /// # Errors
    /// The first file that cannot be used, or that is missing.
    pub(crate) fn read(config: &Config) -> Result<Self, TlsError> {
        let databases = config.databases.values();
        let servers = databases.map(|database| &database.primary);
        Self::for_servers(&config.paceline.encryption, servers)
    }

    /// The same for these servers.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn for_servers<'a>(
        settings: &Encryption,
        upstreams: impl IntoIterator<Item = &'a Upstream>,
    ) -> Result<Self, TlsError> {
        let mut servers = HashMap::new();
        for upstream in upstreams {
            if let Entry::Vacant(place) = servers.entry(settings.towards(upstream)) {
                let connector = Connector::new(place.key())?;
                place.insert(Arc::new(connector));
            }
        }
        Ok(Self {
            settings: settings.clone(),
            clients: Acceptor::new(&settings.client)?.map(Arc::new),
            servers,
        })
    }

    /// May a client show a certificate that is verified?
    pub(crate) fn verify_clients(&self) -> bool {
        let clients = self.clients.as_ref();
        clients.is_some_and(|_| self.settings.client.ca_file.is_some())
    }

    /// Are these what the settings amount to?
    pub(crate) fn are_those_of(&self, settings: &Encryption) -> bool {
        self.settings == *settings
    }

    /// Is this server met in the same way with others?
    pub(crate) fn agree(&self, others: &Self, upstream: &Upstream) -> bool {
        self.settings.towards(upstream) == others.settings.towards(upstream)
    }
}

impl Keyring {
    /// From now on new connections use these; nobody is dropped.
    pub(crate) fn hold(&self, keys: Arc<Keys>) {
        self.0.store(keys);
    }

    /// Those that new connections use.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.0.load_full()
    }

    /// How clients are met; `None`: without TLS.
    pub(crate) fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.0.load().clients.clone()
    }

    /// How this server is met.
    ///
    /// # Errors
    /// Only for a server that was not among those that were loaded: its files are read now.
    pub(crate) fn connector(&self, upstream: &Upstream) -> Result<Arc<Connector>, TlsError> {
        let loaded = self.0.load();
        let side = loaded.settings.towards(upstream);
        match loaded.servers.get(&side) {
            Some(connector) => Ok(Arc::clone(connector)),
            None => Connector::new(&side).map(Arc::new),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Keyring")
    }
}

impl TlsError {
    /// Does it end when another setting is set, too?
    pub(crate) fn is_incomplete(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::Unusable { reason, .. } => matches!(reason, rustls::Error::InconsistentKeys(_)),
            _ => false,
        }
    }
}

/// Why TLS cannot be set up as it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file that cannot be read, or holds nothing that is wanted of it.
    #[error("cannot read {what} from {}: {reason}", .path.display())]
    File {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A setting that needs another one.
    #[error("{setting} needs {missing}; set it to the path of a PEM file")]
    Missing {
        /// What was set.
        setting: String,
        /// What is not.
        missing: &'static str,
    },
    /// Key and certificate do not go together, or rustls cannot use them.
    #[error("{}: {reason}", .cert.display())]
    Unusable {
        /// The certificate.
        cert: PathBuf,
        /// What rustls says.
        reason: rustls::Error,
    },
    /// Authorities by which nothing can be checked.
    #[error("{}: {reason}", .ca.display())]
    Authorities {
        /// The file.
        ca: PathBuf,
        /// What rustls says.
        reason: VerifierBuilderError,
    },
    /// rustls does not do it at all.
    #[error("{0}")]
    Rustls(#[from] rustls::Error),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn versions(protocols: &Protocols) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    let (newer, older) = BOTH.split_at(1);
    match (protocols.has_1_2(), protocols.has_1_3()) {
        (true, false) => older,
        (false, true) => newer,
        _ => &BOTH,
    }
}
