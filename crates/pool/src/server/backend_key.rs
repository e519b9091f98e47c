//! Cancel requests to a server (PostgreSQL documentation, chapter "Canceling Requests in Progress").

use super::dial::connect_at;
use crate::address::Address;
use bytes::BytesMut;
use paceline_net::optional_timeout;
use paceline_wire::startup;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Identifies a backend in cancel requests.
#[derive(Debug, Clone)]
pub struct BackendKey {
    address: Arc<Address>,
    /// The address of the server at the other end: the name may resolve to several servers, or meanwhile to another one. `None`: the
    /// address decides.
    at: Option<SocketAddr>,
    /// The process id of the backend.
    pub process: u32,
    secret: u32,
}

impl BackendKey {
    /// The address of the server.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A key that the server of this connection has not sent yet.
    pub fn new(address: &Arc<Address>, at: Option<SocketAddr>) -> Self {
        Self {
            address: Arc::clone(address),
            at,
            process: 0,
            secret: 0,
        }
    }

    /// The key of a client of another Paceline or PgBouncer process.
    pub fn of_peer(address: &Arc<Address>, process: u32, secret: u32) -> Self {
        Self {
            address: Arc::clone(address),
            at: None,
            process,
            secret,
        }
    }

    /// Sets the key that the server has sent (`BackendKeyData`).
    pub(super) fn set(&mut self, (process, secret): (u32, u32)) {
        (self.process, self.secret) = (process, secret);
    }

    /// Asks the server to cancel the statement of this backend. Returns when the server has handled the request.
    ///
    /// # Errors
    /// The server cannot be reached, or closes the connection before it has the request.
    pub async fn cancel(&self) -> io::Result<()> {
        let stream = connect_at(self.at, &self.address).await?;
        let mut out = BytesMut::new();
        startup::write_cancel(&mut out, self.process, self.secret);
        stream.write_all(&mut out).await?;
        // The server closes the connection after it has sent the signal.
        let end = stream.read_some(&mut out).await;
        match end {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            other => other,
        }
    }
}

/// Asks the server to cancel the statement of this backend, and waits at most `limit` for it. False: the server may still cancel a
/// later statement of the backend.
pub async fn deliver(key: &BackendKey, limit: Duration) -> bool {
    match optional_timeout(limit, key.cancel()).await {
        Some(Ok(())) => return true,
        Some(Err(error)) => tracing::debug!(%error, "a cancel request did not reach the server"),
        None => tracing::debug!("the server did not take a cancel request in time"),
    }
    false
}

/// Cancels, in the background, the statement on a connection that is given up.
pub fn abandon(key: BackendKey, limit: Duration) {
    tokio::spawn(async move { deliver(&key, limit).await });
}
