//! Which certificates are accepted: those of servers by libpq's `sslmode`, those of clients by PgBouncer's
//! `client_tls_sslmode`. Revocation is not checked.

mod version_1;

use super::certificate;
use super::files::Authorities;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::fmt;
use std::sync::Arc;

/// Verifies a server's certificate, and in any case that the server has the key of it.
pub(super) struct Verifier {
    /// Where the certificate must come from; `None`: from anywhere.
    trust: Option<Authorities>,
    /// It must be in the name of the machine that was asked for.
    name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(trust: Option<Authorities>, name: bool, provider: &CryptoProvider) -> Self {
        Self {
            trust,
            name,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// A path leads from the certificate to an authority, or it is listed among them: a server's own certificate, signed by itself,
    /// may be its only authority.
    fn check_path(
        &self,
        trust: &Authorities,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if trust.listed.iter().any(|listed| listed == end) {
            return match certificate::is_valid_at(end, now.as_secs()) {
                true => Ok(()),
                false => Err(CertificateError::Expired.into()),
            };
        }
        let parsed = ParsedCertificate::try_from(end)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &trust.roots, between, now, algorithms)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(trust) = &self.trust {
            self.check_path(trust, end_entity, intermediates, now)?;
        }
        if self.name {
            check_name(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version_1::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version_1::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The alternative names decide; the common name, as in libpq, only where there are none.
fn check_name(cert: &CertificateDer<'_>, wanted: &ServerName<'_>) -> Result<(), Error> {
    let names = certificate::names(cert);
    if !names.alternative.is_empty() || names.has_addresses {
        return verify_server_name(&ParsedCertificate::try_from(cert)?, wanted);
    }
    let wanted = wanted.to_str();
    match names.common.is_some_and(|name| covers(&name, &wanted)) {
        true => Ok(()),
        false => Err(CertificateError::NotValidForName.into()),
    }
}

/// Does the name of a certificate stand for this machine? `*` in front stands for one part of the name.
fn covers(name: &str, wanted: &str) -> bool {
    let Some(domain) = name.strip_prefix("*.") else {
        return name.eq_ignore_ascii_case(wanted);
    };
    let rest = wanted.split_once('.');
    rest.is_some_and(|(host, rest)| !host.is_empty() && rest.eq_ignore_ascii_case(domain))
}

/// Asks clients for a certificate, and accepts those that have none and those whose certificate is not good: who they are is
/// checked afterwards, when it matters (`client_tls_sslmode` below `verify-ca`). A certificate that a client shows must be
/// one of which it has the key.
#[derive(Debug)]
pub(super) struct Optional(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Optional {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = super::provider().signature_verification_algorithms;
        version_1::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = super::provider().signature_verification_algorithms;
        version_1::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Verifier")
    }
}
