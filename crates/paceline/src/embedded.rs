//! Starts the embedded PostgreSQL, which is the server of every database if the configuration names none.

use paceline_config::{Database, Host, SslMode, Upstream, UpstreamTls};
use paceline_postgres::{Options, Server};
use std::net::Ipv4Addr;
use std::path::Path;

/// Starts PostgreSQL in `data_dir`, unless that is `None`. Returns the server and a database on it.
///
/// # Errors
/// PostgreSQL cannot be found, downloaded or started.
pub(crate) fn start(data_dir: Option<&Path>) -> anyhow::Result<(Option<Server>, Option<Database>)> {
    let Some(data_dir) = data_dir else {
        return Ok((None, None));
    };
    tracing::info!(data_dir = %data_dir.display(), "starting PostgreSQL");
    let server = Server::start(Options::new(data_dir))?;
    tracing::info!(version = %server.version(), port = server.port(), "PostgreSQL is ready");
    let database = Database::at(upstream(server.port()));
    Ok((Some(server), Some(database)))
}

/// The address of the embedded server.
fn upstream(port: u16) -> Upstream {
    Upstream {
        host: Host::Tcp(Ipv4Addr::LOCALHOST.to_string()),
        port,
        // Clients keep their own user and database.
        user: None,
        password: None,
        dbname: None,
        // The embedded PostgreSQL has no TLS.
        tls: UpstreamTls {
            sslmode: Some(SslMode::Disable),
            ..UpstreamTls::default()
        },
    }
}
