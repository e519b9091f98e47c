//! What an operator orders while Paceline runs, by signal or from the admin console (PgBouncer's commands).

#![allow(dead_code, reason = "orders come from the console, which comes next")]

use crate::proxy::Proxy;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// An order. Databases are named as clients name them; `None` is all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// No transaction begins; done when every server connection is free.
    Pause(Option<String>),
    /// After `Pause` or `Suspend`.
    Resume(Option<String>),
    /// No new clients.
    Disable(String),
    /// New clients again.
    Enable(String),
    /// Server connections are replaced when they become free.
    Reconnect(Option<String>),
    /// All connections of a database end at once, and it is paused.
    Kill(Option<String>),
    /// Done when every server connection that was there has been replaced or closed.
    WaitClose(Option<String>),
    /// Nobody is listened to, and buffers are empty.
    Suspend,
    /// The configuration is read again.
    Reload,
    /// The process ends.
    Shutdown(Shutdown),
}

/// When the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// At once.
    Immediate,
    /// When every transaction is over; clients that are idle are told to go (`WAIT_FOR_SERVERS`).
    WaitForServers,
    /// When every client has left by itself (`WAIT_FOR_CLIENTS`).
    WaitForClients,
}

impl Proxy {
    /// Carries out an order; returns when it is done.
    ///
    /// # Errors
    /// What whoever gave the order is told.
    pub(crate) async fn carry_out(self: &Arc<Self>, order: Order) -> Result<(), ErrorResponse> {
        let message = format!("not implemented: {order:?}");
        Err(ErrorResponse::error("0A000", message))
    }
}
