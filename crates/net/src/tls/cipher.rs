//! Cipher suites by their OpenSSL names, as PgBouncer shows them in `SHOW CLIENTS` and `SHOW SERVERS`.

use rustls::{CipherSuite, SupportedCipherSuite};
use std::num::NonZeroU16;

/// A cipher suite, which implies the version of TLS. Two bytes, because every client has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cipher(NonZeroU16);

impl Cipher {
    /// Returns the cipher of a suite; `None` for the suite that encrypts nothing.
    pub(super) fn of(suite: SupportedCipherSuite) -> Option<Self> {
        NonZeroU16::new(suite.suite().into()).map(Self)
    }

    /// Returns version and suite, as in `TLSv1.3/TLS_AES_256_GCM_SHA384`.
    pub fn name(self) -> &'static str {
        use CipherSuite as Suite;
        match Suite::from(self.0.get()) {
            Suite::TLS13_AES_256_GCM_SHA384 => "TLSv1.3/TLS_AES_256_GCM_SHA384",
            Suite::TLS13_AES_128_GCM_SHA256 => "TLSv1.3/TLS_AES_128_GCM_SHA256",
            Suite::TLS13_CHACHA20_POLY1305_SHA256 => "TLSv1.3/TLS_CHACHA20_POLY1305_SHA256",
            Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => {
                "TLSv1.2/ECDHE-ECDSA-AES256-GCM-SHA384"
            }
            Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => {
                "TLSv1.2/ECDHE-ECDSA-AES128-GCM-SHA256"
            }
            Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
                "TLSv1.2/ECDHE-ECDSA-CHACHA20-POLY1305"
            }
            Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "TLSv1.2/ECDHE-RSA-AES256-GCM-SHA384",
            Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256",
            Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
                "TLSv1.2/ECDHE-RSA-CHACHA20-POLY1305"
            }
            _ => "TLS",
        }
    }
}

#[cfg(test)]
mod tests;
