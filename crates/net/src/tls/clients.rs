//! TLS towards clients: Paceline is the TLS server, as PostgreSQL would be.

use super::certificate;
use super::error::TlsError;
use super::files;
use super::provider::{ALPN, provider, versions};
use super::session::{PeerIdentity, TlsSession};
use super::settings::{SslMode, TlsSettings};
use super::verify::OptionalClientCert;
use crate::stream::Stream;
use bytes::BytesMut;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The name of HTTP/1.1 in ALPN.
const HTTP_ALPN: &[u8] = b"http/1.1";

/// Accepts TLS from clients.
pub struct Acceptor {
    config: Arc<ServerConfig>,
    mode: SslMode,
    /// Verifies certificates that the handshake accepts unverified.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    channel_binding: Option<Arc<[u8]>>,
}

impl Acceptor {
    /// Reads the files; `None` if TLS towards clients is disabled.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn new(settings: &TlsSettings) -> Result<Option<Self>, TlsError> {
        if settings.sslmode == SslMode::Disable {
            return Ok(None);
        }
        if settings.cert_file.is_none() {
            return Err(needs(settings, "client_tls_cert_file"));
        }
        let identity = files::identity(settings)?;
        let identity = identity.ok_or_else(|| needs(settings, "client_tls_key_file"))?;
        Self::with_identity(settings, identity).map(Some)
    }

    /// As [`Acceptor::new`], with this certificate instead of that in the files.
    pub(super) fn with_identity(
        settings: &TlsSettings,
        identity: CertifiedKey,
    ) -> Result<Self, TlsError> {
        let channel_binding = identity.cert.first();
        let channel_binding = channel_binding.and_then(|cert| certificate::end_point(cert));
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(settings.versions))?;
        let verifier = settings.ca_file.as_deref().map(verifier).transpose()?;
        let is_required = settings.sslmode >= SslMode::VerifyCa;
        let (builder, verifier) = match verifier {
            None if is_required => return Err(needs(settings, "client_tls_ca_file")),
            None => (builder.with_no_client_auth(), None),
            Some(verifier) if is_required => (builder.with_client_cert_verifier(verifier), None),
            Some(verifier) => {
                let optional = OptionalClientCert(Arc::clone(&verifier));
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
            mode: settings.sslmode,
            verifier,
            channel_binding: channel_binding.map(Arc::from),
        })
    }

    /// The same for HTTP/1.1: browsers name this protocol by ALPN, and not PostgreSQL's.
    #[must_use]
    pub fn for_http(&self) -> Self {
        let mut config = (*self.config).clone();
        config.alpn_protocols = vec![HTTP_ALPN.to_vec()];
        Self {
            config: Arc::new(config),
            mode: self.mode,
            verifier: self.verifier.clone(),
            channel_binding: self.channel_binding.clone(),
        }
    }

    /// Whether a client that connects over TCP must use TLS.
    pub fn is_required(&self) -> bool {
        self.mode >= SslMode::Require
    }

    /// Returns the channel binding data of the certificate (`tls-server-end-point`).
    pub fn channel_binding(&self) -> Option<Arc<[u8]>> {
        self.channel_binding.clone()
    }

    /// Encrypts the connection of a client. `input` holds the TLS bytes that the client has sent so far; afterwards it holds plain text
    /// that followed the handshake. A client that started TLS without `SSLRequest` (`direct`) must name the protocol by ALPN. If this
    /// fails, nothing can be sent on the stream any more.
    ///
    /// # Errors
    /// The socket's, or `InvalidData`; then the client has been sent a TLS alert if the socket accepted it.
    pub async fn accept(
        &self,
        stream: &mut Stream,
        input: &mut BytesMut,
        direct: bool,
    ) -> io::Result<()> {
        let socket = stream.begin_handshake();
        let session = UnbufferedServerConnection::new(Arc::clone(&self.config));
        let mut session = TlsSession::with_client(session.map_err(io::Error::other)?);
        let mut hello = std::mem::take(input);
        session.decrypt(&mut hello, input);
        session.handshake(socket, input).await?;
        if direct && session.alpn_protocol() != Some(ALPN) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "received direct SSL connection request without ALPN protocol negotiation extension",
            ));
        }
        let identity = PeerIdentity {
            channel_binding: self.channel_binding.clone(),
            names: self.names(session.peer_certificates()),
        };
        stream.encrypt(session, identity);
        Ok(())
    }

    /// Returns the names in the certificate that a client has sent, the common name before the alternative names; none if the
    /// certificate does not come from an authority in `client_tls_ca_file`.
    fn names(&self, chain: &[CertificateDer<'_>]) -> Box<[String]> {
        let Some((end, between)) = chain.split_first() else {
            return Box::default();
        };
        if let Some(verifier) = &self.verifier
            && let Err(error) = verifier.verify_client_cert(end, between, UnixTime::now())
        {
            tracing::debug!(%error, "client certificate ignored");
            return Box::default();
        }
        let names = certificate::names(end);
        names.common.into_iter().chain(names.alternative).collect()
    }
}

fn needs(settings: &TlsSettings, missing: &'static str) -> TlsError {
    TlsError::Missing {
        setting: format!("client_tls_sslmode = {}", settings.sslmode.name()),
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
