//! TLS, towards clients and servers.

use super::form::{choice, file, synonyms, tls_versions};
use super::key::keys;
use crate::protocols::Protocols;
use crate::ssl_mode::SslMode;
use crate::upstream::Upstream;
use std::path::PathBuf;

/// The ciphers of rustls. All are strong, and there is no choice among them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ciphers;

/// Names of all ciphers.
const CIPHERS: &[&str] = &["default", "secure"];

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

keys! {
    Encryption:
    /// Whether clients may or must use TLS, and whether they need a certificate
    client.sslmode as "client_tls_sslmode", choice::<SslMode>(), pgbouncer("disable");
    /// Private key by which clients know Paceline, PEM; "" for none
    client.key_file as "client_tls_key_file", file(), pgbouncer("");
    /// Certificate for that key, followed by intermediate certificates, PEM; "" for none
    client.cert_file as "client_tls_cert_file", file(), pgbouncer("");
    /// Authorities that certificates of clients must come from, PEM; "" for none
    client.ca_file as "client_tls_ca_file", file(), pgbouncer("");
    /// Versions of TLS for clients; there are 1.2 and 1.3
    client.protocols as "client_tls_protocols", tls_versions(), pgbouncer("secure");
    /// Ciphers for clients; there are strong ones only, and no choice among them
    ciphers as "client_tls_ciphers", synonyms(CIPHERS, Ciphers), pgbouncer("default");
    /// Whether connections to servers use TLS, and what of the server's certificate is checked
    server.sslmode as "server_tls_sslmode", choice::<SslMode>(), pgbouncer("prefer");
    /// Authorities that certificates of servers must come from, PEM; "" for none
    server.ca_file as "server_tls_ca_file", file(), pgbouncer("");
    /// Private key with which Paceline identifies itself to servers, PEM; "" for none
    server.key_file as "server_tls_key_file", file(), pgbouncer("");
    /// Certificate for that key, PEM; "" for none
    server.cert_file as "server_tls_cert_file", file(), pgbouncer("");
    /// Versions of TLS for servers; there are 1.2 and 1.3
    server.protocols as "server_tls_protocols", tls_versions(), pgbouncer("secure");
    /// Ciphers for servers; there are strong ones only, and no choice among them
    ciphers as "server_tls_ciphers", synonyms(CIPHERS, Ciphers), pgbouncer("default");
}
