//! TLS towards servers: Paceline is the TLS client, as libpq would be.

use super::certificate;
use super::error::TlsError;
use super::files;
use super::provider::{ALPN, provider, versions};
use super::session::{PeerIdentity, TlsSession};
use super::settings::{SslMode, TlsSettings};
use super::verify::ServerVerifier;
use crate::stream::Stream;
use bytes::BytesMut;
use rustls::ClientConfig;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Starts TLS with servers.
pub struct Connector {
    config: Arc<ClientConfig>,
    mode: SslMode,
}

impl Connector {
    /// Reads the files.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn new(settings: &TlsSettings) -> Result<Self, TlsError> {
        let mode = settings.sslmode;
        let trust = match &settings.ca_file {
            Some(ca) if mode != SslMode::Disable => Some(files::authorities(ca)?),
            None if mode >= SslMode::VerifyCa => {
                return Err(TlsError::Missing {
                    setting: format!("server_tls_sslmode (or sslmode) = {}", mode.name()),
                    missing: "server_tls_ca_file (or sslrootcert in the URL)",
                });
            }
            _ => None,
        };
        let verifier = ServerVerifier::new(trust, mode == SslMode::VerifyFull, &provider());
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(settings.versions))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let identity = match mode {
            SslMode::Disable => None,
            _ => files::identity(settings)?,
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            mode,
        })
    }

    /// Returns whether the caller must, may or must not use TLS.
    pub fn mode(&self) -> SslMode {
        self.mode
    }

    /// Encrypts the connection to a server that has accepted `SSLRequest`; `host` is the name or address that was dialled. If this
    /// fails, nothing can be sent on the stream any more.
    ///
    /// # Errors
    /// The socket's, or `InvalidData`, for example if the certificate is rejected.
    pub async fn connect(&self, stream: &mut Stream, host: &str) -> io::Result<()> {
        let socket = stream.begin_handshake();
        let mut session = self.session(host).map_err(io::Error::other)?;
        let mut input = BytesMut::new();
        session.decrypt(&mut [], &mut input);
        session.handshake(socket, &mut input).await?;
        if !input.is_empty() {
            let message = "the server sent data before the start-up packet";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let channel_binding = session.peer_certificates().first();
        let channel_binding = channel_binding.and_then(|cert| certificate::end_point(cert));
        let identity = PeerIdentity {
            channel_binding: channel_binding.map(Arc::from),
            names: Box::default(),
        };
        stream.encrypt(session, identity);
        Ok(())
    }

    pub(super) fn session(&self, host: &str) -> Result<TlsSession, rustls::Error> {
        // A host that is no valid name for a certificate is no use for SNI either. If certificates must name the host, this address
        // makes the check fail.
        let unspecified = ServerName::from(IpAddr::from(Ipv4Addr::UNSPECIFIED));
        let name = ServerName::try_from(host.to_owned()).unwrap_or(unspecified);
        let config = Arc::clone(&self.config);
        UnbufferedClientConnection::new(config, name).map(TlsSession::with_server)
    }
}
