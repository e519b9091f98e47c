//! The names of ciphers.

use super::Cipher;
use rustls::crypto::ring::ALL_CIPHER_SUITES;

#[test]
fn every_suite_that_is_offered_has_its_version_and_name() {
    for suite in ALL_CIPHER_SUITES {
        let name = Cipher::of(*suite).unwrap().name();
        let version = match suite.tls13() {
            Some(_) => "TLSv1.3/TLS_",
            None => "TLSv1.2/ECDHE-",
        };
        assert!(name.starts_with(version), "{suite:?}: {name}");
    }
}
