//! The servers of the demonstration: an embedded PostgreSQL and a Paceline in front of it. Both listen on loopback and end
//! with the bench.

mod database;
mod thin_link;

use crate::connection::{Connection, Result};
use crate::paceline::Paceline;
use crate::target::Target;
use anyhow::Context;
use paceline_postgres::{Options, Server};
use std::path::Path;
use std::sync::Arc;
use thin_link::ThinLink;

/// `max_connections` of the embedded PostgreSQL, unless there are more clients; usual for a small server.
const CONNECTIONS: usize = 400;
/// Connections that are not available to clients: those of the lab and of Paceline, and the reserve of PostgreSQL.
const CONNECTIONS_RESERVED: usize = 20;
/// Other settings: enough memory for the tables, and no checkpoint during a short run.
const SERVER_SETTINGS: [(&str, &str); 3] = [
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "15min"),
];

/// The running servers.
#[derive(Debug)]
pub struct Demo {
    /// One for each list of further settings. Dropped before the server, so that Paceline ends first.
    pacelines: Vec<(Settings, Paceline)>,
    /// Started for variants that need it. Dropped before the server, too.
    thin_link: Option<ThinLink>,
    server: Server,
}

/// Further settings of a Paceline.
type Settings = &'static [&'static str];

impl Demo {
    /// Starts PostgreSQL, and a Paceline for each of these lists of further settings. `data_dir` holds the data of PostgreSQL and
    /// is used again the next time; `program` is the executable of Paceline. PostgreSQL admits at least `clients` clients.
    ///
    /// # Errors
    /// PostgreSQL or Paceline does not start. No process is left running.
    pub fn start(
        data_dir: &Path,
        program: &Path,
        clients: usize,
        each: &[Settings],
    ) -> anyhow::Result<Self> {
        let connections = CONNECTIONS.max(clients + CONNECTIONS_RESERVED).to_string();
        let settings = SERVER_SETTINGS.into_iter();
        let settings = settings.chain([("max_connections", connections.as_str())]);
        let mut options = Options::new(data_dir);
        options
            .settings
            .extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let server = Server::start(options)?;
        let mut pacelines = Vec::new();
        for &settings in each {
            let paceline = Paceline::start(program, &server.url(""), settings)?;
            pacelines.push((settings, paceline));
        }
        Ok(Self {
            pacelines,
            thin_link: None,
            server,
        })
    }

    /// Starts an imitated link with a Paceline at each end. Returns the targets behind it.
    ///
    /// # Errors
    /// Paceline does not start.
    pub fn start_thin_link(&mut self, program: &Path) -> anyhow::Result<Vec<Arc<Target>>> {
        let link = ThinLink::start(program, &self.server)?;
        let targets = link.targets(self.server.superuser());
        self.thin_link = Some(link);
        Ok(targets)
    }

    /// PostgreSQL as a direct target, and through the Paceline with these further settings, if it was started.
    pub fn targets(&self, settings: &[&str]) -> Vec<Arc<Target>> {
        let user = self.server.superuser();
        let target = |name, port| Arc::new(Target::on_loopback(name, port, user, "postgres"));
        let mut pacelines = self.pacelines.iter();
        let paceline = pacelines.find(|(of, _)| *of == settings);
        let paceline = paceline.map(|(_, paceline)| target("paceline", paceline.port()));
        let direct = target("direct", self.server.port());
        std::iter::once(direct).chain(paceline).collect()
    }

    /// The same targets with an empty database for scripts. Drops what an earlier run left in it.
    ///
    /// # Errors
    /// PostgreSQL cannot create the database, or another database has its name.
    pub async fn targets_in_empty_database(&self) -> Result<Vec<Arc<Target>>> {
        let mut targets = self.targets(&[]);
        if let Some(direct) = targets.first() {
            let mut conn = Connection::open(direct).await?;
            database::make_empty(&mut conn).await?;
            conn.close().await;
        }
        for target in &mut targets {
            database::NAME.clone_into(&mut Arc::make_mut(target).database);
        }
        Ok(targets)
    }

    /// Shuts down both servers.
    ///
    /// # Errors
    /// PostgreSQL does not stop.
    pub fn stop(self) -> anyhow::Result<()> {
        drop(self.pacelines);
        drop(self.thin_link);
        self.server.stop().context("PostgreSQL does not stop")
    }
}
