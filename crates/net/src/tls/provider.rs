//! The part of rustls that both sides use: ciphers, versions, the application protocol.

use super::settings::TlsVersions;
use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use std::sync::Arc;

/// PostgreSQL's protocol in ALPN. A client that starts TLS without `SSLRequest` must name it.
pub(super) const ALPN: &[u8] = b"postgresql";

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(super) fn versions(versions: TlsVersions) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    let (newer, older) = BOTH.split_at(1);
    match versions {
        TlsVersions::Both => &BOTH,
        TlsVersions::Tls12 => older,
        TlsVersions::Tls13 => newer,
    }
}
