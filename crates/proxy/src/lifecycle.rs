//! The phases of the process.

use tokio::sync::watch;

/// A phase of the process. The process never returns to an earlier one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepts and serves clients.
    #[default]
    Serving,
    /// Stops accepting connections; existing clients are served normally.
    WaitingForClients,
    /// Transactions end normally; idle clients are disconnected.
    WaitingForServers,
    /// The process exits.
    Ending,
}

/// Returns when the process has reached this phase.
pub async fn reached(now: &mut watch::Receiver<Phase>, phase: Phase) {
    // An error is impossible: the proxy keeps the sender.
    let _ = now.wait_for(|now| *now >= phase).await;
}
