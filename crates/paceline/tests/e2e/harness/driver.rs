//! The real driver, tokio-postgres, for load and for tests as an application.

use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

/// Connects; the connection's task ends with the client.
pub(crate) async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let _detached: JoinHandle<_> = tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE of an error; empty if the server did not send it (a lost connection).
pub(crate) fn sqlstate(error: &Error) -> String {
    error
        .code()
        .map_or_else(String::new, |state| state.code().to_owned())
}

/// Whether an error means that the connection or the server is gone, so that the outcome is unknown: class 08, class 57
/// (shutdown), or a closed socket.
pub(crate) fn is_connection_failure(error: &Error) -> bool {
    let state = sqlstate(error);
    state.is_empty() || state.starts_with("08") || state.starts_with("57P")
}
