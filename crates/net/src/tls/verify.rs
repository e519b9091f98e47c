//! Verifies certificates of servers by libpq's `sslmode`, and certificates of clients by PgBouncer's `client_tls_sslmode`.
//! Revocation is not checked.

mod version_1;

use super::certificate;
use super::files::Authorities;
use super::provider::provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::fmt;
use std::sync::Arc;

/// Verifies a server's certificate, and always that the server has its private key.
pub(super) struct ServerVerifier {
    /// Authorities that may issue the certificate; `None` accepts any certificate.
    trust: Option<Authorities>,
    /// Whether the certificate must name the host that was dialled.
    check_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    pub(super) fn new(
        trust: Option<Authorities>,
        check_name: bool,
        provider: &CryptoProvider,
    ) -> Self {
        Self {
            trust,
            check_name,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// Checks that a path leads from the certificate to an authority, or that the certificate itself is among the authorities: a
    /// self-signed server certificate may be its only authority.
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

impl ServerCertVerifier for ServerVerifier {
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
        if self.check_name {
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

/// Checks the alternative names; as in libpq, the common name counts only if there are none.
fn check_name(cert: &CertificateDer<'_>, wanted: &ServerName<'_>) -> Result<(), Error> {
    let names = certificate::names(cert);
    if !names.alternative.is_empty() || names.has_addresses {
        return verify_server_name(&ParsedCertificate::try_from(cert)?, wanted);
    }
    let wanted = wanted.to_str();
    match names
        .common
        .is_some_and(|name| matches_host(&name, &wanted))
    {
        true => Ok(()),
        false => Err(CertificateError::NotValidForName.into()),
    }
}

/// Whether the name in a certificate matches this host. A leading `*` matches one label.
fn matches_host(name: &str, wanted: &str) -> bool {
    let Some(domain) = name.strip_prefix("*.") else {
        return name.eq_ignore_ascii_case(wanted);
    };
    let rest = wanted.split_once('.');
    rest.is_some_and(|(host, rest)| !host.is_empty() && rest.eq_ignore_ascii_case(domain))
}

/// Requests a certificate from clients, and accepts clients without one or with one that is not valid (`client_tls_sslmode` below
/// `verify-ca`). The certificate is verified after the handshake, to read the client's names. The client must have the private key
/// of the certificate that it sends.
#[derive(Debug)]
pub(super) struct OptionalClientCert(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for OptionalClientCert {
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
        let algorithms = provider().signature_verification_algorithms;
        version_1::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        version_1::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl fmt::Debug for ServerVerifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ServerVerifier")
    }
}
