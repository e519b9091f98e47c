//! TLS towards clients: Paceline is the one that is asked, as PostgreSQL would be.

use super::certificate;
use super::files;
use super::session::Session;
use super::{ALPN, TlsError, provider, versions};
use crate::config::{Side, SslMode};
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use std::path::Path;
use std::sync::Arc;

/// What every handshake with a client needs.
pub(crate) struct Acceptor {
    config: Arc<ServerConfig>,
    mode: SslMode,
    binding: Option<Arc<[u8]>>,
}

impl Acceptor {
    /// Reads the files; `None`: there is no TLS towards clients.
    pub(super) fn new(side: &Side) -> Result<Option<Self>, TlsError> {
        if side.sslmode == SslMode::Disable {
            return Ok(None);
        }
        let needs = |missing| TlsError::Missing {
            setting: format!("client_tls_sslmode = {}", side.sslmode.name()),
            missing,
        };
        let cert = side
            .cert_file
            .as_deref()
            .ok_or_else(|| needs("client_tls_cert_file"))?;
        let (chain, key) = files::identity(side)?.ok_or_else(|| needs("client_tls_key_file"))?;
        let binding = chain.first().and_then(|cert| certificate::end_point(cert));
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(side.protocols))?;
        let builder = match (side.sslmode >= SslMode::VerifyCa, &side.ca_file) {
            (true, None) => return Err(needs("client_tls_ca_file")),
            (true, Some(ca)) => builder.with_client_cert_verifier(verifier(ca)?),
            (false, _) => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|reason| TlsError::Unusable {
            cert: cert.to_owned(),
            reason,
        })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Some(Self {
            config: Arc::new(config),
            mode: side.sslmode,
            binding: binding.map(Arc::from),
        }))
    }

    /// Must a client that comes by TCP use TLS?
    pub(crate) fn is_required(&self) -> bool {
        self.mode >= SslMode::Require
    }

    /// What `tls-server-end-point` is for its certificate.
    pub(super) fn binding(&self) -> Option<Arc<[u8]>> {
        self.binding.clone()
    }

    /// Awaits a client's first message.
    pub(super) fn session(&self) -> Result<Session, rustls::Error> {
        UnbufferedServerConnection::new(Arc::clone(&self.config)).map(Session::with_client)
    }
}

fn verifier(ca: &Path) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let roots = Arc::new(files::authorities(ca)?.roots);
    let built = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    built.map_err(|reason| TlsError::Authorities {
        ca: ca.to_owned(),
        reason,
    })
}
