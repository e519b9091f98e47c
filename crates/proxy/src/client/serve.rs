//! The life of a client connection, from its first byte to its last.

use super::login::{self, ConsoleLogin, LoginResult};
use crate::connection_guard::ConnectionGuard;
use crate::proxy::Proxy;
use paceline_net::Stream;
use std::sync::Arc;

/// Runs a client connection to completion. Returns a user of the console after the login, without the connection guard; the caller
/// runs the session.
pub async fn serve(
    proxy: Arc<Proxy>,
    stream: Stream,
    guard: ConnectionGuard,
) -> Option<ConsoleLogin> {
    match Box::pin(login::log_in(Arc::clone(&proxy), stream)).await? {
        // In a task of its own: an idle client does not pay for the state of the login, and an operator can end it.
        LoginResult::Client(mut client) => {
            let entry = Arc::clone(&client.registration.entry);
            // By reference: a future that is moved in would be stored twice.
            let task = tokio::spawn(async move {
                client.run().await;
                drop(guard);
            });
            entry.info.set_task(task.abort_handle());
            None
        }
        LoginResult::Replication(mut client) => {
            let entry = client.entry();
            let task = tokio::spawn(async move {
                client.run().await;
                drop(guard);
            });
            entry.info.set_task(task.abort_handle());
            None
        }
        LoginResult::Console(login) => Some(login),
    }
}
