//! TLS towards servers: Paceline is the one that asks, as libpq would.

use super::files;
use super::session::Session;
use super::verify::Verifier;
use super::{ALPN, TlsError, provider, versions};
use paceline_config::{Side, SslMode};
use rustls::ClientConfig;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// What every connection to a server needs.
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    /// When TLS is used.
    pub(crate) mode: SslMode,
}

impl Connector {
    /// Reads the files.
    pub(super) fn new(side: &Side) -> Result<Self, TlsError> {
        let mode = side.sslmode;
        let trust = match &side.ca_file {
            Some(ca) if mode != SslMode::Disable => Some(files::authorities(ca)?),
            None if mode >= SslMode::VerifyCa => {
                return Err(TlsError::Missing {
                    setting: format!("server_tls_sslmode (or sslmode) = {}", mode.name()),
                    missing: "server_tls_ca_file (or sslrootcert in the URL)",
                });
            }
            _ => None,
        };
        let verifier = Verifier::new(trust, mode == SslMode::VerifyFull, &provider());
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(&side.protocols))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let identity = match mode {
            SslMode::Disable => None,
            _ => files::identity(side)?,
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

    /// Begins with a server that was asked for by this name or address.
    pub(super) fn session(&self, host: &str) -> Result<Session, rustls::Error> {
        // What is no name for a certificate is no use for SNI either; where it matters, no certificate fits it.
        let nobody = ServerName::from(IpAddr::from(Ipv4Addr::UNSPECIFIED));
        let name = ServerName::try_from(host.to_owned()).unwrap_or(nobody);
        let config = Arc::clone(&self.config);
        UnbufferedClientConnection::new(config, name).map(Session::with_server)
    }
}
