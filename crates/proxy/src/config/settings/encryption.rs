//! TLS, towards clients and servers.

use super::Settings;
use super::key::{Key, Kind};
use super::protocols::Protocols;
use crate::config::Upstream;
use std::path::PathBuf;

/// Whether a connection is encrypted, and what of the other side's certificate is checked (libpq's `sslmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted when the other side insists.
    Allow,
    /// Encrypted when the other side can.
    Prefer,
    /// Always encrypted.
    Require,
    /// And the certificate comes from a known authority.
    VerifyCa,
    /// And it is in the name of the machine that was asked for.
    VerifyFull,
}

/// The words for [`SslMode`], from the least to the most.
const SSL_MODES: &[&str] = &[
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

impl SslMode {
    /// The mode of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return None,
        })
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// Words for the ciphers of rustls, all of which are strong: there is nothing to choose.
const CIPHERS: &[&str] = &["default", "secure"];

/// TLS towards one side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Side {
    /// Whether connections are encrypted.
    pub(crate) sslmode: SslMode,
    /// Paceline's own private key.
    pub(crate) key_file: Option<PathBuf>,
    /// Paceline's own certificate, and those that lead from it to an authority.
    pub(crate) cert_file: Option<PathBuf>,
    /// Certificates of the authorities that the other side's certificate must come from.
    pub(crate) ca_file: Option<PathBuf>,
    /// Versions that are spoken.
    pub(crate) protocols: Protocols,
}

impl Side {
    fn new(sslmode: SslMode) -> Self {
        Self {
            sslmode,
            key_file: None,
            cert_file: None,
            ca_file: None,
            protocols: Protocols::default(),
        }
    }
}

/// TLS, towards clients and servers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Encryption {
    /// Towards clients.
    pub(crate) client: Side,
    /// Towards servers whose URL says nothing else.
    pub(crate) server: Side,
}

impl Default for Encryption {
    fn default() -> Self {
        Self {
            client: Side::new(SslMode::Disable),
            server: Side::new(SslMode::Prefer),
        }
    }
}

impl Encryption {
    /// What an operator should know, with the key that it is about.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let sides = [
            ("client_tls_protocols", &self.client),
            ("server_tls_protocols", &self.server),
        ];
        let remark = |(key, side): (_, &Side)| Some((key, side.protocols.remark()?));
        sides.into_iter().filter_map(remark)
    }

    /// TLS towards this server: what its URL says goes before what is said for all servers.
    pub(crate) fn towards(&self, upstream: &Upstream) -> Side {
        let (url, all) = (&upstream.tls, &self.server);
        let own = url.key_file.is_some() || url.cert_file.is_some();
        let pair = match own {
            true => (&url.key_file, &url.cert_file),
            false => (&all.key_file, &all.cert_file),
        };
        Side {
            sslmode: url.sslmode.unwrap_or(all.sslmode),
            key_file: pair.0.clone(),
            cert_file: pair.1.clone(),
            ca_file: url.ca_file.clone().or_else(|| all.ca_file.clone()),
            protocols: all.protocols.clone(),
        }
    }
}

const fn mode(show: fn(&Settings) -> &'static str, choose: fn(&mut Settings, &str)) -> Kind {
    Kind::Choice {
        among: SSL_MODES,
        show,
        choose,
    }
}

const CHOSEN_CIPHERS: Kind = Kind::Choice {
    among: CIPHERS,
    show: |_| "default",
    choose: |_, _| {},
};

fn set_mode(field: &mut SslMode, name: &str) {
    *field = SslMode::named(name).unwrap_or(*field);
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "client_tls_sslmode",
        meaning: "Whether clients may or must use TLS, and whether they need a certificate",
        kind: mode(
            |settings| settings.encryption.client.sslmode.name(),
            |settings, name| set_mode(&mut settings.encryption.client.sslmode, name),
        ),
    },
    Key {
        name: "client_tls_key_file",
        meaning: "Private key by which clients know Paceline, PEM; \"\" for none",
        kind: Kind::File(|settings| &mut settings.encryption.client.key_file),
    },
    Key {
        name: "client_tls_cert_file",
        meaning: "Certificate that goes with that key, and those of the authorities between, PEM; \"\" for none",
        kind: Kind::File(|settings| &mut settings.encryption.client.cert_file),
    },
    Key {
        name: "client_tls_ca_file",
        meaning: "Authorities that certificates of clients must come from, PEM; \"\" for none",
        kind: Kind::File(|settings| &mut settings.encryption.client.ca_file),
    },
    Key {
        name: "client_tls_protocols",
        meaning: "Versions of TLS for clients; there are 1.2 and 1.3",
        kind: Kind::Protocols(|settings| &mut settings.encryption.client.protocols),
    },
    Key {
        name: "client_tls_ciphers",
        meaning: "Ciphers for clients; there are strong ones only, and no choice among them",
        kind: CHOSEN_CIPHERS,
    },
    Key {
        name: "server_tls_sslmode",
        meaning: "Whether connections to servers use TLS, and what of the server's certificate is checked",
        kind: mode(
            |settings| settings.encryption.server.sslmode.name(),
            |settings, name| set_mode(&mut settings.encryption.server.sslmode, name),
        ),
    },
    Key {
        name: "server_tls_ca_file",
        meaning: "Authorities that certificates of servers must come from, PEM; \"\" for none",
        kind: Kind::File(|settings| &mut settings.encryption.server.ca_file),
    },
    Key {
        name: "server_tls_key_file",
        meaning: "Private key with which Paceline identifies itself to servers, PEM; \"\" for none",
        kind: Kind::File(|settings| &mut settings.encryption.server.key_file),
    },
    Key {
        name: "server_tls_cert_file",
        meaning: "Certificate that goes with that key, PEM; \"\" for none",
        kind: Kind::File(|settings| &mut settings.encryption.server.cert_file),
    },
    Key {
        name: "server_tls_protocols",
        meaning: "Versions of TLS for servers; there are 1.2 and 1.3",
        kind: Kind::Protocols(|settings| &mut settings.encryption.server.protocols),
    },
    Key {
        name: "server_tls_ciphers",
        meaning: "Ciphers for servers; there are strong ones only, and no choice among them",
        kind: CHOSEN_CIPHERS,
    },
];
