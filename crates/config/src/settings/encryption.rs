//! TLS, towards clients and servers.

use super::form::{AbsolutePath, Described, Form, TlsVersions, choice};
use super::key::Key;
use crate::protocols::Protocols;
use crate::ssl_mode::SslMode;
use crate::upstream::Upstream;
use crate::value::{self, ValueError, Written};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The ciphers of rustls, all of which are strong: there is no choice among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Ciphers;

/// The names that mean all ciphers there are.
struct CipherNames;

impl CipherNames {
    const ALL: &[&str] = &["default", "secure"];
}

impl Described for CipherNames {
    fn limits(&self) -> String {
        Self::ALL.join(", ")
    }

    fn schema(&self) -> Value {
        json!({ "enum": Self::ALL })
    }
}

impl Form<Ciphers> for CipherNames {
    fn read(&self, written: Written<'_>) -> Result<Ciphers, ValueError> {
        value::choice(written, Self::ALL).map(|_| Ciphers)
    }

    fn plain(&self, _: &Ciphers) -> String {
        "default".to_owned()
    }
}

/// TLS towards one side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Side {
    /// Whether connections are encrypted.
    pub sslmode: SslMode,
    /// Paceline's own private key.
    pub key_file: Option<PathBuf>,
    /// Paceline's own certificate, and those that lead from it to an authority.
    pub cert_file: Option<PathBuf>,
    /// Certificates of the authorities that the other side's certificate must come from.
    pub ca_file: Option<PathBuf>,
    /// Versions that are spoken.
    pub protocols: Protocols,
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
pub struct Encryption {
    /// Towards clients.
    pub client: Side,
    /// Towards servers whose URL says nothing else.
    pub server: Side,
    ciphers: Ciphers,
}

impl Default for Encryption {
    fn default() -> Self {
        Self {
            client: Side::new(SslMode::Disable),
            server: Side::new(SslMode::Prefer),
            ciphers: Ciphers,
        }
    }
}

impl Encryption {
    /// What an operator should know, with the key that it is about.
    pub fn remarks(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let sides = [
            ("client_tls_protocols", &self.client),
            ("server_tls_protocols", &self.server),
        ];
        let remark = |(key, side): (_, &Side)| Some((key, side.protocols.remark()?));
        sides.into_iter().filter_map(remark)
    }

    /// TLS towards this server: its URL replaces the settings for all servers.
    pub fn towards(&self, upstream: &Upstream) -> Side {
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

/// A key of the field at `$path` of [`Encryption`].
macro_rules! key {
    ($name:literal, $($path:ident).+, $form:expr, $meaning:literal) => {
        Key::new(
            $name,
            $meaning,
            $form,
            |settings: &S| &settings.as_ref().$($path).+,
            |settings: &mut S| &mut settings.as_mut().$($path).+,
        )
    };
}

impl Encryption {
    /// The keys of this section, in settings that have it. Both sides have the same fields, so that the names are written out.
    pub(crate) fn keys<S: AsRef<Self> + AsMut<Self> + 'static>() -> Vec<Key<S>> {
        vec![
            key!(
                "client_tls_sslmode",
                client.sslmode,
                choice::<SslMode>(),
                "Whether clients may or must use TLS, and whether they need a certificate"
            ),
            key!(
                "client_tls_key_file",
                client.key_file,
                AbsolutePath::File,
                "Private key with which Paceline identifies itself to clients, PEM; \"\" for none"
            ),
            key!(
                "client_tls_cert_file",
                client.cert_file,
                AbsolutePath::File,
                "Certificate for that key, and the intermediate certificates, PEM; \"\" for none"
            ),
            key!(
                "client_tls_ca_file",
                client.ca_file,
                AbsolutePath::File,
                "Authorities that must have signed the certificates of clients, PEM; \"\" for none"
            ),
            key!(
                "client_tls_protocols",
                client.protocols,
                TlsVersions,
                "Versions of TLS for clients; Paceline has 1.2 and 1.3"
            ),
            key!(
                "client_tls_ciphers",
                ciphers,
                CipherNames,
                "Ciphers for clients; Paceline has strong ciphers only, and no choice among them"
            ),
            key!(
                "server_tls_sslmode",
                server.sslmode,
                choice::<SslMode>(),
                "Whether connections to servers use TLS, and how the server's certificate is verified"
            ),
            key!(
                "server_tls_ca_file",
                server.ca_file,
                AbsolutePath::File,
                "Authorities that must have signed the certificates of servers, PEM; \"\" for none"
            ),
            key!(
                "server_tls_key_file",
                server.key_file,
                AbsolutePath::File,
                "Private key with which Paceline identifies itself to servers, PEM; \"\" for none"
            ),
            key!(
                "server_tls_cert_file",
                server.cert_file,
                AbsolutePath::File,
                "Certificate for that key, PEM; \"\" for none"
            ),
            key!(
                "server_tls_protocols",
                server.protocols,
                TlsVersions,
                "Versions of TLS for servers; Paceline has 1.2 and 1.3"
            ),
            key!(
                "server_tls_ciphers",
                ciphers,
                CipherNames,
                "Ciphers for servers; Paceline has strong ciphers only, and no choice among them"
            ),
        ]
    }
}
