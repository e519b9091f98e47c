//! The end of a client connection.

use bytes::Bytes;
use paceline_pool::pool::DisconnectSignal;
use paceline_wire::WireError;
use std::io;
use tokio::sync::watch;

/// The reason why a client connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientEnd {
    /// The client sent Terminate, or the connection carried a cancel request.
    #[error("client left")]
    Left,
    /// The socket failed, or was closed without Terminate.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The client violated the protocol.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The client gets these messages, which say why.
    #[error("connection ended by the server")]
    Error(Bytes),
    /// The server connection was lost. The client gets these last messages; their errors are already counted.
    #[error("server connection lost")]
    ServerLost(Bytes),
}

/// The process shuts down.
pub(super) fn shut_down() -> ClientEnd {
    ClientEnd::Error(DisconnectSignal::ShutDown.message())
}

/// The client has not read its answer, so that it can get no further message.
pub(super) fn not_read() -> ClientEnd {
    ClientEnd::Io(io::ErrorKind::ConnectionAborted.into())
}

/// Returns when an idle client must disconnect because of this signal or a stronger one.
pub(super) async fn disconnected(
    disconnect: &mut watch::Receiver<DisconnectSignal>,
    least: DisconnectSignal,
) -> ClientEnd {
    match disconnect.wait_for(|disconnect| *disconnect >= least).await {
        Ok(disconnect) => ClientEnd::Error(disconnect.message()),
        Err(_) => shut_down(),
    }
}
