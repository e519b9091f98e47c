//! TLS towards clients: Paceline is the one that is asked, as PostgreSQL would be.

use super::certificate;
use super::files;
use super::session::Session;
use super::verify::Optional;
use super::{ALPN, TlsError, provider, versions};
use paceline_config::{Side, SslMode};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::path::Path;
use std::sync::Arc;

/// What every handshake with a client needs.
pub(crate) struct Acceptor {
    config: Arc<ServerConfig>,
    mode: SslMode,
    /// Verifies certificates that the handshake accepts unverified.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    binding: Option<Arc<[u8]>>,
}

impl Acceptor {
    /// Reads the files; `None`: there is no TLS towards clients.
    pub(super) fn new(side: &Side) -> Result<Option<Self>, TlsError> {
        if side.sslmode == SslMode::Disable {
            return Ok(None);
        }
        if side.cert_file.is_none() {
            return Err(needs(side, "client_tls_cert_file"));
        }
        let identity = files::identity(side)?.ok_or_else(|| needs(side, "client_tls_key_file"))?;
        Self::with_identity(side, identity).map(Some)
    }

    /// Shows this.
    pub(super) fn with_identity(side: &Side, identity: CertifiedKey) -> Result<Self, TlsError> {
        let binding = identity.cert.first();
        let binding = binding.and_then(|cert| certificate::end_point(cert));
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(&side.protocols))?;
        let verifier = side.ca_file.as_deref().map(verifier).transpose()?;
        let is_required = side.sslmode >= SslMode::VerifyCa;
        let (builder, verifier) = match verifier {
            None if is_required => return Err(needs(side, "client_tls_ca_file")),
            None => (builder.with_no_client_auth(), None),
            Some(verifier) if is_required => (builder.with_client_cert_verifier(verifier), None),
            Some(verifier) => {
                let optional = Optional(Arc::clone(&verifier));
                let builder = builder.with_client_cert_verifier(Arc::new(optional));
                (builder, Some(verifier))
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            mode: side.sslmode,
            verifier,
            binding: binding.map(Arc::from),
        })
    }

    /// Must a client that comes by TCP use TLS?
    pub(crate) fn is_required(&self) -> bool {
        self.mode >= SslMode::Require
    }

    /// The names of a client that has shown these certificates, its own first: the common name, then the alternative
    /// names. None if they do not come from an authority in `client_tls_ca_file`.
    pub(super) fn names(&self, shown: &[CertificateDer<'_>]) -> Box<[String]> {
        let Some((end, between)) = shown.split_first() else {
            return Box::default();
        };
        if let Some(verifier) = &self.verifier
            && let Err(error) = verifier.verify_client_cert(end, between, UnixTime::now())
        {
            tracing::debug!(%error, "a client's certificate does not count");
            return Box::default();
        }
        let names = certificate::names(end);
        names.common.into_iter().chain(names.alternative).collect()
    }

    /// What `tls-server-end-point` is for its certificate.
    pub(crate) fn binding(&self) -> Option<Arc<[u8]>> {
        self.binding.clone()
    }

    /// Awaits a client's first message.
    pub(super) fn session(&self) -> Result<Session, rustls::Error> {
        UnbufferedServerConnection::new(Arc::clone(&self.config)).map(Session::with_client)
    }
}

fn needs(side: &Side, missing: &'static str) -> TlsError {
    TlsError::Missing {
        setting: format!("client_tls_sslmode = {}", side.sslmode.name()),
        missing,
    }
}

fn verifier(ca: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(files::authorities(ca)?.roots);
    let built = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    built.map_err(|reason| TlsError::Authorities {
        ca: ca.to_owned(),
        reason,
    })
}
