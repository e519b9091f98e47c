//! How a client connection ends.

use bytes::Bytes;
use paceline_pool::pool::DisconnectSignal;
use paceline_wire::WireError;
use std::io;
use tokio::sync::watch;

/// Why a client's connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// It said goodbye, or a cancel request was carried out.
    #[error("client left")]
    Left,
    /// Its socket failed or it left without a word.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It broke the protocol.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// It was told why with these messages.
    #[error("connection ended by the server")]
    Told(Bytes),
    /// Its server connection was lost, with these last messages; their errors are counted.
    #[error("server connection lost")]
    Lost(Bytes),
}

/// The process ends.
pub(super) fn shut_down() -> End {
    End::Told(DisconnectSignal::ShutDown.message())
}

/// Returns when a client that does nothing is called to go, by this call or a stronger one.
pub(super) async fn disconnected(
    disconnect: &mut watch::Receiver<DisconnectSignal>,
    least: DisconnectSignal,
) -> End {
    match disconnect.wait_for(|disconnect| *disconnect >= least).await {
        Ok(disconnect) => End::Told(disconnect.message()),
        Err(_) => shut_down(),
    }
}
