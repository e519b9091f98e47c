//! The stand of the demonstration: an embedded PostgreSQL and a Paceline in front of it, both on loopback, both ended with it.

mod database;

use crate::connection::{Connection, Failure};
use crate::target::{Host, Target};
use anyhow::{Context, bail};
use paceline_postgres::{Options, Server};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// For Paceline to listen.
const START_LIMIT: Duration = Duration::from_secs(30);
/// For Paceline to end in good order.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Connections that the embedded PostgreSQL takes: as many a small server does.
const CONNECTIONS: usize = 400;
/// Of those that are not for clients: the lab's own, Paceline's, PostgreSQL's reserve.
const CONNECTIONS_RESERVED: usize = 20;
/// Its other settings: room for the tables, and no checkpoint in the middle of a short run.
const SERVER_SETTINGS: [(&str, &str); 3] = [
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "15min"),
];
/// Settings of Paceline: un-hinted statements travel together, too.
pub const PACELINE_SETTINGS: [&str; 2] = ["hotspot_for_autocommit=true", "default_pool_size=4"];

/// What runs.
#[derive(Debug)]
pub struct Demo {
    /// Ends before the server does.
    paceline: Paceline,
    server: Server,
}

impl Demo {
    /// Starts both; `data_dir` keeps PostgreSQL's data and is used again the next time. `program` is the file of Paceline.
    /// PostgreSQL takes as many connections as a small server does, and `clients` if these are more.
    ///
    /// # Errors
    /// PostgreSQL or Paceline does not start; nothing is left running.
    pub fn start(data_dir: &Path, program: &Path, clients: usize) -> anyhow::Result<Self> {
        let mut options = Options::new(data_dir);
        let settings = SERVER_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        options.settings.extend(settings);
        let connections = CONNECTIONS.max(clients + CONNECTIONS_RESERVED);
        let connections = ("max_connections".to_owned(), connections.to_string());
        options.settings.push(connections);
        let server = Server::start(options)?;
        let paceline = Paceline::start(program, &server)?;
        Ok(Self { paceline, server })
    }

    /// PostgreSQL itself, and the same through Paceline.
    pub fn targets(&self) -> Vec<Arc<Target>> {
        let target = |name: &str, port| {
            Arc::new(Target {
                name: name.to_owned(),
                host: Host::Tcp("127.0.0.1".to_owned()),
                port,
                user: self.server.superuser().to_owned(),
                password: None,
                database: "postgres".to_owned(),
            })
        };
        vec![
            target("direct", self.server.port()),
            target("paceline", self.paceline.address.port()),
        ]
    }

    /// The same, in an empty database for a user's own tables; what an earlier run has left there is gone.
    ///
    /// # Errors
    /// PostgreSQL refuses to make the database, or somebody else has made one of its name.
    pub async fn targets_in_empty_database(&self) -> Result<Vec<Arc<Target>>, Failure> {
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

    /// Ends both, in good order.
    ///
    /// # Errors
    /// PostgreSQL does not stop.
    pub fn stop(self) -> anyhow::Result<()> {
        drop(self.paceline);
        self.server.stop().context("PostgreSQL does not stop")
    }
}

/// A Paceline of our own; ends when it is dropped.
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
        for setting in PACELINE_SETTINGS {
            command.args(["--set", setting]);
        }
        let child = command
            // An interrupt at the terminal is for the lab, which ends the others in order.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let child = child.with_context(|| format!("cannot run {}", program.display()))?;
        let mut paceline = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let Some(stderr) = paceline.child.stderr.take() else {
            bail!("Paceline's standard error is not to be had");
        };
        let (sender, lines) = mpsc::channel();
        // Reads to the end, so that Paceline is never held up by a full pipe.
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Nobody listens any more once it has started.
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
    let mut said = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(line) = lines.recv_timeout(left) else {
            bail!("Paceline does not listen; it said: {}", said.join(" / "));
        };
        let address = line.split_once("listening on ");
        match address.and_then(|(_, address)| address.split_whitespace().next()?.parse().ok()) {
            Some(address) => return Ok(address),
            None => said.push(line),
        }
    }
}

impl Drop for Paceline {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        {
            // It has ended by itself if it cannot be told.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
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
