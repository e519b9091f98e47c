//! The servers of the demonstration: an embedded PostgreSQL and a Paceline in front of it. Both listen on loopback and end
//! with the bench.

mod database;

use crate::connection::{Connection, Result};
use crate::target::Target;
use anyhow::{Context, bail};
use paceline_postgres::{Options, Server};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Limit for Paceline to listen.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Limit for Paceline to shut down.
const STOP_LIMIT: Duration = Duration::from_secs(5);

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
/// Settings of Paceline: it also groups statements without a hint.
pub const PACELINE_SETTINGS: [&str; 2] = ["hotspot_for_autocommit=true", "default_pool_size=4"];

/// The running servers.
#[derive(Debug)]
pub struct Demo {
    /// Dropped before the server, so that Paceline ends first.
    paceline: Paceline,
    server: Server,
}

impl Demo {
    /// Starts both servers. `data_dir` holds the data of PostgreSQL and is used again the next time; `program` is the
    /// executable of Paceline. PostgreSQL admits at least `clients` clients.
    ///
    /// # Errors
    /// PostgreSQL or Paceline does not start. No process is left running.
    pub fn start(data_dir: &Path, program: &Path, clients: usize) -> anyhow::Result<Self> {
        let connections = CONNECTIONS.max(clients + CONNECTIONS_RESERVED).to_string();
        let settings = SERVER_SETTINGS.into_iter();
        let settings = settings.chain([("max_connections", connections.as_str())]);
        let mut options = Options::new(data_dir);
        options
            .settings
            .extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let server = Server::start(options)?;
        let paceline = Paceline::start(program, &server)?;
        Ok(Self { paceline, server })
    }

    /// PostgreSQL as a direct target, and through Paceline.
    pub fn targets(&self) -> Vec<Arc<Target>> {
        let user = self.server.superuser();
        let target = |name, port| Arc::new(Target::on_loopback(name, port, user, "postgres"));
        vec![
            target("direct", self.server.port()),
            target("paceline", self.paceline.address.port()),
        ]
    }

    /// The same targets with an empty database for scripts. Drops what an earlier run left in it.
    ///
    /// # Errors
    /// PostgreSQL cannot create the database, or another database has its name.
    pub async fn targets_in_empty_database(&self) -> Result<Vec<Arc<Target>>> {
        let mut targets = self.targets();
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
        drop(self.paceline);
        self.server.stop().context("PostgreSQL does not stop")
    }
}

/// A Paceline process; it ends when this value is dropped.
#[derive(Debug)]
struct Paceline {
    child: Child,
    address: SocketAddr,
}

impl Paceline {
    fn start(program: &Path, server: &Server) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]);
        command.args(["--upstream", &server.url("")]);
        command.args(
            PACELINE_SETTINGS
                .iter()
                .flat_map(|setting| ["--set", setting]),
        );
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // An interrupt at the terminal is for this process, which shuts down the others.
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("cannot run {}", program.display()))?;
        let mut paceline = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let stderr = paceline.child.stderr.take();
        let (sender, lines) = mpsc::channel();
        // The thread reads to the end, so that Paceline never blocks on a full pipe.
        thread::spawn(move || {
            let lines = stderr
                .into_iter()
                .flat_map(|stderr| BufReader::new(stderr).lines());
            for line in lines.map_while(Result::ok) {
                // Fails once `await_address` has returned.
                let _ = sender.send(line);
            }
        });
        paceline.address = await_address(&lines)?;
        Ok(paceline)
    }
}

/// Waits for the line "listening on ADDR:PORT".
fn await_address(lines: &Receiver<String>) -> anyhow::Result<SocketAddr> {
    let deadline = Instant::now() + START_LIMIT;
    let mut output = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(line) = lines.recv_timeout(left) else {
            let output = output.join(" / ");
            bail!("Paceline does not listen; its output: {output}");
        };
        let address = line.split_once("listening on ");
        match address.and_then(|(_, address)| address.split_whitespace().next()?.parse().ok()) {
            Some(address) => return Ok(address),
            None => output.push(line),
        }
    }
}

impl Drop for Paceline {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok();
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // Fails if the process has already ended.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
