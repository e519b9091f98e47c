//! Verifies handshake signatures by certificates of X.509 version 1, which `openssl x509 -req` makes without an extension file. rustls
//! reads only version 3, so this module reads the public key and rustls verifies the signature with it.

use super::super::certificate::{self, PublicKey};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};

/// As [`rustls::crypto::verify_tls12_signature`], for version 1, too.
pub(super) fn verify_tls12_signature(
    message: &[u8],
    cert: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    if !certificate::is_version_1(cert) {
        return rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms);
    }
    let key = public_key(cert)?;
    let known = algorithms.mapping.iter();
    let of_scheme = known.filter(|(scheme, _)| *scheme == signed.scheme);
    let mut of_key = of_scheme
        .flat_map(|(_, algorithms)| algorithms.iter())
        .filter(|algorithm| *algorithm.public_key_alg_id() == *key.algorithm);
    let algorithm = of_key
        .next()
        .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    match algorithm.verify_signature(key.bits, message, signed.signature()) {
        Ok(()) => Ok(HandshakeSignatureValid::assertion()),
        Err(_) => Err(CertificateError::BadSignature.into()),
    }
}

/// As [`rustls::crypto::verify_tls13_signature`], for version 1, too.
pub(super) fn verify_tls13_signature(
    message: &[u8],
    cert: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    if !certificate::is_version_1(cert) {
        return rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms);
    }
    verify_tls13_signature_with_raw_key(message, &public_key(cert)?.info, signed, algorithms)
}

fn public_key<'a>(cert: &'a CertificateDer<'_>) -> Result<PublicKey<'a>, Error> {
    certificate::public_key(cert).ok_or_else(|| CertificateError::BadEncoding.into())
}
