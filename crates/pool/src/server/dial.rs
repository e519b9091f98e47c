//! Opens a socket to a server, and encrypts it as `sslmode` demands. Nothing else of the protocol is here.

use crate::address::Address;
use crate::net_settings::tcp_settings;
use bytes::BytesMut;
use paceline_config::{Host, Upstream};
use paceline_net::{Connector, SslMode, Stream};
use paceline_wire::startup;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpStream, UnixStream};

/// Opens a socket.
///
/// # Errors
/// The server cannot be reached.
pub async fn dial(upstream: &Upstream) -> io::Result<Stream> {
    match &upstream.host {
        Host::Tcp(host) => {
            let stream = TcpStream::connect((host.as_str(), upstream.port)).await?;
            Ok(Stream::tcp(stream))
        }
        Host::Unix(folder) => {
            let path = folder.join(format!(".s.PGSQL.{}", upstream.port));
            #[cfg(feature = "memory")]
            if let Some(connected) = paceline_net::memory::connect(&path).await {
                return connected;
            }
            Ok(Stream::unix(UnixStream::connect(path).await?))
        }
    }
}

/// Opens a socket to this address, or else to where the name leads.
async fn dial_at(at: Option<SocketAddr>, upstream: &Upstream) -> io::Result<Stream> {
    match at {
        Some(at) => Ok(Stream::tcp(TcpStream::connect(at).await?)),
        None => dial(upstream).await,
    }
}

/// Opens a socket to where the monitor has found the server, or else to where the name leads, and encrypts it as `sslmode` demands.
///
/// # Errors
/// The server cannot be reached, or `sslmode` demands encryption and that fails.
pub async fn connect(address: &Address) -> io::Result<Stream> {
    connect_at(address.located(), address).await
}

/// Does the same, but to this address of the server if it is known.
pub(super) async fn connect_at(at: Option<SocketAddr>, address: &Address) -> io::Result<Stream> {
    let connector = address.connector()?;
    let stream = match connector.mode() {
        SslMode::Disable | SslMode::Allow => dial_at(at, &address.upstream).await,
        SslMode::Prefer => connect_encrypted(at, address, &connector, false).await,
        _ => connect_encrypted(at, address, &connector, true).await,
    }?;
    stream.set_tcp_options(&tcp_settings(&address.tcp));
    Ok(stream)
}

/// Asks the server for TLS. Unless it is `required`, falls back to an unencrypted connection if the server has no TLS or the
/// handshake fails.
async fn connect_encrypted(
    at: Option<SocketAddr>,
    address: &Address,
    connector: &Connector,
    required: bool,
) -> io::Result<Stream> {
    let server = &address.upstream;
    let mut stream = dial_at(at, server).await?;
    let Host::Tcp(host) = &server.host else {
        return Ok(stream);
    };
    match encrypt(&mut stream, connector, host).await {
        Ok(()) if required && !stream.is_encrypted() => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "server does not support SSL, but SSL was required",
        )),
        Ok(()) => Ok(stream),
        Err(error) if required => Err(error),
        Err(error) => {
            tracing::warn!(%server, %error, "TLS handshake failed; connecting without TLS");
            dial_at(at, server).await
        }
    }
}

/// Encrypts the stream if the server offers TLS.
async fn encrypt(stream: &mut Stream, connector: &Connector, host: &str) -> io::Result<()> {
    if offers_tls(stream).await? {
        connector.connect(stream, host).await?;
    }
    Ok(())
}

async fn offers_tls(stream: &Stream) -> io::Result<bool> {
    let mut packet = BytesMut::new();
    startup::write_ssl_request(&mut packet);
    stream.write_all(&mut packet).await?;
    stream.read_some(&mut packet).await?;
    match packet.as_ref() {
        b"S" => Ok(true),
        b"N" => Ok(false),
        // An attacker may have inserted further bytes (CVE-2021-23222).
        [b'S' | b'N', ..] => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "received unencrypted data after SSL response",
        )),
        _ => Err(io::Error::other(
            "server sent an error response during SSL exchange",
        )),
    }
}

impl Address {
    fn connector(&self) -> io::Result<Arc<Connector>> {
        let connector = self.keyring.connector(&self.upstream);
        connector.map_err(io::Error::other)
    }

    /// The location of the server, found by the monitor.
    fn located(&self) -> Option<SocketAddr> {
        self.location.as_ref()?.address()
    }

    /// Opens a connection with TLS instead of without, or without instead of with, if `sslmode` allows that.
    pub(super) async fn connect_otherwise(&self, encrypted: bool) -> Option<Stream> {
        let connector = self.connector().ok()?;
        let opened = match (connector.mode(), encrypted) {
            (SslMode::Prefer, true) => dial_at(self.located(), &self.upstream).await,
            (SslMode::Allow, false) => {
                connect_encrypted(self.located(), self, &connector, true).await
            }
            _ => return None,
        };
        opened
            .ok()
            .filter(|stream| stream.is_encrypted() != encrypted)
    }
}
