//! The web console: one page, and its data, over HTTP/1.1 on a listener of its own (`web_console_listen`). `docs/web-console.md`
//! describes it.
//!
//! | module | holds |
//! |---|---|
//! | `connection` | one connection: TLS, time limits, HTTP |
//! | `routes` | the answer to each request, and the proofs that it needs |
//! | `shared` | the state that all connections share |
//! | `sessions`, `login_limit` | sessions of browsers; the limit of attempts to log in |
//! | `sampler` | collects the contents of the page ([`crate::snapshot`]) once per second while a browser shows it |
//! | `clients`, `actions` | the list of clients; commands of operators |
//! | `page`, `response` | the page with its policy; answers |
//!
//! Without a session, a browser gets the page, which has no data, and may try a password.

mod actions;
mod clients;
mod connection;
mod login_limit;
mod page;
mod response;
mod routes;
mod sampler;
mod sessions;
mod shared;

use crate::admin::Admin;
use paceline_net::listen::accept_failed;
use shared::WebConsole;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Maximum number of connections that are served at a time. Further connections wait to be accepted.
pub const CONNECTIONS_MAX: usize = 64;

/// Serves browsers until the process ends.
pub async fn serve(admin: Arc<Admin>, listener: TcpListener) {
    let console = Arc::new(WebConsole::new(admin));
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // The semaphore is never closed, so this loop does not end.
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let console = Arc::clone(&console);
                tokio::spawn(async move {
                    connection::serve(console, stream).await;
                    drop(slot);
                });
            }
            Err(error) => accept_failed(&error).await,
        }
    }
}
