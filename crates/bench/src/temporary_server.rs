//! A server of the lab, on loopback and in a temporary folder. Dropping the value ends the server and removes the folder.

use crate::connection::{Connection, Failure, Result};
use crate::target::Target;
use anyhow::Context;
use paceline_postgres::{Options, Server};
use tempfile::TempDir;

/// Minimum of `max_connections`.
const CONNECTIONS: usize = 400;
/// Connections that are not available to clients: those of the lab, of Paceline and of the replicas, and the reserve.
const CONNECTIONS_RESERVED: usize = 40;
/// Other settings: no checkpoint during a run, enough log for a replica that follows another primary, and short pauses before
/// it tries again to connect.
const SETTINGS: [(&str, &str); 5] = [
    ("shared_buffers", "128MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "15min"),
    ("wal_keep_size", "1GB"),
    ("wal_retrieve_retry_interval", "100ms"),
];
/// The database of the lab.
pub(crate) const DATABASE: &str = "postgres";
/// `max_connections` of a server for this number of clients.
pub(crate) fn connections_for(clients: usize) -> usize {
    CONNECTIONS.max(2 * clients + CONNECTIONS_RESERVED)
}

/// A server with a temporary folder.
#[derive(Debug)]
pub(crate) struct TemporaryServer {
    /// Dropped before the folder.
    pub(crate) server: Server,
    _folder: TempDir,
}

impl TemporaryServer {
    pub(crate) fn start(connections: usize) -> anyhow::Result<Self> {
        let folder = folder()?;
        Ok(Self {
            server: Server::start(options(&folder, connections))?,
            _folder: folder,
        })
    }

    /// A streaming replica of this server.
    pub(crate) fn replica(&self, connections: usize) -> anyhow::Result<Self> {
        let folder = folder()?;
        Ok(Self {
            server: self.server.replica(options(&folder, connections))?,
            _folder: folder,
        })
    }

    pub(crate) fn target(&self, name: &str, port: u16) -> Target {
        Target::on_loopback(name, port, self.server.superuser(), DATABASE)
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        Connection::open(&self.target("server", self.server.port())).await
    }
}

impl Drop for TemporaryServer {
    fn drop(&mut self) {
        // Its data is not needed any more, so it need not be stopped in an orderly way.
        let _ = self.server.kill();
        let _ = std::fs::remove_dir_all(self.server.socket_dir());
    }
}

fn folder() -> anyhow::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("paceline-bench-").tempdir();
    folder.context("cannot create a temporary folder")
}

fn options(folder: &TempDir, connections: usize) -> Options {
    let mut options = Options::new(folder.path());
    let connections = connections.to_string();
    let settings = SETTINGS.into_iter();
    let settings = settings.chain([("max_connections", connections.as_str())]);
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    options.settings.extend(settings.map(owned));
    options
}
