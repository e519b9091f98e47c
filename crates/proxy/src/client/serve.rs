//! Runs client connections, from login to disconnect.

use super::login::{self, ConsoleLogin, LoginResult};
use crate::connection_guard::ConnectionGuard;
use crate::proxy::Proxy;
use paceline_net::Stream;
use std::sync::Arc;

/// Runs a client connection to completion. A console user is returned after the login; the caller runs the session, and the
/// connection guard is dropped.
pub async fn serve(
    proxy: Arc<Proxy>,
    stream: Stream,
    guard: ConnectionGuard,
) -> Option<ConsoleLogin> {
    match Box::pin(login::log_in(Arc::clone(&proxy), stream)).await? {
        // A separate task: the state of the login is not part of an idle client, and KILL_CLIENT can abort the task.
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
